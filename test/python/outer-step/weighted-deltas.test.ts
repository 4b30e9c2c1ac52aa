import { aggregateWeightedDeltas, type WeightedDelta } from 'nostrain/python';
import { createLayout, stateDigest } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { type JsonState, readVectors, toParams } from '../../support/vectors.ts';

interface Case {
  readonly name: string;
  readonly inputs: readonly { readonly delta: JsonState; readonly weight: number }[];
  readonly result: { readonly order: string[]; readonly digest: string };
}

const { cases } = readVectors<{ cases: Case[] }>('aggregation.json');

describe('aggregateWeightedDeltas', () => {
  it.each(cases)('gives the reference digest: $name', ({ inputs, result }) => {
    const deltas = inputs.map(({ delta, weight }) => ({
      delta: toParams(delta, result.order),
      weight,
    }));
    expect(stateDigest(aggregateWeightedDeltas(deltas))).toBe(result.digest);
  });

  const layout = createLayout([
    { name: 'a', shape: [1] },
    { name: 'b', shape: [] },
  ]);
  const delta = { layout, values: Float64Array.of(1, 2) };

  it('goes by names, in the order of the first', () => {
    const reversed = createLayout([...layout.slots].reverse());
    const other = { delta: { layout: reversed, values: Float64Array.of(8, 5) }, weight: 3 };
    const mean = aggregateWeightedDeltas([{ delta, weight: 1 }, other]);
    expect(mean).toEqual({ layout, values: Float64Array.of(4, 6.5) });
  });

  it.each<[string, readonly WeightedDelta[]]>([
    ['no delta', []],
    ['a weight of zero', [{ delta, weight: 0 }]],
    ['a weight below zero', [{ delta, weight: -1 }]],
    ['a weight that is no number', [{ delta, weight: Number.NaN }]],
  ])('refuses %s', (_, deltas) => {
    expect(() => aggregateWeightedDeltas(deltas)).toThrow(RangeError);
  });

  it('names the one that is of another model', () => {
    const other = { layout: createLayout([{ name: 'a', shape: [1] }]), values: Float64Array.of(1) };
    const deltas = [
      { delta, weight: 1 },
      { delta: other, weight: 1, name: 'other.json' },
    ];
    expect(() => aggregateWeightedDeltas(deltas)).toThrow('other.json has no tensor b');
  });
});
