/** A real model writes what transformers writes with it, from a stored fixture (test/vectors/make_greedy.py). */

import { openLocalModel } from 'nostrain/node/parts';
import { expect, it } from 'vitest';
import { runCommand } from '../../support/command-line.ts';
import { describeWith } from '../../support/needs.ts';
import { smolLM2, smolLM2Missing } from '../../support/smollm2.ts';
import { readVectors } from '../../support/vectors.ts';

interface Text {
  readonly text: string;
  readonly prompt: readonly number[];
  readonly tokens: readonly number[];
}

const MINUTES = 5 * 60_000;

describeWith(smolLM2Missing)('SmolLM2-135M-Instruct', () => {
  const [text, question] = readVectors<{ smollm2: readonly [Text, Text] }>('greedy.json').smollm2;
  const flags = ['--base', smolLM2, '--temperature', '0', '--length', '24'];

  it('continues a text and answers a question as transformers does, token by token', {
    timeout: MINUTES,
  }, async () => {
    const { tokenizer } = await openLocalModel(smolLM2);
    const written = ({ tokens }: Text) =>
      tokenizer.decode(tokens.filter((token) => !tokenizer.end.includes(token)));
    const plain = await runCommand('sample', ...flags, '--prompt', text.text);
    expect(plain.stdout).toBe(`${text.text}${written(text)}\n`);
    expect(tokenizer.ids(question.text)).toEqual(question.prompt);
    const chat = await runCommand('sample', ...flags, '--chat', '--prompt', 'What is a relay?');
    expect(chat.stdout).toBe(`${written(question)}\n`);
  });
});
