import { describe, expect, it } from 'vitest';
import { type Asker, askCommand } from '../../src/cli/first-command.ts';
import { createProgram } from '../../src/cli/main.ts';
import { encodeInvitation } from '../../src/friends/line.ts';

/** Answers questions in order; what is wrong with an answer is kept, and the next one is taken. */
function answering(...answers: string[]) {
  const problems: string[] = [];
  const next = (): string => {
    const answer = answers.shift();
    if (answer === undefined) throw new Error('one question too many');
    return answer;
  };
  const asker: Asker = {
    choose: async (_message, choices) => {
      const answer = next();
      const chosen = choices.find(({ value }) => value === answer);
      if (chosen === undefined) throw new Error(`${answer} is no choice`);
      return chosen.value;
    },
    askText: async ({ usual = '', problem }) => {
      for (;;) {
        const answer = next() || usual;
        const wrong = problem?.(answer);
        if (wrong === undefined) return answer;
        problems.push(wrong);
      }
    },
  };
  return { asker, problems, left: answers };
}

const line = encodeInvitation({
  host: '11'.repeat(32),
  name: 'winter',
  relays: ['ws://192.168.0.2:7777'],
  secret: '22'.repeat(16),
});

describe('the first command of a person', () => {
  it('is a demo after one answer', async () => {
    expect(await askCommand(answering('watch').asker)).toEqual(['demo', 'gpt']);
  });

  it('hosts under valid names and counts only', async () => {
    const { asker, problems, left } = answering('host', 'two words', 'snow', '1', '4', 'Anna B');
    const words = await askCommand(asker);
    expect(words).toEqual(['host', 'snow', '--people', '4', '--name', 'Anna B']);
    expect(problems).toHaveLength(2);
    expect(left).toEqual([]);
  });

  it('hosts as usual if a person only presses Enter', async () => {
    const words = await askCommand(answering('host', '', '', '').asker);
    expect(words).toEqual(['host', 'winter', '--people', '3']);
  });

  it('joins by a whole line', async () => {
    const { asker, problems } = answering('join', line.slice(0, -4), line, 'Bea');
    expect(await askCommand(asker)).toEqual(['join', line, '--name', 'Bea']);
    expect(problems).toHaveLength(1);
  });

  it('names commands and flags that exist', async () => {
    for (const answers of [['watch'], ['host', '', '', 'Anna'], ['join', line, 'Bea']]) {
      const words = await askCommand(answering(...answers).asker);
      const program = await createProgram(words[0]);
      const command = program.commands.find((each) => each.name() === words[0])!;
      const flags = words.filter((word) => word.startsWith('--'));
      expect(command.options.map(({ long }) => long)).toEqual(expect.arrayContaining(flags));
    }
  });
});
