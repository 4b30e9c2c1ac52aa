import { CHUNK_LENGTH, chunkCount, stateDigest } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { nesterovStep } from '../../../src/consensus/outer/nesterov.ts';
import { nesterovCases } from '../../support/nesterov-vectors.ts';
import { toParams } from '../../support/vectors.ts';

/** A mean in which every chunk moves. */
const whole = (mean: Float64Array) => ({
  mean,
  moved: Uint32Array.from({ length: chunkCount(mean.length) }, (_, chunk) => chunk),
});

describe('nesterovStep', () => {
  it('leaves parameters and momentum of chunks that did not move', () => {
    const size = 2 * CHUNK_LENGTH + 1;
    const [values, velocity] = [new Float32Array(size).fill(1), new Float32Array(size).fill(2)];
    const mean = new Float64Array(size).fill(0.5);
    const settings = { learningRate: 1, momentum: 0.5 };
    const next = nesterovStep(values, velocity, { mean, moved: Uint32Array.of(0, 2) }, settings);
    const at = [0, CHUNK_LENGTH - 1, CHUNK_LENGTH, 2 * CHUNK_LENGTH - 1, 2 * CHUNK_LENGTH];
    expect(at.map((i) => next.values[i])).toEqual([-0.25, -0.25, 1, 1, -0.25]);
    expect(at.map((i) => next.momentum[i])).toEqual([1.5, 1.5, 2, 2, 1.5]);
  });

  it.each(nesterovCases)('gives the reference digests over three rounds: $name', (one) => {
    let params = toParams(one.base_state);
    let momentum: Float32Array | Float64Array = new Float64Array(params.layout.size);
    const settings = { learningRate: one.learning_rate, momentum: one.momentum };
    for (const round of one.rounds) {
      // the reference's delta points downhill (after - before), ours uphill
      const { values } = toParams(round.aggregated_delta.state);
      const delta = whole(Float64Array.from(values, (x) => -x));
      const stepped = nesterovStep(params.values, momentum, delta, settings);
      params = { layout: params.layout, values: stepped.values };
      momentum = stepped.momentum;
      expect(stateDigest(params)).toBe(round.next_state.digest);
      const velocity = toParams(round.momentum_state.state).values;
      expect([...momentum].map((x) => 0 - x)).toEqual([...velocity].map((x) => x + 0));
    }
  });

  it('is plain averaging at rate 1 and momentum 0', () => {
    const { values } = nesterovStep(
      Float32Array.of(1, 2),
      new Float32Array(2),
      whole(Float64Array.of(0.5, -0.25)),
      { learningRate: 1, momentum: 0 },
    );
    expect([...values]).toEqual([0.5, 2.25]);
  });

  it('keeps the storage type and leaves its inputs alone', () => {
    const [values, velocity] = [Float32Array.of(1), Float32Array.of(2)];
    const next = nesterovStep(values, velocity, whole(Float64Array.of(1)), {
      learningRate: 0.7,
      momentum: 0.9,
    });
    expect(next.values).toBeInstanceOf(Float32Array);
    expect(next.momentum[0]).toBe(Math.fround(2 * 0.9 + 1));
    expect([values[0], velocity[0]]).toEqual([1, 2]);
  });
});
