import { createRelay } from 'nostrain/relay';
import { beforeAll, describe, expect, it } from 'vitest';
import type { RunPicture } from '../../../src/dashboard/run-picture.ts';
import { generateRun } from '../../support/certified-run.ts';
import { runCommand } from '../../support/command-line.ts';
import { publishRaw } from '../../support/publish-raw.ts';

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

  it('says what to do where no relay has the run', async () => {
    const { exitCode, stderr } = await runCommand('watch', 'a'.repeat(64), '--relay', url);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('run/not-found');
  });
});
