/** Scores: the median of the witnesses' scores, rolling scores, the floor, the weight vector. */

import fc from 'fast-check';
import { philox, unit } from 'nostrain/base';
import { gainOf } from 'nostrain/certified/parts';
import { drawRows } from 'nostrain/model';
import type { WorkerId } from 'nostrain/run';
import { CHUNK_LENGTH, partialOf } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { sharedRows } from '../../src/certified/features/scores.ts';
import {
  belowFloor,
  distributionOf,
  floorOf,
  harmBound,
  rollingScore,
  scoreAt,
  scoreOfGain,
  type Witnessed,
  weightVector,
  withScore,
} from '../../src/consensus/scores.ts';
import { MOST_SCORE } from '../../src/run/spec/feature-fields.ts';
import { duplicatesAmong } from '../../src/worker/gains.ts';
import { dense } from '../support/vectors.ts';

const witness = (scores: readonly number[], weight = 1n): Witnessed => ({
  weight,
  scores: new Map(scores.map((score, place) => [place, score])),
});

const key = (index: number): WorkerId => `${index}`.padStart(64, '0') as WorkerId;
const rated = (...histories: readonly (readonly number[])[]) =>
  histories.map((history, index) => ({ key: key(index), history }));

describe('C-09: what five witnesses make of four workers', () => {
  const truth = [50_000, 40_000, 30_000, 20_000];
  // floats of other engines: a hundred-thousandth
  const honest = (seed: number) =>
    witness(
      truth.map((score, i) =>
        Math.round(score * (1 + 1e-5 * unit(philox([seed, 0], i, 0, 0, 0)[0]))),
      ),
    );
  const sharesOf = (witnesses: readonly Witnessed[]) =>
    weightVector(rated(...truth.map((_, place) => [scoreAt(place, witnesses)!]))).map(
      ({ weight }) => weight,
    );
  const four = [1, 2, 3, 4].map(honest);
  const alone = sharesOf(four);

  it.each([
    ['a hundred times as much of one', [5_000_000, 40_000, 30_000, 20_000]],
    ['a hundred times as much of all', truth.map((score) => 100 * score)],
    ['the opposite', truth.map((score) => -100 * score)],
    ['the largest number', truth.map(() => MOST_SCORE)],
  ])('is within 2 % of theirs where one says %s', (_, lie) => {
    const shares = sharesOf([...four, witness(lie)]);
    shares.forEach((share, i) => {
      expect(Math.abs(share - alone[i]!)).toBeLessThan(0.02);
    });
  });

  it('follows stake: three tenths of it move nothing, though they are many keys', () => {
    const liars = Array.from({ length: 30 }, () => witness([MOST_SCORE], 1n));
    expect(scoreAt(0, [witness([50_000], 70n), ...liars])).toBe(50_000);
  });
});

describe('the gains of a round', () => {
  it('have their upper median, and a deviation from those above it, between a share of it and twice that', () => {
    const gains = [3, 9, 1, 7, 5, 2, 8, 4, 6];
    // the second above the median of 5 is 7
    expect(distributionOf(gains, 5)).toEqual({ center: 5, deviation: 3.14 * 2 });
    expect(distributionOf(gains, 20)).toEqual({ center: 5, deviation: 20 });
    expect(distributionOf(gains, 0)).toEqual({ center: 5, deviation: 2 * (5 / 4) });
    expect(distributionOf([8, 1, 8, 8, 1, 1], 0)).toEqual({ center: 8, deviation: 2 });
    expect(distributionOf([1, 3], 0.1)).toEqual({ center: 3, deviation: 0.75 });
    expect(distributionOf([-4], 0.1)).toEqual({ center: -4, deviation: 1 });
  });

  it('are harmful below zero or a negative median, by the deviation or the uncertainty', () => {
    expect(harmBound({ center: 5, deviation: 2 }, 3)).toBe(-6);
    expect(harmBound({ center: -4, deviation: 2 }, 3)).toBe(-10);
    expect(harmBound({ center: 5, deviation: 2 }, 3, 7)).toBe(-21);
  });
});

describe('a score', () => {
  it('is a gain in whole millionths within its bounds, and never -0', () => {
    expect([1.2345678, -1.2345678, 5000, -5000].map(scoreOfGain)).toEqual([
      ...[1_234_568, -1_234_568, MOST_SCORE, -MOST_SCORE],
    ]);
    expect([-1e-9, -0].map(scoreOfGain)).toEqual([0, 0]);
    expect(rollingScore([-1, 0])).toBe(0);
    expect(rollingScore([-7, -8])).toBe(-7);
  });

  it('is the lower weighted median of its witnesses, in any order', () => {
    const weighed = fc.record({
      score: fc.integer({ min: -20, max: 20 }),
      weight: fc.integer({ min: 1, max: 4 }),
    });
    fc.assert(
      fc.property(fc.array(weighed, { minLength: 1, maxLength: 7 }), (all) => {
        const repeated = all.flatMap(({ score, weight }) => new Array<number>(weight).fill(score));
        const rising = repeated.sort((a, b) => a - b);
        const witnesses = all.map(({ score, weight }) => witness([score], BigInt(weight)));
        expect(scoreAt(0, witnesses)).toBe(rising[(rising.length - 1) >> 1]);
      }),
    );
  });

  it('C-03: is 0 if most scorers lack the contribution, and null if too few scored', () => {
    const none = { weight: 1n, scores: new Map<number, number>() };
    const first = { weight: 1n, scores: new Map([[0, 7]]) };
    expect(scoreAt(1, [first, first, witness([7, 9])])).toBe(0);
    expect(scoreAt(0, [first, first, none])).toBe(7);
    expect(scoreAt(0, [first, none, none])).toBeNull();
    expect(scoreAt(0, [])).toBeNull();
    // half are not most
    expect(scoreAt(1, [first, witness([7, 9])])).toBe(0);
    expect(scoreAt(0, [first, none])).toBeNull();
  });

  it('C-03: an honest contribution is worth more than a copy of the base, that more than noise, that more than NaN', async () => {
    const params = Float32Array.of(1, 2, 3);
    const losses = async (values: ArrayLike<number>) =>
      new Float32Array(4).fill(Array.from(values).reduce((sum, each) => sum + each * each, 0));
    const before = await losses(params);
    const score = async (...delta: number[]) =>
      scoreOfGain(
        (await gainOf(params, { delta: dense(Float64Array.from(delta)) }, before, losses)).gain,
      );
    const honest = await score(0.5, 1, 1.5);
    const base = await score(0, 0, 0);
    const noise = await score(-0.3, 0.2, -0.4);
    const poison = await score(Number.MAX_VALUE, 0, 0);
    expect([honest > base, base === 0, base > noise, noise > poison]).toEqual([
      true,
      true,
      true,
      true,
    ]);
    expect(poison).toBe(-MOST_SCORE);
    const vector = weightVector(rated([honest], [base], [noise], [poison]));
    expect(vector.map(({ key: of }) => of)).toEqual([key(0)]);
  });

  it('C-03: of a contribution is measured on the chunks that it has', async () => {
    const size = CHUNK_LENGTH + 2;
    const params = new Float32Array(size).fill(1, CHUNK_LENGTH);
    const losses = async (values: ArrayLike<number>) =>
      Float32Array.of(Array.from(values).reduce((sum, each) => sum + each * each, 0));
    const indices = Uint32Array.of(CHUNK_LENGTH, CHUNK_LENGTH + 1);
    const delta = partialOf({ size, indices, values: Float64Array.of(1, 1) });
    const before = await losses(params);
    expect(await gainOf(params, { delta }, before, losses)).toMatchObject({ gain: 2 });
  });

  it('C-03: of a copy is no gain: of another one that came first, or of the round before', () => {
    const own = dense(Float64Array.of(1, 2, 3));
    const other = dense(Float64Array.of(3, 2, 1));
    const arrived = [
      { worker: key(1), delta: own },
      { worker: key(2), delta: other },
      { worker: key(3), delta: own },
      { worker: key(4), delta: dense(Float64Array.of(0, 0, 0)) },
    ];
    const { duplicates, marks } = duplicatesAmong(arrived, new Set());
    expect([...duplicates]).toEqual([key(3)]);
    expect([...duplicatesAmong([{ worker: key(1), delta: own }], marks).duplicates]).toEqual([
      key(1),
    ]);
  });
});

it('a contribution is a copy if at least half of its chunks repeat, empty ones left out', () => {
  const chunked = (...firsts: readonly number[]) => {
    const values = new Float64Array(firsts.length * CHUNK_LENGTH);
    firsts.forEach((first, chunk) => {
      values[chunk * CHUNK_LENGTH] = first;
    });
    return dense(values);
  };
  const isCopy = (...firsts: readonly number[]) => {
    const arrived = [chunked(1, 2, 3, 4), chunked(...firsts)].map((delta, i) => ({
      worker: key(i),
      delta,
    }));
    return duplicatesAmong(arrived, new Set()).duplicates.has(key(1));
  };
  expect([isCopy(1, 2, 3, 4), isCopy(1, 2, 9, 9), isCopy(1, 9, 9, 9)]).toEqual([true, true, false]);
  expect([isCopy(1, 9, 0, 0), isCopy(0, 0, 0, 0)]).toEqual([true, false]);
  // in another place they are not the same
  expect(isCopy(2, 1, 4, 3)).toBe(false);
});

it('C-02: all workers of a run draw the same rows, different ones in each round', () => {
  const at = (round: number, entropy: string) =>
    sharedRows({ run: 'a'.repeat(64), round, ledger: { entropy } } as never);
  const rows = (stream: readonly [number, number]) =>
    drawRows({ key: stream, round: 0, firstStep: 0, steps: 100, batch: 8, bound: 1000 }).join();
  expect(rows(at(3, 'e'))).toBe(rows(at(3, 'e')));
  const others = new Set([at(3, 'e'), at(4, 'e'), at(3, 'f')].map(rows));
  expect(others.size).toBe(3);
});

describe('rolling scores', () => {
  it('C-03: belong to a key: another key of the same owner begins without a history', () => {
    const before = rated([90, 90, 90], [10, 10, 10]);
    const after = [before[1]!, { key: key(7), history: [] }];
    expect(weightVector(before)[0]).toEqual({ key: key(0), weight: 0.9 });
    expect(weightVector(after)).toEqual([{ key: key(1), weight: 1 }]);
  });

  it('C-03: look back on eight rounds', () => {
    let history: readonly number[] = [];
    for (let round = 1; round <= 12; round++) history = withScore(history, round);
    expect(history).toEqual([5, 6, 7, 8, 9, 10, 11, 12]);
    expect(rollingScore(history)).toBe(8);
    expect(rollingScore([])).toBe(0);
  });

  it('C-08: weights are shares of 1 of the best, in any input order, none without a gain', () => {
    const all = rated([50, 70], [30, 30], [-10, -10], [0], [], [30]);
    const vector = weightVector(all, 3);
    expect(vector).toEqual([
      { key: key(0), weight: 0.5 },
      { key: key(1), weight: 0.25 },
      { key: key(5), weight: 0.25 },
    ]);
    expect(weightVector([...all].reverse(), 3)).toEqual(vector);
    expect(weightVector(all, 2)).toEqual([
      { key: key(0), weight: 2 / 3 },
      { key: key(1), weight: 1 / 3 },
    ]);
    const many = rated(...Array.from({ length: 100 }, (_, i) => [i * i + 1]));
    const sum = weightVector(many).reduce((total, { weight }) => total + weight, 0);
    expect(Math.abs(sum - 1)).toBeLessThan(1e-9);
    expect(weightVector(rated([0], [-1]))).toEqual([]);
  });

  it('have a floor of three deviations, once two keys have two scores, and count against no key before', () => {
    expect(floorOf(rated([5, 5], [1]))).toBeNull();
    // the deviation is at least 1,000
    expect(floorOf(rated([5, 5], [7, 7]))).toBe(-3000);
    // twice three tenths of the typical size, which is the lower median over keys
    const sizes = rated([90_000, 90_000], [-10_000, 30_000], [50_000, -50_000], [2000, 2000]);
    expect(floorOf(sizes)).toBe(-3 * 2 * 6000);
    expect(floorOf([...sizes].reverse())).toBe(-3 * 2 * 6000);
    const low = rated([5, 5], [7, 7], [-9_000_000], [-3000, -3000], [-3001, -3001]);
    expect(floorOf(low)).toBe(-3000);
    expect([...belowFloor(low)]).toEqual([key(4)]);
    expect([...belowFloor(rated([-9000, -9000], [5]))]).toEqual([]);
  });

  it('no honest key is below the floor in a round whose median is about 0', () => {
    // as `npm run bench:detection` measured them in its twelfth round
    const histories = [
      [126353, 31910, 15511, -24890, -25301, -12332, -38170, -10701],
      [119539, 62240, 31361, -33258, -48283, -21036, -52804, -59377],
      [100154, 50319, 31274, -20206, -39343, -33656, -61097, -36694],
      [51329, 36060, 24388, -52035, -105895, -18907, -43080, -39592],
      [80452, 37875, -12009, -14899, -16651, -17212, -43447, -76124],
      [126585, 27424, -3921, -30246, -41684, -21913, -60867, -39222],
      [109427, 46934, 42297, 1761, -30947, -14934, -97053, -50264],
      [87714, 16974, 19206, -21698, -65910, -67376, -28986, -83658],
    ];
    const honest = histories.map((history, i) => ({ key: `honest ${i}`, history }));
    expect([...belowFloor(honest)]).toEqual([]);
    const flipped = { key: 'hostile', history: histories[0]!.map(() => -400_000) };
    expect([...belowFloor([...honest.slice(1), flipped])]).toEqual(['hostile']);
  });

  it('a key that flips signs is below the floor, and no key in a hundred honest rounds', () => {
    let histories = rated([], [], [], [], [], [], [], []);
    let accused = 0;
    for (let round = 0; round < 100; round++) {
      histories = histories.map(({ key: of, history }, i) => {
        const [a, b] = philox([round, i], 5, 0, 0, 0);
        const normal = Math.sqrt(-2 * Math.log(unit(a))) * Math.cos(2 * Math.PI * unit(b));
        const size = 50_000 * 0.95 ** round;
        return {
          key: of,
          history: withScore(history, Math.round(size + (size / 3 + 2000) * normal)),
        };
      });
      accused += belowFloor(histories).size;
    }
    expect(accused).toBe(0);
    const flipped = rated([50, 40], [45, 42], [30, 60], [-600, -500]).map(
      ({ key: of, history }) => ({
        key: of,
        history: history.map((score) => score * 1000),
      }),
    );
    expect([...belowFloor(flipped)]).toEqual([key(3)]);
    expect(floorOf(rated([1], [2]))).toBeNull();
  });
});
