/** Witnesses of a real run: by its spec and what its relays have. */
import { writeFile } from 'node:fs/promises';
import {
  electorateOf,
  gather,
  genesisOf,
  replay,
  startOf,
  withEntropy,
} from 'nostrain/certified/parts';
import { createRelay, type Relay } from 'nostrain/relay';
import { canonicalSpec } from 'nostrain/run';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { generateRun } from '../../../support/certified-run.ts';
import { runCommand } from '../../../support/command-line.ts';
import { publishRaw } from '../../../support/publish-raw.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const made = generateRun();
const gathered = gather(made.events, made);
const inFolder = temporaryFolder();
let spec: string;
let relay: Relay;
beforeAll(async () => {
  relay = await createRelay();
  await publishRaw(relay.url, made.events);
});
afterAll(() => relay.close());
beforeEach(async () => {
  spec = inFolder('run.json');
  await writeFile(spec, canonicalSpec(made.spec));
});

/** The committee that a replay finds. */
function committeeOf(round: number): readonly string[] {
  for (const { before } of replay(genesisOf(made.spec, startOf(made.spec)), gathered)) {
    if (before.round !== round) continue;
    const ready = withEntropy(before, gathered);
    if (ready.ok) return electorateOf(ready.value, null).committee.members;
  }
  throw new Error(`no round ${round}`);
}

const who = (...flags: readonly string[]) =>
  runCommand('witness', 'who', '--spec', spec, '--relay', relay.url, ...flags);

describe('witness who --spec', () => {
  it('prints the committee of a round as the run itself has it', async () => {
    for (const round of [0, 5]) {
      const { exitCode, stdout, stderr } = await who('--round', String(round + 1));
      const byIndex = await who('--epoch', String(round));
      expect(byIndex.stdout).toBe(stdout);
      expect(exitCode, stderr).toBe(0);
      expect(stdout.trimEnd().split('\n')).toEqual(committeeOf(round));
    }
  });

  it('of the round in progress, where none is named', async () => {
    const { stdout } = await who('--json');
    const told = JSON.parse(stdout);
    const { state } = made;
    expect(told).toMatchObject({ run: made.run, round: 7, entropy: state.ledger.entropy });
    const keys = told.witnesses.map(({ key }: { readonly key: string }) => key);
    expect(keys).toEqual(electorateOf(state, null).committee.members);
  });

  it('of a round that nobody reached there is none', async () => {
    const { exitCode, stderr } = await who('--round', '10');
    expect(exitCode).toBe(2);
    expect(stderr).toContain('round 8 is in progress');
  });

  it('without a run or its parts there is nothing to draw from', async () => {
    const { exitCode, stderr } = await runCommand('witness', 'who', '--run', 'x');
    expect(exitCode).toBe(2);
    expect(stderr).toContain('use --spec FILE');
  });
});

it('witness inspect --spec takes seats, quorum and rounds from the run', async () => {
  const ask = (...flags: readonly string[]) =>
    runCommand('witness', 'inspect', '--spec', spec, '--hostile', '0.25', '--json', ...flags);
  const told = JSON.parse((await ask()).stdout);
  expect(told).toMatchObject({ keys: 4, rule: 'bft', rounds: 8, rows: [{ seats: 4, quorum: 3 }] });
  const more = JSON.parse((await ask('--keys', '1000', '--quorum', 'cft')).stdout);
  expect(more).toMatchObject({ keys: 1000, rule: 'cft', rows: [{ seats: 64, quorum: 33 }] });
});
