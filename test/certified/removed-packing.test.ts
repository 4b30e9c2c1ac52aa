/** A recorded run whose packing and residual rule this version has removed (`ternary`, `owned`; made at 7c02c271). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { replayRun } from 'nostrain/certified';
import type { SignedEvent } from 'nostrain/network';
import { parseRunSpec, runIdOf } from 'nostrain/run';
import { expect, it } from 'vitest';
import { settingsOf } from '../../src/run/spec/read-spec.ts';
import { planOf } from '../../src/worker/plan.ts';

interface Recorded {
  readonly spec: string;
  readonly events: readonly SignedEvent[];
  readonly run: string;
  readonly runRoot: string;
  readonly modelRoot: string;
  readonly ledgerRoot: string;
}

const file = join(import.meta.dirname, '../vectors/removed-packing-run.json');
const { spec: text, events, ...roots }: Recorded = JSON.parse(readFileSync(file, 'utf8'));
const spec = parseRunSpec(text);

it('keeps its id, and its votes and roots verify without decoding payloads', async () => {
  expect(runIdOf(spec)).toBe(roots.run);
  const report = await replayRun({ events, beacons: [] }, { run: roots.run });
  expect(report).toMatchObject({ ...roots, rounds: 2, firstBad: null, bad: [] });
  expect(report.lines.map(({ checked }) => checked)).toEqual(['chain', 'chain']);
  // the model was not recomputed
  expect(report.ok).toBe(false);
});

it('a changed vote is found all the same', async () => {
  const changed = events.filter(({ kind }) => kind !== events.at(-1)!.kind);
  const report = await replayRun({ events: changed, beacons: [] }, { spec });
  expect(report.rounds).toBeLessThan(2);
});

it('does not start a worker, and says which version plays it', () => {
  expect(() => planOf(settingsOf(spec, { relay: [] }), {})).toThrow(
    'ternary was removed; nostrain 0.1.0 still replays runs with it',
  );
  const owned = { ...spec, training: { ...spec.training, packing: 'int8' as const } };
  expect(() => planOf(settingsOf(owned, { relay: [] }), {})).toThrow('owned was removed');
});
