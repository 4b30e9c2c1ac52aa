/** Runs with tiers: what outcomes say of slices, and what a replay recomputes of them, in memory. */
import { replayRun } from 'nostrain/certified';
import {
  applyOutcome,
  applyToChain,
  type Certified,
  genesisOf,
  hasModel,
  replay,
  startOf,
  withoutModel,
} from 'nostrain/certified/parts';
import { layoutOfRun } from 'nostrain/model';
import { nativeCrypto as crypto } from 'nostrain/node';
import type { Outcome } from 'nostrain/run';
import { createLayout } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { openingOf } from '../../src/certified/decisions/chain.ts';
import { recordRun } from '../../src/certified/records/replay-run.ts';
import { certifiedSpec, generateRun } from '../support/certified-run.ts';
import { evidenceOf, runOnce } from '../support/eventful-run.ts';
import { tieredSections, tieredTraining } from '../support/tiers.ts';

const TIERS = 2;
const other = 'e'.repeat(64);
const spec = certifiedSpec({
  ...{ tiers: TIERS, joinsPerRound: 4, training: tieredTraining },
  ...tieredSections(4),
});
const made = runOnce('sliced', () => generateRun([{}, {}, {}], spec));
const found = evidenceOf('sliced', made);
const archive = { events: made.events, beacons: [] };
let steps: readonly { readonly before: Certified; readonly outcome: Outcome }[] | undefined;
const stepOf = (round: number) => {
  steps ??= [...replay(genesisOf(spec, startOf(spec)), found)].map(({ before, decided }) => {
    if (decided === undefined || !hasModel(before)) throw new Error('not replayed');
    return { before, outcome: decided.outcome };
  });
  return steps[round]!;
};
const codeOf = (ruling: ReturnType<typeof applyToChain>) =>
  ruling.ok ? 'valid' : 'missing' in ruling ? 'missing' : ruling.invalid.code;

describe('a run with tiers', () => {
  it('is replayed with the roots of its slices, and each of them is recorded', async () => {
    const stored: string[] = [];
    const { report, record } = await recordRun(
      archive,
      { crypto },
      {
        every: 0,
        async keep({ ring, modelRoot }, bytes) {
          stored.push(`${ring} ${modelRoot} ${bytes.length}`);
        },
      },
    );
    expect(report).toMatchObject({ ok: true, rounds: 3, modelRoot: made.state.modelRoot });
    const slices = layoutOfRun(spec).slices!;
    const roots = made.state.sliceRoots!;
    expect(slices).toHaveLength(TIERS + 1);
    expect(stored).toEqual(slices.map(({ from, to }, i) => `${i} ${roots[i]} ${8 * (to - from)}`));
    expect(record.states.map(({ ring, rounds }) => [ring, rounds])).toEqual([
      [0, 3],
      [1, 3],
      [2, 3],
    ]);
  });

  it('lists the root of every slice and the typical size of every added one in its outcomes', () => {
    const { outcome } = stepOf(1);
    const { rings, sizes } = outcome.features.widths!;
    expect(rings).toEqual(stepOf(2).before.sliceRoots);
    expect(sizes).toHaveLength(TIERS);
    expect(stepOf(2).before.before?.sliceRoots).toEqual(stepOf(1).before.sliceRoots);
  });

  it.each<
    [string, (widths: { rings: readonly string[]; sizes: readonly number[] }) => object | undefined]
  >([
    ['without slices', () => undefined],
    ['with a slice less', ({ rings, ...rest }) => ({ ...rest, rings: rings.slice(1) })],
    ['with a slice more', ({ rings, ...rest }) => ({ ...rest, rings: [...rings, other] })],
    [
      'with another slice',
      ({ rings, ...rest }) => ({ ...rest, rings: [other, ...rings.slice(1)] }),
    ],
    ['with a size less', ({ sizes, ...rest }) => ({ ...rest, sizes: sizes.slice(1) })],
    ['with a size more', ({ sizes, ...rest }) => ({ ...rest, sizes: [...sizes, 1] })],
  ])('an outcome %s is invalid, with the model and without it', (_, change) => {
    const { before, outcome } = stepOf(1);
    const { widths, ...rest } = outcome.features;
    const widened = change(widths!);
    const changed = {
      ...outcome,
      features: { ...rest, ...(widened && { widths: widened }) },
    } as Outcome;
    expect(codeOf(applyToChain(withoutModel(before), changed, found))).toBe('wrong-rings');
    expect(codeOf(applyOutcome(before, changed, found))).not.toBe('valid');
    expect(codeOf(applyToChain(withoutModel(before), outcome, found))).toBe('valid');
  });

  it('is checked by a worker of a small tier in the slices that it has', async () => {
    const [first] = layoutOfRun(spec).slices!;
    const tier = TIERS;
    const part = startOf(spec, undefined, tier);
    expect(part.values).toHaveLength(first!.to);
    const state = openingOf(spec, { first: undefined });
    expect(state.sliceRoots).toHaveLength(TIERS + 1);
    const opened = genesisOf(spec, part);
    expect(opened.sliceRoots).toEqual(stepOf(0).before.sliceRoots);
    expect(opened.modelRoot).toBe(stepOf(0).before.modelRoot);
    const { outcome } = stepOf(0);
    const next = applyOutcome(opened, outcome, found);
    expect(codeOf(next)).toBe('valid');
    if (!next.ok) return;
    expect(next.value.sliceRoots).toEqual(stepOf(1).before.sliceRoots);
    const full = stepOf(1).before.params.values;
    expect([...next.value.params.values]).toEqual([...full.slice(0, first!.to)]);
    // the root of its own slice is computed, and those of the others are taken from the outcome
    const { widths, ...rest } = outcome.features;
    const forged = {
      ...outcome,
      features: { ...rest, widths: { ...widths!, rings: [other, ...widths!.rings.slice(1)] } },
    };
    expect(codeOf(applyOutcome(opened, forged as Outcome, found))).not.toBe('valid');
    const lost = { ...found, payload: () => undefined };
    expect(codeOf(applyOutcome(opened, outcome, lost))).toBe('missing');
    expect(codeOf(applyOutcome(opened, { ...outcome, round: 1 }, found))).toBe('wrong-round');
    const layout = createLayout([{ name: 'w', shape: [first!.to - 1] }]);
    expect(() => openingOf(spec, { first: new Float32Array(layout.size) })).toThrow();
  });

  it('reports the same in every replay', async () => {
    const report = await replayRun(archive, { crypto });
    expect(report.lines.map(({ checked }) => checked)).toEqual(['full', 'full', 'full']);
  });
});
