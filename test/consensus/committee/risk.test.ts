import { describe, expect, it, test } from 'vitest';
import {
  atLeastOnce,
  type RiskInput,
  riskOf,
  seatChances,
} from '../../../src/consensus/committee/risk.ts';

const atLeast = (chances: readonly number[], count: number) =>
  chances.slice(count).reduce((sum, each) => sum + each, 0);

const danger = (change: Partial<RiskInput>): RiskInput => ({
  ...{ keys: 1000, hostile: 0.1, seats: 64, rule: 'bft', differ: 0, rounds: 1 },
  ...change,
});

const choose = (n: bigint, k: bigint): bigint => (k === 0n ? 1n : (choose(n - 1n, k - 1n) * n) / k);

describe('odds of a draw', () => {
  test.each([
    { keys: Number.POSITIVE_INFINITY, hostile: 0.2, seats: 7, count: 4, odds: 0.0333 },
    { keys: Number.POSITIVE_INFINITY, hostile: 0.25, seats: 21, count: 11, odds: 6.4e-3 },
    { keys: 16, hostile: 0.25, seats: 5, count: 3, odds: 0.0632 },
    { keys: Number.POSITIVE_INFINITY, hostile: 0.2, seats: 7, count: 7, odds: 1.28e-5 },
  ])('published: $seats seats, $hostile hostile, at least $count', ({ count, odds, ...draw }) => {
    expect(atLeast(seatChances(draw), count) / odds).toBeCloseTo(1, 2);
  });

  it('is the hypergeometric distribution, counted in integers', () => {
    const [keys, bad, seats] = [40n, 13n, 10n];
    const chances = seatChances({ keys: 40, hostile: 13 / 40, seats: 10 });
    chances.forEach((chance, i) => {
      const ways = choose(bad, BigInt(i)) * choose(keys - bad, seats - BigInt(i));
      const exact = Number((ways * 10n ** 18n) / choose(keys, seats)) / 1e18;
      expect(Math.abs(chance - exact)).toBeLessThan(1e-15);
    });
  });

  it('has no overflow in large committees', () => {
    const chances = seatChances({ keys: Number.POSITIVE_INFINITY, hostile: 0.5, seats: 3000 });
    expect(chances[1500]).toBeCloseTo(Math.sqrt(2 / (Math.PI * 3000)), 5);
    expect(chances[1501]! / chances[1500]!).toBeCloseTo(1500 / 1501, 12);
    expect(chances[1499]! / chances[1500]!).toBeCloseTo(1500 / 1501, 12);
    expect(chances[0]).toBe(0);
  });

  it('is 1 if all keys have seats, and 0 without hostile keys', () => {
    const all = seatChances({ keys: 9, hostile: 1 / 3, seats: 9 });
    expect(all.map((chance) => chance > 0)).toEqual([...('000100000' + '0')].map((c) => c === '1'));
    expect(seatChances({ keys: 9, hostile: 0, seats: 4 })[0]).toBe(1);
    expect(seatChances({ keys: 5, hostile: 1, seats: 4 })[4]).toBe(1);
  });

  it('adds up over a run, for tiny odds too', () => {
    expect(atLeastOnce(0.5, 3)).toBe(0.875);
    expect(atLeastOnce(1e-18, 1000)).toBeCloseTo(1e-15, 25);
    expect(atLeastOnce(0.1, 0)).toBe(0);
  });
});

describe('the table of protocol.md section 4', () => {
  test.each([
    { seats: 1, bft: [1, 0, 0], cft: [1, 0, 0] },
    { seats: 2, bft: [2, 0, 1], cft: [2, 0, 1] },
    { seats: 3, bft: [3, 0, 2], cft: [2, 1, 0] },
    { seats: 4, bft: [3, 1, 1], cft: [3, 1, 1] },
    { seats: 7, bft: [5, 2, 2], cft: [4, 3, 0] },
    { seats: 16, bft: [11, 5, 5], cft: [9, 7, 1] },
    { seats: 64, bft: [43, 21, 21], cft: [33, 31, 1] },
    { seats: 128, bft: [86, 42, 43], cft: [65, 63, 1] },
  ])('$seats seats: k, away, equivocate', ({ seats, ...rules }) => {
    for (const rule of ['bft', 'cft'] as const) {
      const { quorum, away, equivocate } = riskOf(danger({ seats, rule }));
      expect([quorum, away, equivocate]).toEqual(rules[rule]);
    }
  });

  test.each([
    { seats: 16, tenth: 3e-3, fifth: 8e-2 },
    { seats: 64, tenth: 3e-8, fifth: 4e-3 },
    { seats: 128, tenth: 8e-17, fifth: 3e-5 },
  ])('$seats seats of 1000 keys: forgery per round', ({ seats, tenth, fifth }) => {
    const odds = (hostile: number) => riskOf(danger({ seats, hostile })).forgery.perRound;
    expect(odds(0.1) / tenth).toBeGreaterThan(0.8);
    expect(odds(0.1) / tenth).toBeLessThan(1.25);
    expect(odds(0.2) / fifth).toBeGreaterThan(0.8);
    expect(odds(0.2) / fifth).toBeLessThan(1.25);
  });

  it('a recovery with other keys on its lists stands up to fewer liars', () => {
    const first = riskOf(danger({ rounds: 100 }));
    const second = riskOf(danger({ rounds: 100, differ: 5 }));
    expect(first.equivocate - second.equivocate).toBe(5);
    expect(second.forgery.perRound).toBeGreaterThan(first.forgery.perRound);
    expect(first.forgery.perRun / first.forgery.perRound).toBeCloseTo(100, 0);
    // k > (K + d + f) / 2
    const { quorum, seats, equivocate } = second;
    expect(2 * quorum).toBeGreaterThan(seats + 5 + equivocate);
    expect(2 * quorum).toBeLessThanOrEqual(seats + 5 + equivocate + 1);
    expect(riskOf(danger({ differ: 30 }))).toMatchObject({
      equivocate: -1,
      forgery: { from: 0, perRound: 1 },
    });
  });

  it('a round stalls from as many silent keys as leave no quorum; a takeover needs a quorum', () => {
    const { stall, takeover, away, quorum } = riskOf(danger({ hostile: 0.3 }));
    expect(stall.from).toBe(away + 1);
    expect(takeover.from).toBe(quorum);
    expect(stall.perRound).toBeGreaterThan(takeover.perRound);
  });

  it('never has more seats than keys', () => {
    expect(riskOf(danger({ keys: 4 }))).toMatchObject({ seats: 4, quorum: 3 });
  });
});
