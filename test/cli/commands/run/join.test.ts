/** `nostrain run join`: what may be typed beside a run, by what its spec leaves to each worker. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { canonicalSpec, type RunSpec } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { runCommand } from '../../../support/command-line.ts';
import { temporaryFolder } from '../../../support/processes.ts';
import { sampleSpec } from '../../../support/run-spec.ts';
import { tieredBaseSpec, tieredSpec } from '../../../support/tiers.ts';

const home = temporaryFolder();
const fileOf = (name: string, spec: RunSpec): string => {
  const file = join(home, `${name}.run.json`);
  writeFileSync(file, canonicalSpec(spec));
  return file;
};
const plain = fileOf('plain', sampleSpec());
const own = fileOf('own', tieredSpec([0]));
const ofBase = fileOf('base', tieredBaseSpec([0], 'qv'));

describe('beside a run', () => {
  it.each([
    ['--tier without tiers', plain, ['--tier', '1'], '--tier goes with runs with tiers'],
    [
      '--tier-strategy of a model of our own',
      own,
      ['--set', 'tierStrategy=sliced'],
      '--set tierStrategy goes with runs with tiers of a published model',
    ],
    [
      'a helper',
      own,
      ['--tier', '1', '--set', 'helper=true'],
      '--set helper goes with runs without a spec',
    ],
    [
      'the rotation of helpers',
      ofBase,
      ['--set', 'helperRotation=2'],
      '--set helperRotation goes with runs without a spec',
    ],
  ])('%s is refused', async (_, file, flags, reason) => {
    const { exitCode, stderr } = await runCommand('run', 'join', file, ...flags);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(reason);
  });

  it('--tier-strategy is taken where a base has tiers', async () => {
    const typed = ['--tier', '1', '--set', 'tierStrategy=sliced', '--relay', 'ws://127.0.0.1:9'];
    const { stderr } = await runCommand('run', 'join', ofBase, ...typed);
    expect(stderr).toContain('base/missing');
  });
});

it('run inspect has a line for each slice of a base', async () => {
  const { stdout } = await runCommand('run', 'inspect', ofBase);
  expect(stdout.match(/^start\.rings of tier \d +[0-9a-f]{64}$/gm)).toHaveLength(3);
  expect((await runCommand('run', 'inspect', plain)).stdout).not.toContain('start.rings');
});
