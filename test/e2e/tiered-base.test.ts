/** Workers of several tiers of a published model: a tiny one that the test writes, whole or in slices, over a relay of our own. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createRelay, type Relay } from '../../relay/server.ts';
import { writePlay } from '../../src/model/data/playwright.ts';
import { exportTiers, tierFolder } from '../../src/node/tiers/export.ts';
import { type Program, startProgram, temporaryFolder } from '../support/processes.ts';
import { writeTinyLlama } from '../support/tiny-llama.ts';

const home = temporaryFolder();
const base = join(home, 'tiny');
const corpus = join(home, 'play.txt');
const relays: Relay[] = [];
const programs: Program[] = [];
const { signal } = new AbortController();

beforeAll(async () => {
  await writeTinyLlama(base);
  await exportTiers(base, [1], { signal });
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
    ['adapters of all layers', ['--rank', '4', '--targets', 'all-linear']],
    ['adapters whose first matrix is the seed’s', ['--rank', '4', '--targets', 'all-linear', '--adapter-train', 'b']], // biome-ignore format: one line
    ['all of it', ['--rank', '0']],
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
});
