import { describe, expect, it } from 'vitest';
import { improvementStep } from '../../../src/consensus/outer/improvement-step.ts';
import { stateDigest } from '../../../src/tensor/digest.ts';
import type { Params } from '../../../src/tensor/params.ts';
import { type JsonState, readVectors, toParams } from '../../support/vectors.ts';

interface Stored {
  readonly order: string[];
  readonly state: JsonState;
  readonly digest: string;
}
interface Case {
  readonly name: string;
  readonly learning_rate: number;
  readonly momentum: number;
  readonly base_state: JsonState;
  readonly rounds: readonly Record<'aggregated_delta' | 'momentum_state' | 'next_state', Stored>[];
}

const { cases } = readVectors<{ cases: Case[] }>('nesterov.json');

describe('improvementStep', () => {
  it.each(cases)('gives the reference digests, of the momentum too: $name', (one) => {
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
