import { weightedMean } from 'nostrain/consensus';
import { describe, expect, it } from 'vitest';
import {
  boundRows,
  type NormContext,
  nextSizes,
  rmsOf,
} from '../../../src/consensus/aggregate/norm-bound.ts';
import { dense } from '../../support/vectors.ts';

const row = (worker: string, delta: readonly number[], weight = 1, late = false) => ({
  ...{ worker, id: worker, late, weight, scale: 1 },
  delta: dense(delta),
});
const of = (...values: readonly number[]) => values.map((value) => dense([value, -value]));
const context = { normBound: 3, history: [], parameters: 1 } satisfies NormContext;

describe('the weighted mean', () => {
  it('is the same whatever the order of rows, late ones last', () => {
    const rows = [row('b', [1, 2], 3), row('a', [5, 6], 1), row('a', [9, 9], 2, true)];
    const options = { size: 2, normalize: 'workers' } as const;
    const { mean } = weightedMean(rows, options);
    expect([...mean]).toEqual([26 / 6, 30 / 6]);
    expect(weightedMean([...rows].reverse(), options).mean).toEqual(mean);
  });
});

describe('of three rows or more', () => {
  it('those larger than c times the lower median are scaled down to it', () => {
    const rows = [dense([3, 4]), dense([0, 5]), dense([300, 400]), dense([6, 8])];
    const { scales } = boundRows(rows, { ...context, normBound: 2 });
    expect(scales).toEqual([1, 1, 10 / 500, 1]);
    expect(rmsOf(rows[2]!)).toBe(Math.sqrt((300 * 300 + 400 * 400) / 2));
  });

  it('neither a giant nor a dwarf moves the bound of the others', () => {
    const honest = [1, 1.1, 0.9];
    for (const hostile of [0, 1e-30, 1e38]) {
      const { scales, typical } = boundRows(of(...honest, hostile), context);
      expect(scales.slice(0, 3)).toEqual([1, 1, 1]);
      expect(scales[3]! * hostile).toBeLessThanOrEqual(3);
      expect(typical).toBeGreaterThanOrEqual(0.9);
      expect(typical).toBeLessThanOrEqual(1.1);
    }
  });
});

describe('a majority of hostile rows', () => {
  it('attack: raises the bound by at most a tenth a round, and never above twice the typical size', () => {
    let history: readonly number[] = [1, 0.9, 1.1, 1, 1, 0.95, 1.05, 1];
    for (let round = 0; round < 60; round++) {
      const rows = of(1, 1.1, 0.9, 1, 1e38, 1e38, 1e38, 1e38, 1e38);
      const { bound, scales, typical } = boundRows(rows, { ...context, history });
      const middle = [...history].sort((a, b) => a - b)[3]!;
      expect(bound).toBeLessThanOrEqual(2 * middle);
      expect(scales[8]! * 1e38).toBeLessThanOrEqual(bound * (1 + 1e-9));
      expect(2 * Math.max(...history)).toBeLessThanOrEqual(2.2 * 1.1 ** round * (1 + 1e-9));
      history = nextSizes(history, typical);
    }
  });

  it('attack: a few early rounds are no excuse: at most four times the largest of them', () => {
    const rows = of(1, 1, 1e38, 1e38, 1e38);
    expect(boundRows(rows, { ...context, history: [1, 1.2, 0.9] }).bound).toBeCloseTo(4.8, 12);
  });
});

it('steps that grow with the learning rate are not cut, whatever the length of the warm-up', () => {
  for (const warmup of [1, 2, 5]) {
    let history: readonly number[] = [];
    for (let round = 0; round < 20; round++) {
      // the mean learning rate of the round's steps in a linear warm-up
      const size = Math.min(1, (round + 0.5) / warmup);
      const { scales, typical } = boundRows(of(size, size, 1.1 * size), { ...context, history });
      expect(scales).toEqual([1, 1, 1]);
      history = nextSizes(history, typical);
    }
  }
});

describe('of two rows, where there is no majority', () => {
  it('a row of nearly nothing does not silence an honest one', () => {
    const { scales, typical } = boundRows(of(1, 1e-12), { ...context, history: [1, 1.2, 0.9] });
    expect(scales).toEqual([1, 1]);
    expect(typical).toBe(1);
    // nor in the first round, whose bound follows from the parameters
    expect(boundRows(of(0.9, 1e-12), context).scales).toEqual([1, 1]);
  });

  it('a giant is held to the honest one, and to what earlier rounds were like', () => {
    let history: readonly number[] = [1];
    for (let round = 0; round < 50; round++) {
      const bounds = boundRows(of(1, 1e38), { ...context, history });
      expect(bounds.scales[0]).toBe(1);
      expect(bounds.scales[1]! * 1e38).toBeLessThanOrEqual(1 + 1e-9);
      history = nextSizes(history, bounds.typical);
    }
    expect(history.length).toBe(8);
  });
});

it('one row alone is held to the rounds before, or to the parameters', () => {
  const { scales } = boundRows(of(1e38), { ...context, history: [1, 2] });
  expect(scales[0]! * 1e38).toBeCloseTo(8, 6);
  expect(boundRows(of(1e38), context).bound).toBe(1);
});

it('is not bounded by workers that send nothing yet', () => {
  const none = { ...dense([0, 0]), chunks: new Uint32Array(0) };
  const { scales, typical } = boundRows([dense([3, 4]), none, none], { ...context, parameters: 9 });
  expect(scales[0]).toBe(1);
  expect(typical).toBe(rmsOf(dense([3, 4])));
});

it('normBound 0 bounds nothing', () => {
  expect(boundRows(of(1, 1, 1e38), { ...context, normBound: 0 }).scales).toEqual([1, 1, 1]);
});

describe('in a run with stakes', () => {
  const sybils = new Array<number>(50).fill(1e-9);

  it('attack: rows of no stake silence the others through the bound', () => {
    const weights = [1, 0.5, 0.7, ...sybils.map(() => 0)];
    const { scales, typical } = boundRows(of(1, 1.1, 0.9, ...sybils), { ...context, weights });
    expect(scales.slice(0, 3)).toEqual([1, 1, 1]);
    expect(typical).toBeGreaterThan(0.8);
  });

  it('attack: a little stake in many keys does the same', () => {
    const weights = [1, 0.5, 0.7, ...sybils.map(() => 0.01)];
    const { scales, typical } = boundRows(of(1, 1.1, 0.9, ...sybils), { ...context, weights });
    expect(scales.slice(0, 3)).toEqual([1, 1, 1]);
    expect(typical).toBeGreaterThan(0.8);
  });

  it('equal weights bound as no weights do', () => {
    for (const values of [[5], [5, 1], [3, 9, 1], [4, 2, 8, 6], [1, 2, 3, 4, 500]]) {
      const weights = values.map(() => 1);
      expect(boundRows(of(...values), { ...context, weights })).toEqual(
        boundRows(of(...values), context),
      );
    }
  });
});
