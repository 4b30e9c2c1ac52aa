import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { npubEncode } from 'nostr-tools/nip19';
import { firstRandomness } from 'nostrain/consensus';
import { describe, expect, it, test } from 'vitest';
import { runCommand } from '../../../support/command-line.ts';
import { keyOf, keysUpTo } from '../../../support/members.ts';
import { writeMembers } from '../../../support/members-file.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const file = temporaryFolder();
const run = keyOf(900);
const who = (members: string, ...change: readonly string[]) =>
  runCommand('witness', 'who', '--run', run, '--round', '1', '--members', members, ...change);
const written = async (name: string, text: string): Promise<string> => {
  await writeFile(file(name), text);
  return file(name);
};
const row = (index: number, stake: unknown = `${index + 1}`) => ({ key: keyOf(index), stake });

describe('witness who', () => {
  it('R-01: another run, batch, epoch, entropy or membership gives others; k of all gives all', async () => {
    const members = writeMembers(Array.from({ length: 40 }, (_, i) => i));
    const ask = async (from: string, ...change: readonly string[]) => {
      const { stdout } = await who(from, '--entropy', keyOf(5), '-k', '8', ...change);
      return stdout.trimEnd().split('\n');
    };
    const first = await ask(members);
    const left = Array.from({ length: 40 }, (_, i) => i).filter((i) => keyOf(i) !== first[0]);
    const fewer = await ask(writeMembers(left));
    const others = [
      await ask(members, '--run', 'y'),
      await ask(members, '--batch', '3'),
      await ask(members, '--round', '9'),
      await ask(members, '--entropy', keyOf(6)),
    ];
    expect(new Set([first, fewer, ...others].map(String)).size).toBe(6);
    expect(fewer.slice(0, 7)).toEqual(first.slice(1));
    const everybody = await ask(members, '-k', '64');
    expect(everybody.slice(0, 8)).toEqual(first);
    expect([...everybody].sort()).toEqual([...keysUpTo(40)].sort());
  });

  it('tells without --entropy that anybody can foresee the draw', async () => {
    const members = writeMembers([0, 1, 2, 3, 4]);
    const { exitCode, stdout, stderr } = await who(members, '-k', '3');
    expect(exitCode).toBe(0);
    expect(stderr).toContain('so anybody can predict the result');
    const same = await who(members, '-k', '3', '--entropy', firstRandomness(run));
    expect(same).toEqual({ exitCode: 0, stdout, stderr: '' });
  });

  it('as JSON names the draw, the quorum and the stakes', async () => {
    const { stdout } = await who(writeMembers([0, 1, 2, 3, 4]), '--json', '--min-stake', '3');
    const told = JSON.parse(stdout);
    expect(told).toMatchObject({ run, round: 0, attempt: 0, seats: 3, quorum: 3 });
    const rows = [...told.witnesses].sort((a, b) => a.stake - b.stake);
    expect(rows).toEqual([row(2), row(3), row(4)]);
  });

  it('reads lines, arrays, snapshots and npubs alike; members without stake have no seat', async () => {
    const rows = [0, 1, 2, 3].map((i) => row(i));
    const forms = [
      `${rows.map((each) => JSON.stringify(each)).join('\n')}\n\n`,
      JSON.stringify(rows),
      JSON.stringify(rows.map((each) => ({ ...each, stake: Number(each.stake) }))),
      JSON.stringify({ chain: 'eip155:1', rows }),
      JSON.stringify({ members: [...rows, row(4, '0')] }),
      JSON.stringify(rows.map((each) => ({ ...each, key: npubEncode(each.key) }))),
    ];
    const told = new Set<string>();
    for (const form of forms) told.add((await who(await written('m', form))).stdout);
    expect(told.size).toBe(1);
    const bare = keysUpTo(4).map((key) => JSON.stringify({ key }));
    expect((await who(await written('m', bare.join('\n')))).exitCode).toBe(0);
  });

  test.each([
    ['{"key": "abc"}', 'member 1 has no public key'],
    ['{"key": "npub1xyz"}', 'member 1 has no public key'],
    [JSON.stringify([row(0), row(0)]), `member 2 repeats the key ${keyOf(0)}`],
    [JSON.stringify([row(0, -1)]), 'member 1 has a stake that is not'],
    [JSON.stringify([row(0, 1.5)]), 'member 1 has a stake that is not'],
    [JSON.stringify([row(0, 'much')]), 'member 1 has a stake that is not'],
    [JSON.stringify([row(0, '0')]), 'no member with a stake'],
    ['[]', 'no member with a stake'],
    ['[1]', 'member 1 is not an object'],
    ['{"key": \n{', 'line 1 is not JSON'],
  ])('refuses %s', async (text, words) => {
    const { exitCode, stderr } = await who(await written('bad', text));
    expect(exitCode).toBe(1);
    expect(stderr).toContain(words);
  });

  test.each([
    ['--entropy', 'abc'],
    ['--epoch', '1.5'],
    ['--round', '0'],
    ['--epoch', '0'],
    ['-k', '0'],
    ['--min-stake', '-1'],
    ['--weights', 'none'],
  ])('refuses %s %s', async (flag, value) => {
    const { exitCode } = await who(writeMembers([0]), flag, value);
    expect(exitCode).toBe(2);
  });

  it('names a file that is not there', async () => {
    const { exitCode, stderr } = await who(file('nowhere'));
    expect([exitCode, stderr.includes('cannot read the members file')]).toEqual([1, true]);
  });
});

describe('witness inspect', () => {
  const inspect = async (...flags: readonly string[]) => {
    const { stdout, exitCode } = await runCommand('witness', 'inspect', ...flags, '--json');
    expect(exitCode).toBe(0);
    return JSON.parse(stdout).rows;
  };

  it('prints K, k, f, d and the odds per round and run', async () => {
    const flags = ['--hostile', '0.1', '-k', '64', '--differ', '2', '--rounds', '100'];
    const [only, ...none] = await inspect(...flags);
    expect(none).toEqual([]);
    expect(only).toMatchObject({ seats: 64, quorum: 43, away: 21, equivocate: 19, differ: 2 });
    expect(only.forgery.perRun / only.forgery.perRound).toBeCloseTo(100, 0);
    const { stdout } = await runCommand('witness', 'inspect', ...flags);
    expect(stdout).toMatch(/10 % +64 +43 +21 +19 +2 /);
  });

  it('gives the whole table without flags, and counts keys of a file', async () => {
    expect(await inspect()).toHaveLength(15);
    const [only] = await inspect('--members', writeMembers([0, 1, 2, 3]), '--hostile', '0.25', '-k', '64'); // biome-ignore format: one call
    expect(only).toMatchObject({ seats: 4, quorum: 3, equivocate: 1 });
    expect(only.forgery.perRound).toBe(0);
  });

  it('refuses a share that is none', async () => {
    const { exitCode } = await runCommand('witness', 'inspect', '--hostile', '1');
    expect(exitCode).toBe(2);
  });
});

describe('R-06: npm run bench:witness', () => {
  it('prints processor time and memory beside a coordinator measured or modelled', async () => {
    const flags = [
      '--keys',
      '2000',
      '--keys',
      '100',
      '--reads-per-second',
      '1000',
      '--rtt-ms',
      '50',
    ];
    const bench = join(import.meta.dirname, '../../../bench/witness.ts');
    const sources = ['--import', 'tsx', '--conditions=nostrain:source'];
    const ran = await promisify(execFile)(process.execPath, [
      ...sources,
      bench,
      ...flags,
      '--json',
    ]);
    expect(ran.stderr).toContain('drawing 16 of 2,000');
    const { rows } = JSON.parse(ran.stdout);
    expect(rows).toMatchObject([
      { keys: 100, isMeasured: true, messages: 101 },
      { keys: 2000, isMeasured: false, messages: 2001, coordinatorMs: 2100 },
    ]);
    for (const { coldMs, cachedMs, memoryBytes } of rows) {
      expect(coldMs).toBeGreaterThan(0);
      expect(cachedMs).toBeGreaterThan(0);
      expect(memoryBytes).toBeGreaterThanOrEqual(0);
    }
  });

  it('is what nostrain witness bench says to type', async () => {
    const { exitCode, stderr } = await runCommand('witness', 'bench', '--keys', '1000');
    expect(exitCode).toBe(2);
    expect(stderr).toContain('npm run bench:witness');
  });
});
