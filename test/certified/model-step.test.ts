/**
 * The outer step of a certified model with tiers: which contributions each value is averaged over, what stays
 * unchanged, and the roots that follow.
 */

import { genesisOf } from 'nostrain/certified/parts';
import { modelRoot } from 'nostrain/consensus';
import { createPacker } from 'nostrain/network';
import { nativeSha256 } from 'nostrain/node';
import { chunkCount, partialOf, prefixOfPartial } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import type { CountedContribution } from '../../src/certified/decisions/contributions.ts';
import { sliceMismatch, stepModel } from '../../src/certified/decisions/outcomes.ts';
import { rootsOfSlices } from '../../src/certified/decisions/slices.ts';
import { tieredSpec, tierOfModel } from '../support/tiers.ts';

const spec = tieredSpec([0], { training: { outerLearningRate: 1, momentum: 0.5 } });
const { slices = [], size } = tierOfModel(spec, 0).layout;

const stateOf = (tier: number) => {
  const { layout, first } = tierOfModel(spec, tier);
  return genesisOf(spec, { layout, values: first });
};

/** A contribution with one value everywhere in the part that a worker of this tier has. */
function rowOf(worker: string, tier: number, examples: number, held: number): CountedContribution {
  const until = slices[slices.length - 1 - tier]!.to;
  const indices = Uint32Array.from({ length: size }, (_, i) => i);
  const all = partialOf({ size, indices, values: new Float64Array(size).fill(0.01) });
  const delta = prefixOfPartial(all, held, Math.min(until, held));
  const said = { eventId: worker, round: 0, base: '', steps: 1, createdAt: 0 };
  const contribution = { ...said, worker, delta, examples, payloadBytes: 1, eventBytes: 1 };
  return { late: false, contribution };
}

const rowsFor = (tiers: readonly number[], held: number) =>
  tiers.map((tier, i) => rowOf(`${i}`, tier, 8 * (i + 1), held));

const everyone = () => 1;

describe('a step of several tiers', () => {
  it('E-09: one contribution of the full model and three of half of it move all values equally, whatever their examples', () => {
    const state = stateOf(0);
    const { model, taken } = stepModel(state, rowsFor([0, 1, 1, 1], size), everyone);
    const rate = 1 + spec.training.momentum;
    const expected = state.params.values.map((value) => value - 0.01 * rate);
    // padding of a slice moves too, since these contributions have one value everywhere
    expect(model.params.values).toEqual(Float32Array.from(expected));
    expect(taken!.moved).toHaveLength(chunkCount(size));
  });

  it('E-08: a slice without contributions keeps its bits, momentum and root', () => {
    const state = stateOf(0);
    const { model, roots, typical } = stepModel(state, rowsFor([1, 2], size), everyone);
    const outer = slices[2]!;
    expect(model.params.values.subarray(outer.from)).toEqual(
      state.params.values.subarray(outer.from),
    );
    expect(model.momentum.subarray(outer.from).every((value) => value === 0)).toBe(true);
    expect(roots.sliceRoots![2]).toBe(state.sliceRoots![2]);
    expect(roots.sliceRoots!.slice(0, 2)).not.toEqual(state.sliceRoots!.slice(0, 2));
    expect(typical[2]).toBe(0);
    expect(roots.modelRoot).toBe(rootsOfSlices(roots.sliceRoots!).modelRoot);
  });

  it.each([1, 2])(
    'a worker of tier %d computes the same slices, and takes the other roots from the outcome',
    (tier) => {
      const whole = stepModel(stateOf(0), rowsFor([0, 0, 1, 2], size), everyone);
      const state = stateOf(tier);
      expect(state.modelRoot).toBe(stateOf(0).modelRoot);
      const held = state.params.layout.size;
      const outer = whole.roots.sliceRoots!;
      const part = stepModel(state, rowsFor([0, 0, 1, 2], held), everyone, { outer });
      expect(part.roots).toEqual(whole.roots);
      expect(part.model.params.values).toEqual(whole.model.params.values.subarray(0, held));
      expect(part.typical).toEqual(whole.typical.slice(0, 3 - tier));
    },
  );

  it('a worker of a small tier holds an outcome against the root and the typical size of its own slices', () => {
    const whole = stepModel(stateOf(0), rowsFor([0, 0, 1, 2], size), everyone);
    const sliceRoots = whole.roots.sliceRoots!;
    const held = stateOf(1).params.layout.size;
    const part = stepModel(stateOf(1), rowsFor([0, 0, 1, 2], held), everyone, {
      outer: sliceRoots,
    });
    const codeOf = (sizes: readonly number[], roots: readonly string[]) =>
      sliceMismatch(sizes, roots, part)?.invalid.code;
    const wrongAt = <T>(list: readonly T[], at: number, wrong: T) => list.with(at, wrong);
    expect(codeOf(whole.typical, sliceRoots)).toBeUndefined();
    for (const at of [0, 1]) {
      expect(codeOf(wrongAt(whole.typical, at, 7), sliceRoots)).toBe('wrong-ring');
      expect(codeOf(whole.typical, wrongAt(sliceRoots, at, 'f'.repeat(64)))).toBe('wrong-ring');
    }
    // the quorum vouches for the slice that the worker lacks
    expect(codeOf(wrongAt(whole.typical, 2, 7), sliceRoots)).toBeUndefined();
  });

  it('stake is weighed in each slice separately', () => {
    const stakes = new Map([
      ['0', 1],
      ['1', 3],
    ]);
    const rows = rowsFor([0, 1], size);
    const { model } = stepModel(stateOf(0), rows, (worker) => stakes.get(worker)!);
    const moved = stateOf(0).params.values.map((value, i) => value - model.params.values[i]!);
    expect(moved[0]).toBeCloseTo(moved.at(-1)!, 5);
  });

  it('each slice has its own root, over its parameters and its momentum', () => {
    const { params, sliceRoots: roots } = stateOf(0);
    slices.forEach(({ from, to }, i) => {
      const values = params.values.subarray(from, to);
      const part = { params: { layout: params.layout, values }, momentum: values.slice().fill(0) };
      expect(modelRoot(part)).toBe(roots![i]);
    });
  });
});

it('a payload of another tier than its author has is refused', () => {
  const { layout } = tierOfModel(spec, 0);
  const shared = { run: 'run', sha256: nativeSha256, packing: 'int8' } as const;
  const chunks = Uint32Array.from({ length: chunkCount(size) }, (_, i) => i);
  const assignment = {
    ...{ digest: undefined, moving: chunks },
    ...{ chunksOf: () => chunks, most: chunks.length },
  };
  const context = { round: 0, worker: 'a'.repeat(64), assignment };
  const packer = createPacker({ ...shared, layout });
  const small = createPacker({ ...shared, layout: tierOfModel(spec, 2).layout });
  const of = (count: number) => ({
    ...context,
    widths: { rings: new Array<string>(count).fill('a'.repeat(64)) },
  });
  const whole = packer.pack(new Float64Array(size).fill(1), context);
  const part = small.pack(new Float64Array(slices[0]!.to).fill(1), context);
  expect(part.payload.length).toBeLessThan(whole.payload.length);
  expect(packer.open(whole.payload, whole.codec, of(3)).ok).toBe(true);
  expect(packer.open(part.payload, part.codec, of(1)).ok).toBe(true);
  expect(packer.open(whole.payload, whole.codec, of(1)).ok).toBe(false);
  expect(packer.open(whole.payload, whole.codec, of(2)).ok).toBe(false);
  expect(packer.open(part.payload, part.codec, of(3)).ok).toBe(false);
});
