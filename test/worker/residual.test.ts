import { expect, it } from 'vitest';
import { CHUNK_LENGTH, type PartialVector } from '../../src/tensor/partial-vector.ts';
import { localStart, takeSent } from '../../src/worker/residual.ts';

const size = 3 * CHUNK_LENGTH;
/** Says 1 for every value of the first chunk. */
const sent: PartialVector = {
  size,
  chunks: Uint32Array.of(0),
  addChunk(_, weight, target, at) {
    for (let i = 0; i < CHUNK_LENGTH; i++) target[at + i]! += weight;
  },
};
/** The chunks begin with what a worker keeps of a delta of 3 everywhere, when chunks 0 and 1 moved. */
const kept = (rule: 'feedback' | 'local' | 'owned' | 'none') => {
  const { residual } = takeSent(new Float64Array(size).fill(3), sent, rule, Uint32Array.of(0, 1));
  return [0, 1, 2].map((chunk) => residual[chunk * CHUNK_LENGTH]);
};

it('keeps what was not sent', () => {
  expect(kept('feedback')).toEqual([2, 3, 3]);
  expect(kept('local')).toEqual([2, 3, 3]);
});

it('adopts what others sent, and goes on where nobody did, when only owned chunks are kept', () => {
  expect(kept('owned')).toEqual([2, 0, 3]);
});

it('drops everything without a residual', () => {
  expect(kept('none')).toEqual([0, 0, 0]);
});

it('starts ahead of the shared parameters by what is kept in the local model', () => {
  const shared = new Float32Array(4).fill(1);
  const residual = new Float64Array(4).fill(0.25);
  expect([...localStart(shared, residual, 'owned')]).toEqual([0.75, 0.75, 0.75, 0.75]);
  expect([...localStart(shared, residual, 'feedback')]).toEqual([1, 1, 1, 1]);
});
