import fc from 'fast-check';
import { sha256, sha256Hex, toHex } from 'nostrain/base';
import { ownedChunks } from 'nostrain/consensus';
import { decodePayload, encodePayload } from 'nostrain/network';
import type { Contribution } from 'nostrain/run';
import { CHUNK_LENGTH, chunkCount } from 'nostrain/tensor';
import { expect, test } from 'vitest';
import { contribution } from '../../support/contributions.ts';
import { drawnDelta, scopeOf } from '../../support/drawn-delta.ts';
import { meanDelta } from '../../support/mean.ts';
import { packings } from '../../support/payload-fuzz.ts';
import { valuesOf } from '../../support/vectors.ts';

const size = 9 * CHUNK_LENGTH + 11;
const workers = [0, 1, 2, 3].map((i) => toHex(sha256(Uint8Array.of(i))));
const digest = new Uint8Array(32);

const options = { size, weights: 'examples', cap: 100, normalize: 'workers' } as const;
const meanOf = (cohort: readonly Contribution[]) => meanDelta(cohort, options);

/** The chunks of its delta that each worker sends. */
const cohortOf = (owners: number) => {
  const rule = { run: digest, round: 1, entropy: digest, workers, owners, seats: 'even' } as const;
  return [...ownedChunks(rule, chunkCount(size))].map(([worker, chunks], i) => {
    const scope = scopeOf(size, [...chunks]);
    const { sent } = encodePayload(drawnDelta(size, i), { codec: 'int8', kept: 0 }, scope);
    return contribution(worker, [], { delta: sent, examples: 1 + i });
  });
};

test('a chunk is the mean of its owners alone', () => {
  const cohort = cohortOf(2);
  const { mean, moved } = meanOf(cohort);
  expect([...moved]).toEqual([...Array(10).keys()]);
  const values = cohort.map(({ delta }) => valuesOf(delta));
  for (const chunk of moved) {
    const own = cohort.flatMap(({ delta, examples: weight = 0 }, i) =>
      delta.chunks.includes(chunk) ? [{ weight, values: values[i]! }] : [],
    );
    expect(own).toHaveLength(2);
    const [a, b] = own as [(typeof own)[0], (typeof own)[0]];
    const at = chunk * CHUNK_LENGTH + 7;
    const expected = (a.weight * a.values[at]! + b.weight * b.values[at]!) / (a.weight + b.weight);
    expect(mean[at]).toBeCloseTo(expected, 15);
  }
});

test('one owner per chunk: the mean is what it sent, whatever it weighs', () => {
  const cohort = cohortOf(1).map((share) => ({ ...share, examples: 1 }));
  const { mean } = meanOf(cohort);
  for (const { delta } of cohort) {
    const values = valuesOf(delta);
    for (const chunk of delta.chunks) {
      const at = [chunk * CHUNK_LENGTH, (chunk + 1) * CHUNK_LENGTH] as const;
      expect(mean.subarray(...at)).toEqual(values.subarray(...at));
    }
  }
});

test('the same bits in any order, whatever codec each worker chose', () => {
  const sized = 2 * CHUNK_LENGTH + 11;
  const scope = scopeOf(sized);
  const shares = packings.flatMap((packing, i) => {
    const read = decodePayload(encodePayload(drawnDelta(sized, i), packing, scope).payload, scope);
    if (!read.ok) return [];
    return [contribution(`w${i}`, [], { delta: read.value.delta, examples: 1 + 3 * i })];
  });
  expect(shares).toHaveLength(packings.length);
  fc.assert(
    fc.property(fc.shuffledSubarray(shares, { minLength: 2 }), (cohort) => {
      const inOrder = shares.filter((share) => cohort.includes(share));
      const hash = (those: readonly Contribution[]) => {
        const { mean, moved } = meanDelta(those, { ...options, size: sized });
        return [sha256Hex(new Uint8Array(mean.buffer)), ...moved];
      };
      expect(hash(cohort)).toEqual(hash(inOrder));
    }),
    { numRuns: 40 },
  );
});

test('the same bits in any order, each owning some', () => {
  const cohort = cohortOf(3);
  expect(meanOf([...cohort].reverse())).toEqual(meanOf(cohort));
});

test('the chunks of missing workers do not move', () => {
  const [missing, ...others] = cohortOf(1);
  const { mean, moved } = meanOf(others);
  for (const chunk of missing!.delta.chunks) {
    expect(moved).not.toContain(chunk);
    const own = mean.subarray(chunk * CHUNK_LENGTH, (chunk + 1) * CHUNK_LENGTH);
    expect(own.every((value) => value === 0)).toBe(true);
  }
  expect(moved).toHaveLength(10 - missing!.delta.chunks.length);
});
