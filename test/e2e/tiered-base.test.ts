/** Workers of several tiers of a published model: a tiny one that the test writes, whole or in slices, over a relay of our own. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writePlay } from 'nostrain/model';
import { exportTiers, tierFolder } from 'nostrain/node/parts';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Program, startProgram, temporaryFolder } from '../support/processes.ts';
import { writeTinyLlama } from '../support/tiny-llama.ts';

const home = temporaryFolder();
const base = join(home, 'tiny');
const slice = tierFolder(base, 1);
const corpus = join(home, 'play.txt');
const relays: Relay[] = [];
const programs: Program[] = [];
const { signal } = new AbortController();

beforeAll(async () => {
  await writeTinyLlama(base);
  await exportTiers(base, [1, 2], { signal });
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

interface Cast {
  readonly tier: string;
  readonly from?: string;
  readonly dir?: string;
  readonly more?: readonly string[];
}

/** Worker `index` of three. */
function start(
  index: number,
  url: string,
  { tier, from = base, dir = temporaryFolder(), more = [] }: Cast,
): Program {
  // biome-ignore format: one line
  const program = startProgram([
    ...['run-training', '--base', from, '--run', 'tune', '--relay', url, '--corpus', corpus],
    ...['--dir', dir, '--shard', `${index + 1}/3`, '--sync', 'strict:3'],
    ...['--rounds', '2', '--inner-steps', '4', '--context', '32', '--tiers', '2', '--tier', tier],
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

describe('three workers of tiers 0, 1 and 2 of one base', () => {
  it.each([
    ['adapters of all layers', ['--rank', '4', '--set', 'targets=all-linear']],
    ['all of it', ['--rank', '0', '--set', 'tierStrategy=universal']],
  ])('train %s and end with the same bits where they hold the same', async (_, more) => {
    const url = await relay();
    const cast: readonly Cast[] = [{ tier: '0' }, { tier: '1' }, { tier: '2' }];
    const started = cast.map((each, index) => start(index, url, { ...each, more }));
    const ends = await Promise.all(started.map(end));
    const rounds = started.map(({ events }) => events.filter((each) => each.type === 'round'));
    expect(rounds.map((each) => each.map(({ accepted }) => accepted.length))).toEqual([
      [3, 3],
      [3, 3],
      [3, 3],
    ]);
    const last = rounds.map((each) => each.at(-1)!);
    expect(new Set(last.map(({ digest }) => digest)).size).toBe(1);
    expect(last.map(({ outer = [] }) => outer.length)).toEqual([2, 1, 0]);
    expect(last[1]!.outer).toEqual(last[0]!.outer!.slice(0, 1));
    for (const one of ends) expect(one.lossAfter).toBeLessThan(one.lossBefore);
    const told = started.flatMap(({ events }) => events.filter((each) => each.type === 'notice'));
    expect(told.filter(({ message }) => message.includes('strategy'))).toHaveLength(3);
  });

  it('may have slices of it, each its own', async () => {
    const url = await relay();
    const cast: readonly Cast[] = [{ tier: '0' }, { tier: '1' }, { tier: '2', from: slice }];
    const more = ['--rank', '4', '--set', 'targets=all-linear'];
    const started = cast.map((each, index) => start(index, url, { ...each, more }));
    const ends = await Promise.all(started.map(end));
    expect(ends[1]!.digest).toBe(ends[2]!.digest);
    const banners = started.map(({ events }) =>
      events.flatMap((each) =>
        each.type === 'notice' && each.message.includes('strategy') ? [each.message] : [],
      ),
    );
    expect(banners.map(([one]) => /^[^:]+/.exec(one!)![0])).toEqual([
      'tier 0 of 2 (requested 0), effective tier 0, strategy universal',
      'tier 1 of 2 (requested 1), effective tier 1, strategy sliced',
      // E-06: a slice is taken as it is
      'tier 1 of 2 (requested 2), effective tier 1, strategy sliced',
    ]);
    const last = started.map(({ events }) => events.findLast((each) => each.type === 'round')!);
    expect(last.map(({ accepted }) => accepted.length)).toEqual([3, 3, 3]);
    expect(last[2]!.outer).toEqual(last[1]!.outer);
  });

  it('E-07: that start from other numbers are told at once, and nobody trains', async () => {
    const url = await relay();
    const changed = await writeTinyLlama(join(home, 'changed'), {
      change: (values) => {
        values[0] = values[0]! * 2;
      },
    });
    const pair = [start(0, url, { tier: '1' }), start(1, url, { tier: '2', from: changed })];
    for (const program of pair) {
      const told = await program.event(
        (event) => event.type === 'notice' && event.message.includes('another base'),
      );
      expect(told).toMatchObject({
        message: expect.stringContaining('weights of tier 2 differs.') as string,
      });
      expect(program.events.some(({ type }) => type === 'published')).toBe(false);
    }
  });

  it.each([
    ['E-05: a tier without a slice', { tier: '3', more: ['--tiers', '3', '--set', 'tierStrategy=sliced'] }, /tiers\/no-such-tier.*has 0, 1, 2/], // biome-ignore format: one line
    ['E-06: a slice that would be cut twice', { tier: '1', from: slice, more: ['--set', 'tierStrategy=universal'] }, /tiers\/DoubleSlicing/], // biome-ignore format: one line
    [
      'a slice beyond the tiers of the run',
      { tier: '0', from: tierFolder(base, 2), more: ['--tiers', '1'] },
      /tiers\/no-such-tier.*is tier 2, and the run has tiers 0 to 1/,
    ],
  ] as const)('refuse %s before anything trains', async (_, cast, reason) => {
    const program = start(0, await relay(), cast);
    expect(await program.exit).toBeGreaterThan(0);
    expect(program.output.stderr).toMatch(reason);
    expect(program.events.some(({ type }) => type === 'hello')).toBe(false);
  });
});
