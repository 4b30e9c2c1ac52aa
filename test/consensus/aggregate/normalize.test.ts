/** The divisor of a sparse update: all workers that sent the chunk, or those that sent the value. */

import { encodePayload, type Packing } from 'nostrain/network';
import type { PackingName } from 'nostrain/run';
import { CHUNK_LENGTH, partialOf } from 'nostrain/tensor';
import { genesis, runWorker } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import { contribution } from '../../support/contributions.ts';
import { drawnDelta, scopeOf } from '../../support/drawn-delta.ts';
import { fakePorts, layout, plan } from '../../support/fake-ports.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { meanDelta } from '../../support/mean.ts';

const sparse = (size: number, indices: readonly number[], values: readonly number[]) =>
  partialOf({ size, indices: Uint32Array.from(indices), values: Float64Array.from(values) });

const equal = { weights: 'equal', cap: 1 } as const;
const from = (worker: string, delta: ReturnType<typeof sparse>, examples?: number) =>
  contribution(worker, [], { delta, examples });

describe('N-18: two workers send disjoint coordinates', () => {
  const cohort = [from('a', sparse(4, [0, 2], [8, -6])), from('b', sparse(4, [1], [10]))];
  it.each([
    ['workers', [4, 5, -3, 0]],
    ['senders', [8, 10, -6, 0]],
  ] as const)('%s', (normalize, moves) => {
    expect([...meanDelta(cohort, { size: 4, ...equal, normalize }).mean]).toEqual(moves);
  });

  it.each([
    ['workers', -4],
    ['senders', -8],
  ] as const)('%s, by the setting of the run', async (normalize, moved) => {
    const clock = createManualClock();
    const ports = fakePorts(clock, { counts: false }); // its own is refused
    const session = { plan: plan({ rounds: 1, normalize }), ports };
    const start = genesis({ layout, values: new Float32Array(2) }, 9);
    const run = runWorker(start, { ...session, signal: new AbortController().signal });
    await clock.advance(1);
    ports.arrive(from('b', sparse(2, [0], [8])));
    ports.arrive(from('c', sparse(2, [1], [10])));
    await clock.advance(20_000);
    expect((await run).params.values[0]).toBe(moved);
  });
});

it('a coordinate that both sent is their weighted mean under either', () => {
  const cohort = [from('a', sparse(2, [0, 1], [4, 8]), 3), from('b', sparse(2, [0], [8]), 1)];
  const options = { size: 2, weights: 'examples', cap: 100 } as const;
  expect([...meanDelta(cohort, { ...options, normalize: 'workers' }).mean]).toEqual([5, 6]);
  expect([...meanDelta(cohort, { ...options, normalize: 'senders' }).mean]).toEqual([5, 8]);
});

/** A payload of every code; a code that is added needs its line. */
const packings: Readonly<Record<PackingName, Packing>> = {
  int8: { codec: 'int8', kept: 0 },
  trellis: { codec: 'trellis', kept: 250 },
};

describe('N-18: payloads of chunks divide by the workers that sent the chunk', () => {
  const size = 2 * CHUNK_LENGTH + 100;
  it.each(Object.entries(packings))('%s: both rules give the same bits', (_, packing) => {
    const cohort = [[0], [1, 2], [0, 2]].map((chunks, i) => {
      const { sent } = encodePayload(drawnDelta(size, i), packing, scopeOf(size, chunks));
      return contribution(`${i}`, [], { delta: sent });
    });
    const byWorkers = meanDelta(cohort, { size, ...equal, normalize: 'workers' });
    expect(meanDelta(cohort, { size, ...equal, normalize: 'senders' })).toEqual(byWorkers);
    const alone = meanDelta(cohort.slice(1, 2), { size, ...equal, normalize: 'workers' });
    const second = [CHUNK_LENGTH, 2 * CHUNK_LENGTH] as const;
    expect(byWorkers.mean.slice(...second)).toEqual(alone.mean.slice(...second));
  });
});
