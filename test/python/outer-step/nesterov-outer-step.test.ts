import { nesterovOuterStep } from 'nostrain/python';
import { type Params, stateDigest } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { nesterovCases } from '../../support/nesterov-vectors.ts';
import { toParams } from '../../support/vectors.ts';

describe('nesterovOuterStep', () => {
  it.each(nesterovCases)('gives the reference digests, of the momentum too: $name', (one) => {
    let base = toParams(one.base_state);
    let momentum: Params | undefined;
    const settings = { learningRate: one.learning_rate, momentum: one.momentum };
    for (const round of one.rounds) {
      const delta = toParams(round.aggregated_delta.state);
      const step = nesterovOuterStep(base, delta, { ...settings, previousMomentum: momentum });
      expect(stateDigest(step.nextState)).toBe(round.next_state.digest);
      expect(stateDigest(step.momentumState)).toBe(round.momentum_state.digest);
      [base, momentum] = [step.nextState, step.momentumState];
    }
  });
});
