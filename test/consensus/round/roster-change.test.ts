import fc from 'fast-check';
import {
  firstLedger,
  type MembershipRules,
  type RosterChange,
  type RosterJoin,
  revealOf,
} from 'nostrain/consensus';
import { describe, expect, it, test } from 'vitest';
import {
  chooseJoins,
  joinsBeforeLeaving,
  nextDepartures,
  refuseChange,
} from '../../../src/consensus/round/roster-change.ts';
import { keyOf } from '../../support/members.ts';
import { chainOf, changeOf, joinOf, play, rulesOf } from '../../support/run-history.ts';

const rules = rulesOf();
const FINAL = {};
const ledger = play(rules, FINAL, FINAL);
const judge = (change: Partial<RosterChange>, under: MembershipRules = rules) =>
  refuseChange(under, ledger, changeOf(ledger, change));

describe('a change of the roster', () => {
  it('stands when it keeps to the rules', () => {
    expect(judge({})).toBeUndefined();
    expect(judge({ joins: [joinOf(9)], leaves: [keyOf(1)], faults: [keyOf(2)] })).toBeUndefined();
    expect(judge({ proposer: keyOf(3), reveal: revealOf(chainOf(3), 2) })).toBeUndefined();
    expect(judge({ seen: [keyOf(99)] })).toBeUndefined();
    const first = firstLedger(rules);
    expect(refuseChange(rules, first, changeOf(first))).toBeUndefined();
  });

  test.each<[string, Partial<RosterChange>]>([
    ['wrong-round', { round: 3 }],
    ['proposer-not-in-roster', { proposer: keyOf(9) }],
    ['wrong-reveal', { proposer: keyOf(1) }],
    ['wrong-reveal', { reveal: '' }],
    ['wrong-reveal', { reveal: revealOf(chainOf(0), 3) }],
    ['leave-not-in-roster', { leaves: [keyOf(9)] }],
    ['fault-not-in-roster', { faults: [keyOf(9)] }],
    ['too-many-joins', { joins: [joinOf(8), joinOf(9)] }],
    ['join-twice', { joins: [joinOf(9), { ...joinOf(8), key: keyOf(9) }] }],
    ['join-of-member', { joins: [joinOf(1)] }],
    ['snapshot-out-of-turn', { snapshot: keyOf(70) }],
  ])('%s', (fault, change) => {
    expect(judge(change)).toBe(fault);
  });

  it('too-few-founders: outcome 0 lists the joins of a quorum of them, and they are not capped', () => {
    const first = firstLedger(rules);
    const joins = [0, 1].map(joinOf);
    expect(refuseChange(rules, first, changeOf(first, { joins }))).toBe('too-few-founders');
    const others = [0, 1, 2, 9].map(joinOf);
    expect(refuseChange(rules, first, changeOf(first, { joins: others }))).toBeUndefined();
  });

  it('called founders: outcome 0 lists a quorum of those whom the lot calls, and none but those', () => {
    const numbers = [0, 1, 2, 3, 4];
    const calling = rulesOf({ founders: numbers.map(keyOf), foundersPerRound: 4 });
    const first = firstLedger(calling);
    const all = numbers.map(joinOf);
    const judge = (joins: readonly RosterJoin[]) =>
      refuseChange(calling, first, changeOf(first, { joins }));
    const called = chooseJoins(calling, first, all);
    expect(called).toHaveLength(4);
    expect(judge(called)).toBeUndefined();
    expect(judge(called.slice(1))).toBeUndefined();
    expect(judge(called.slice(2))).toBe('too-few-founders');
    const other = all.find(({ key }) => called.every((join) => join.key !== key))!;
    expect(judge([...called.slice(1), other])).toBe('join-not-called');
    const next = play(calling, { joins: called });
    expect(chooseJoins(calling, next, all)).toEqual([other]);
    expect(refuseChange(calling, next, changeOf(next, { joins: [other] }))).toBeUndefined();
    const late = play(calling, { joins: called }, { joins: [other] });
    const seatOf = (key: string) => late.members.find((member) => member.key === key)!.seatFrom;
    expect([seatOf(called[0]!.key), seatOf(other.key)]).toEqual([0, -1]);
  });

  it('too-many-joins: of more founders than one outcome lists the others wait', () => {
    const calling = rulesOf({ foundersPerRound: 1 });
    const first = firstLedger(calling);
    const all = [0, 1, 2, 3].map(joinOf);
    const next = play(calling, { joins: chooseJoins(calling, first, all) });
    const open = all.filter(
      ({ key }) => next.members.find((each) => each.key === key)?.tip === null,
    );
    const wide = changeOf(next, { joins: open.slice(0, 2) });
    expect(refuseChange(calling, next, wide)).toBe('too-many-joins');
    expect(chooseJoins(calling, next, open)).toHaveLength(1);
  });

  it('join-of-faulted and join-not-admitted', () => {
    const after = play(rules, FINAL, { faults: [keyOf(2)] });
    const joins = [joinOf(2)];
    expect(refuseChange(rules, after, changeOf(after, { joins }))).toBe('join-of-faulted');
    const closed = rulesOf({ admission: { kind: 'list', keys: [keyOf(8)] } });
    expect(judge({ joins: [joinOf(9)] }, closed)).toBe('join-not-admitted');
    expect(judge({ joins: [joinOf(8)] }, closed)).toBeUndefined();
  });

  it('names another snapshot in the rounds of its interval only', () => {
    const evm = rulesOf({ stake: { source: 'evm', snapshot: keyOf(70), every: 2 } });
    const named = (...outcomes: readonly Partial<RosterChange>[]) => {
      const before = play(evm, ...outcomes);
      return refuseChange(evm, before, changeOf(before, { snapshot: keyOf(71) }));
    };
    expect(named(FINAL)).toBe('snapshot-out-of-turn');
    expect(named(FINAL, FINAL)).toBeUndefined();
    const before = play(evm, FINAL, FINAL);
    expect(refuseChange(evm, before, changeOf(before, { snapshot: '' }))).toBe(
      'snapshot-out-of-turn',
    );
  });
});

describe('the joins a proposer lists', () => {
  const known = Array.from({ length: 12 }, (_, i) => joinOf(20 + i));

  it('are the first newcomers by lot, whatever order they are known in', () => {
    const wide = rulesOf({ joinsPerRound: 4 });
    const chosen = chooseJoins(wide, ledger, known);
    expect(chosen).toHaveLength(4);
    fc.assert(
      fc.property(fc.shuffledSubarray(known, { minLength: 12 }), (shuffled) => {
        expect(chooseJoins(wide, ledger, shuffled)).toEqual(chosen);
      }),
      { numRuns: 20 },
    );
    const other = play(rules, FINAL, { proposer: keyOf(1), reveal: revealOf(chainOf(1), 1) });
    expect(chooseJoins(wide, other, known)).not.toEqual(chosen);
  });

  it('are at most a quarter of the roster, and a change made of them stands', () => {
    const chosen = chooseJoins(rules, ledger, [...known, joinOf(1), known[0]!]);
    expect(chosen).toHaveLength(1);
    expect(judge({ joins: chosen })).toBeUndefined();
  });

  it('include members without a tip, in addition to newcomers', () => {
    const few = play(rules, { joins: [0, 1, 2].map(joinOf) });
    const chosen = chooseJoins(rules, few, [...known, joinOf(3)]);
    expect(chosen[0]).toEqual(joinOf(3));
    expect(chosen).toHaveLength(2);
  });
});

describe('a leave holds against joins that are older', () => {
  const [key, other] = [keyOf(1), keyOf(2)];
  const left = [
    { key, round: 5 },
    { key, round: 9 },
  ];

  test.each([
    [-1, true],
    [8, true],
    [9, false],
    [12, false],
  ])('a join that follows the outcome of round %i is void: %s', (after, isVoid) => {
    expect(joinsBeforeLeaving(left)({ key, after })).toBe(isVoid);
    expect(joinsBeforeLeaving(left)({ key: other, after })).toBe(false);
  });

  it('is remembered as long as an older join may be listed, and no longer', () => {
    const before = [{ key, round: 5 }];
    const next = nextDepartures(before, [other], { round: 9, oldest: 4 });
    expect(next).toEqual([...before, { key: other, round: 9 }]);
    expect(nextDepartures(before, [], { round: 9, oldest: 5 })).toEqual([]);
  });
});
