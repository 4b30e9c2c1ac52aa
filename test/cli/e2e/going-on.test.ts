/** Starting again in the same folder: what binds, what may change, and what a finished run says. */

import { createRelay } from 'nostrain/relay';
import { expect, it, onTestFinished } from 'vitest';
import { runProgram, temporaryFolder } from '../../support/processes.ts';

it('a run goes on with other --sync, says when it is finished, and trains on with more rounds', async () => {
  const relay = await createRelay();
  onTestFinished(() => relay.close());
  const home = temporaryFolder();
  const start = (...flags: readonly string[]) =>
    runProgram(
      [
        ...['run-training', '--model', 'linear', '--run', 'alone', '--relay', relay.url],
        ...['--report', 'plain', ...flags],
      ],
      home,
    );
  const first = await start('--sync', 'strict:1', '--seed', '7', '--rounds', '4');
  expect(first.code, first.stderr).toBe(0);

  const again = await start('--sync', 'quorum');
  expect(again.code, again.stderr).toBe(0);
  expect(again.stdout).toMatch(/This run is finished \(4 rounds, loss \d+\.\d\d\)\./);
  expect(again.stdout).not.toContain('resuming at');

  const more = await start('--sync', 'quorum', '--rounds', '6');
  expect(more.code, more.stderr).toBe(0);
  expect(more.stdout).toContain('resuming at round 5');
  expect(more.stdout).toContain('done after 6 rounds');

  const other = await start('--seed', '8', '--inner-steps', '80');
  expect(other.code).toBe(1);
  expect(other.stderr).toContain('holds a run with other settings: seed 7 -> 8\n');
  expect(other.stderr).toContain('leave out --seed to resume that run');
}, 120_000);
