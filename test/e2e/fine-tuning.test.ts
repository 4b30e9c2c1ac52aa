/** Workers that fine-tune a published model together: a tiny one that the test writes, from a folder, over a relay of our own. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writePlay } from 'nostrain/model';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Program, startProgram, temporaryFolder } from '../support/processes.ts';
import { writeTinyLlama } from '../support/tiny-llama.ts';

const home = temporaryFolder();
const base = join(home, 'tiny');
const corpus = join(home, 'play.txt');
const relays: Relay[] = [];
const programs: Program[] = [];

beforeAll(async () => {
  await writeTinyLlama(base);
  writeFileSync(corpus, writePlay({ minimumBytes: 40_000 }));
});
afterEach(async () => {
  for (const { child } of programs.splice(0)) child.kill('SIGKILL');
  for (const one of relays.splice(0)) await one.close();
});

async function relay(): Promise<string> {
  const one = await createRelay();
  relays.push(one);
  return one.url;
}

/** Worker `index` of two. */
function start(index: number, url: string, more: readonly string[] = []): Program {
  const program = startProgram([
    ...['run-training', '--base', base, '--run', 'tune', '--relay', url, '--corpus', corpus],
    ...['--dir', temporaryFolder(), '--shard', `${index + 1}/2`, '--sync', 'strict:2'],
    ...['--rounds', '3', '--inner-steps', '4', '--context', '32', '--rank', '4'],
    ...['--local-learning-rate', '0.01', '--report', 'ndjson', '--device', 'cpu', ...more],
  ]);
  programs.push(program);
  return program;
}

const end = async (program: Program) => {
  const done = await program.event(({ type }) => type === 'done');
  if (done.type !== 'done') throw new TypeError();
  return done;
};

describe('two workers with one base', () => {
  it.each([
    ['adapters', []],
    ['all of it', ['--rank', '0', '--set', 'eventBudget=1000000']],
  ])('train %s and end with the same bits', async (_, more) => {
    const url = await relay();
    const [one, other] = await Promise.all([0, 1].map((index) => end(start(index, url, more))));
    expect(one?.digest).toBe(other?.digest);
    expect(one?.rounds).toBe(3);
    expect(one!.lossAfter).toBeLessThan(one!.lossBefore);
  });

  it('may hold it in different precisions', async () => {
    const url = await relay();
    const pair = [start(0, url), start(1, url, ['--set', 'basePrecision=q4'])];
    const [one, other] = await Promise.all(pair.map(end));
    expect(one?.digest).toBe(other?.digest);
    expect(one?.lossBefore).not.toBe(other?.lossBefore);
    expect(other!.lossAfter).toBeLessThan(other!.lossBefore);
  });

  it('that differs by one byte are told at once, by the name of the file', async () => {
    const url = await relay();
    const changed = await writeTinyLlama(join(home, 'changed'), {
      change: (values) => {
        values[0] = values[0]! * 2;
      },
    });
    const [one, other] = [start(0, url), start(1, url, ['--base', changed])];
    for (const program of [one, other]) {
      const told = await program.event(
        (event) => event.type === 'notice' && event.message.includes('another base'),
      );
      expect(told).toMatchObject({
        message: expect.stringContaining('model.safetensors differs.') as string,
      });
      expect(program.events.some(({ type }) => type === 'published')).toBe(false);
    }
  });

  it('that is broken is refused before anything trains', async () => {
    const url = await relay();
    const broken = await writeTinyLlama(join(home, 'broken'), {
      change: (values) => {
        values[9] = Number.NaN;
      },
    });
    const program = start(0, url, ['--base', broken]);
    expect(await program.exit).toBe(1);
    expect(program.output.stderr).toMatch(/model\/weights.*holds NaN at 9/);
    expect(program.events.some(({ type }) => type === 'hello')).toBe(false);
  });
});

describe('workers with a corpus of conversations', () => {
  const template = `{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`;
  const talks = Array.from({ length: 150 }, (_, i) =>
    JSON.stringify({
      messages: [
        { role: 'user', content: `What comes after ${i}?` },
        { role: 'assistant', content: `After ${i} comes ${i + 1}.` },
      ],
    }),
  );
  const withTemplate = async (name: string) => {
    const folder = await writeTinyLlama(join(home, name));
    writeFileSync(
      join(folder, 'tokenizer_config.json'),
      JSON.stringify({ chat_template: template }),
    );
    return folder;
  };

  it('learn what the assistant says, and tell their loss in bits per byte', async () => {
    const url = await relay();
    const file = join(home, 'talks.jsonl');
    writeFileSync(file, talks.join('\n'));
    const more = ['--base', await withTemplate('talking'), '--corpus', file];
    const [one, other] = await Promise.all([0, 1].map((index) => end(start(index, url, more))));
    expect(one?.digest).toBe(other?.digest);
    expect(one!.lossAfter).toBeLessThan(one!.lossBefore);
    // its tokens are bytes
    expect(one!.bitsPerByte).toBeCloseTo(one!.validationLoss! / Math.LN2, 5);
  });

  it('end before anything trains when a line is of no use', async () => {
    const url = await relay();
    const file = join(home, 'broken.jsonl');
    writeFileSync(file, [...talks, '{"answer": 42}'].join('\n'));
    const program = start(0, url, ['--base', await withTemplate('refusing'), '--corpus', file]);
    expect(await program.exit).toBe(1);
    expect(program.output.stderr).toContain('line 151 of');
    expect(program.events.some(({ type }) => type === 'hello')).toBe(false);
  });
});
