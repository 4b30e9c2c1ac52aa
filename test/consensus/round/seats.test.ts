/** Guests of a run whose founders decide: who is one, and how many of them sit. */
import { liveOf, mostGuests, quorumOf, seatable, withFounderQuorum } from 'nostrain/consensus';
import type { Ledger } from 'nostrain/run';
import { describe, expect, it, test } from 'vitest';
import { guestTest, withoutGuests } from '../../../src/consensus/round/seats.ts';
import { keyOf } from '../../support/members.ts';
import { play, rulesOf } from '../../support/run-history.ts';

const FOUNDERS = [0, 1, 2, 3, 4];
const GUESTS = [20, 21, 22, 23, 24];
const SESSION = 30;
const keys = (...indices: readonly number[]) => indices.map(keyOf);
const decided = rulesOf({ founders: keys(...FOUNDERS), foundersDecide: true, sessions: true });
const everybody = { ...decided, foundersDecide: false };

/** A round in which these keys are members; the session acts for founder 0. */
function ledgerOf(indices: readonly number[], round = 5): Ledger {
  const base = play(decided, {});
  const members = indices.map((index) => ({
    ...base.members[0]!,
    key: keyOf(index),
    features: {
      sessions: { principal: index === SESSION ? keyOf(0) : '', until: index === SESSION ? 9 : -1 },
    },
  }));
  return { ...base, round, members };
}

describe('a guest', () => {
  const all = [...FOUNDERS, SESSION, ...GUESTS];
  const ledger = ledgerOf(all);

  it('neither founded the run nor acts for a founder, and exists only where founders decide', () => {
    const guests = (rules: typeof decided) => keys(...all).filter(guestTest(rules, ledger));
    expect(guests(decided)).toEqual(keys(...GUESTS));
    expect(guests(everybody)).toEqual([]);
  });

  it('is left out of a list of keys, unless the list has guests only', () => {
    const among = (...indices: readonly number[]) =>
      withoutGuests(decided, ledger, keys(...indices));
    expect(among(20, 1, 21, SESSION)).toEqual(keys(1, SESSION));
    expect(among(20, 21)).toEqual(keys(20, 21));
    expect(among()).toEqual([]);
    expect(withoutGuests(everybody, ledger, keys(20, 1))).toEqual(keys(20, 1));
  });
});

describe('the seats of guests', () => {
  const weighed = (...indices: readonly number[]) =>
    indices.map((index) => ({ key: keyOf(index), weight: BigInt(index + 1) }));
  const seatedOf = (
    eligible: readonly number[],
    { round = 5, rules = decided }: { round?: number; rules?: typeof decided } = {},
  ) => withFounderQuorum(rules, ledgerOf(eligible, round), weighed(...eligible));

  it('are as many as leave the founders a quorum, drawn for the round', () => {
    const eligible = [20, 0, 21, 1, 22, 2, 23, 3, 24, 4];
    const perRound = [5, 6, 7, 8, 9, 10].map((round) => {
      const seated = seatedOf(eligible, { round });
      expect(seated).toEqual(
        weighed(...eligible).filter((each) => seated.some(({ key }) => key === each.key)),
      );
      const guests = seated.map(({ key }) => key).filter((key) => keys(...GUESTS).includes(key));
      expect(guests).toHaveLength(mostGuests(decided.committee, FOUNDERS.length));
      expect(seated).toHaveLength(FOUNDERS.length + guests.length);
      return guests.join();
    });
    expect(new Set(perRound).size).toBeGreaterThan(1);
  });

  it('are all given if they are few enough, if founders do not decide or if no founder is eligible', () => {
    const few = [...FOUNDERS, 20, 21];
    expect(seatedOf(few)).toEqual(weighed(...few));
    const many = [...FOUNDERS, ...GUESTS];
    expect(seatedOf(many, { rules: everybody })).toEqual(weighed(...many));
    expect(seatedOf(GUESTS)).toEqual(weighed(...GUESTS));
  });

  it('are counted from the founders and the keys that act for them', () => {
    expect(seatedOf([1, 2, 3, SESSION, 20, 21])).toHaveLength(5);
    expect(seatedOf([SESSION, 20])).toEqual(weighed(SESSION));
  });

  test.each([
    { quorum: 'bft' },
    { quorum: 'cft' },
    { quorum: 'bft', size: 6 },
    { quorum: 'cft', size: 6 },
  ] as const)('under %j are the most with which founders alone decide', (rules) => {
    const { size = Number.POSITIVE_INFINITY } = rules as { size?: number };
    const fits = (seats: number, founders: number) =>
      seats <= size && quorumOf(rules.quorum, seats) <= founders;
    for (let founders = 1; founders <= 9; founders++) {
      const most = mostGuests(rules, founders);
      const seats = founders + most;
      expect(most).toBeGreaterThanOrEqual(0);
      expect(fits(seats + 1, founders)).toBe(false);
      if (most > 0) expect(fits(seats, founders)).toBe(true);
    }
  });
});

it('members of a smaller tier hold no seat', () => {
  const rules = rulesOf({ tiers: 2 });
  const ledger = play(rules, {}, {}, {});
  const [first, ...others] = ledger.members;
  const narrow = { ...first!, features: { ...first!.features, widths: { tier: 1 } } };
  const sitting = (members: Ledger['members']) =>
    seatable({ ...ledger, members }, liveOf(rules, ledger));
  expect(sitting(ledger.members)).toEqual(ledger.members.map(({ key }) => key));
  expect(sitting([narrow, ...others])).toEqual(others.map(({ key }) => key));
});
