import { ConfigError } from 'nostrain/base';
import { stateDigest } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import {
  createMersenneTwister,
  linearState,
  mlpState,
} from '../../../src/python/regression/initial-state.ts';
import { type JsonState, readVectors, toParams } from '../../support/vectors.ts';

interface InitialState {
  readonly features: number;
  readonly hidden_size: number;
  readonly seed: string;
  readonly weight_scale: number;
  readonly state: JsonState;
  readonly digest: string;
}

const vectors = readVectors<{
  mlp_init: InitialState[];
  mt19937_first_uniform01: { seed: string; draws: number[] }[];
}>('runtime.json');

describe('mlpState', () => {
  it.each(vectors.mlp_init)('seed $seed, $features x $hidden_size', (test) => {
    const params = mlpState({
      features: test.features,
      hiddenSize: test.hidden_size,
      seed: BigInt(test.seed),
      weightScale: test.weight_scale,
    });
    expect(params).toEqual(toParams(test.state));
    expect(stateDigest(params)).toBe(test.digest);
  });

  it('refuses sizes beyond memory', () => {
    const sizes = { features: 1e6, hiddenSize: 1e6, seed: 0, weightScale: 1 };
    expect(() => mlpState(sizes)).toThrow(ConfigError);
    expect(() => linearState(1e12)).toThrow('features 1000000000000 is more');
  });
});

describe('createMersenneTwister', () => {
  it.each(vectors.mt19937_first_uniform01)('seed $seed', ({ seed, draws }) => {
    const draw = createMersenneTwister(BigInt(seed));
    expect(draws.map(() => draw())).toEqual(draws);
  });

  it('takes numbers as well', () => {
    const [draw, same] = [createMersenneTwister(-7), createMersenneTwister(7n)];
    expect(draw()).toBe(same());
  });
});
