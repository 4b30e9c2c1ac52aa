import { buildLobby, joinLineOf, lockOf } from 'nostrain/friends';
import { createRelay } from 'nostrain/relay';
import { beforeAll, describe, expect, it } from 'vitest';
import type { RunPicture } from '../../../src/dashboard/run-picture.ts';
import { generateRun } from '../../support/certified-run.ts';
import { runCommand } from '../../support/command-line.ts';
import { publishRaw } from '../../support/publish-raw.ts';
import { keyOf, signerOf } from '../../support/swarm.ts';

const made = generateRun();

describe('nostrain watch', () => {
  let url: string;
  beforeAll(async () => {
    const relay = await createRelay();
    url = relay.url;
    await publishRaw(url, made.events);
    return () => relay.close();
  });

  it('says each round once, what went wrong in it, and how far the one under way is', async () => {
    const { exitCode, stdout } = await runCommand('watch', made.run, '--relay', url, '--once');
    expect(exitCode).toBe(0);
    const lines = stdout.trim().split('\n');
    expect(lines[0]).toContain(`made up  linear, 8 rounds, open tier, run ${made.run}`);
    expect(lines.filter((line) => /^round +\d+ {2}(?:final|void)/.test(line))).toHaveLength(7);
    expect(lines.find((line) => line.startsWith('round    4'))).toContain('void');
    expect(lines.find((line) => line.startsWith('round    5'))).toContain('(base-mismatch)');
    expect(lines.find((line) => line.startsWith('round    6'))).toContain('(equivocation)');
    expect(lines.at(-1)).toMatch(/^round 8: 0 of \d contributions, 0 prepared, 0 of \d committed/);
  });

  it('prints pictures as lines of JSON', async () => {
    const asked = ['watch', made.run, '--relay', url, '--once', '--ndjson'] as const;
    const { stdout } = await runCommand(...asked);
    const picture: RunPicture = JSON.parse(stdout.trim().split('\n').at(-1)!);
    expect(picture.rounds.map(({ outcome }) => outcome)).toEqual(
      made.rounds.map(({ digest }) => digest),
    );
    expect(picture.isCaughtUp).toBe(true);
  });

  it('leaves nothing behind that would tell more, or keep a process alive', async () => {
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout');
    const before = timers().length;
    for (let i = 0; i < 3; i++) await runCommand('watch', made.run, '--relay', url, '--once');
    expect(timers().length).toBeLessThanOrEqual(before);
  });

  it('follows the run of a lobby by the line of its host, once it has started', async () => {
    const secret = '0f'.repeat(16);
    const address = { host: keyOf(0), name: 'winter' };
    const line = joinLineOf({ ...address, relays: [url], secret });
    const lobby = { ...address, people: 2, lock: lockOf(secret, address), what: 'linear' };
    const announce = (run: string | undefined, createdAt: number) =>
      publishRaw(url, [
        signerOf(0).sign(buildLobby({ ...lobby, run, names: new Map() }, createdAt)),
      ]);
    const now = Math.floor(Date.now() / 1000);
    expect((await runCommand('watch', line, '--once')).stderr).toContain('lobby/unknown');
    await announce(undefined, now - 1);
    expect((await runCommand('watch', line, '--once')).stderr).toContain('lobby/waiting');
    await announce(made.run, now);
    const { exitCode, stdout } = await runCommand('watch', `nostr:${line}`, '--once');
    expect(exitCode).toBe(0);
    expect(stdout).toContain(`run ${made.run}`);
  });

  it('names the run once on a terminal, and keeps its lines within the width', async () => {
    const { stdout: out } = process;
    const given = { isTTY: out.isTTY, columns: out.columns };
    Object.assign(out, { isTTY: true, columns: 80 });
    try {
      const { stdout } = await runCommand('watch', made.run, '--relay', url, '--once');
      const lines = stdout.split('\n').filter((line) => line !== '');
      expect(lines.filter((line) => line.startsWith('made up'))).toHaveLength(1);
      const plain = lines.filter((line) => /^round +\d+ {2}final/.test(line));
      expect(plain.length).toBeGreaterThan(0);
      for (const line of plain.filter((each) => !/\(|joined|left/.test(each))) {
        expect(line.length).toBeLessThan(81);
      }
    } finally {
      Object.assign(out, given);
    }
  });

  it('says what to do where no relay has the run', async () => {
    const { exitCode, stderr } = await runCommand('watch', 'a'.repeat(64), '--relay', url);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('run/not-found');
  });
});
