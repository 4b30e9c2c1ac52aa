import { meanByReciprocal } from 'nostrain/python/parts';
import { describe, expect, it } from 'vitest';
import { contribution } from '../../support/contributions.ts';
import { meanDelta } from '../../support/mean.ts';
import { dense, type JsonState, readVectors, toParams } from '../../support/vectors.ts';

interface Case {
  readonly name: string;
  readonly inputs: readonly { readonly delta: JsonState; readonly weight: number }[];
  readonly result: { readonly order: string[]; readonly state: JsonState };
}

const { cases } = readVectors<{ cases: Case[] }>('aggregation.json');
const uncapped = {
  weights: 'examples',
  cap: Number.MAX_SAFE_INTEGER,
  normalize: 'workers',
} as const;

describe('the mean of the Python reference', () => {
  it.each(cases)('gives the reference bits: $name', ({ inputs, result }) => {
    const cohort = inputs.map(({ delta, weight }, i) =>
      contribution(`w${i}`, [], {
        delta: dense(toParams(delta, result.order).values),
        examples: weight,
      }),
    );
    const want = toParams(result.state, result.order);
    const { mean: got } = meanDelta(
      cohort,
      { size: want.layout.size, ...uncapped },
      meanByReciprocal,
    );
    // 0 + x turns the reference's -0 into 0; every other bit is the same
    expect([...got]).toEqual([...want.values].map((value) => value + 0));
  });
});
