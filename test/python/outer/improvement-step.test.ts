import { describe, expect, it } from 'vitest';
import { improvementStep } from '../../../src/python/outer/improvement-step.ts';
import { stateDigest } from '../../../src/tensor/digest.ts';
import type { Params } from '../../../src/tensor/params.ts';
import { nesterovCases } from '../../support/nesterov-vectors.ts';
import { toParams } from '../../support/vectors.ts';

describe('improvementStep', () => {
  it.each(nesterovCases)('gives the reference digests, of the momentum too: $name', (one) => {
    let base = toParams(one.base_state);
    let momentum: Params | undefined;
    const settings = { learningRate: one.learning_rate, momentum: one.momentum };
    for (const round of one.rounds) {
      const step = improvementStep(
        base,
        toParams(round.aggregated_delta.state),
        settings,
        momentum,
      );
      expect(stateDigest(step.next)).toBe(round.next_state.digest);
      expect(stateDigest(step.momentum)).toBe(round.momentum_state.digest);
      [base, momentum] = [step.next, step.momentum];
    }
  });
});
