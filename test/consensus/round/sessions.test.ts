/** Sessions on behalf of another key: one at a time, up to the delegated round; the principal is responsible for it. */

import {
  chooseJoins,
  drawCommittee,
  firstLedger,
  nextLedger,
  type RosterJoin,
  refuseChange,
} from 'nostrain/consensus';
import { featureSet, type Ledger, ledgerBytes, ledgerRoot, parseLedger } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { calledFounders } from '../../../src/consensus/round/roster-change.ts';
import { seatNames, seatSessions } from '../../../src/run/founder-seats.ts';
import { keyOf } from '../../support/members.ts';
import { changeOf, joinOf, play, rulesOf } from '../../support/run-history.ts';

const rules = rulesOf({ sessions: true, joinsPerRound: 4 });
const FINAL = {};
const PRINCIPAL = 50;
const of = (index: number, principal = PRINCIPAL, until = 40): RosterJoin => ({
  ...joinOf(index),
  session: { principal: keyOf(principal), until },
});
const own = (index: number): RosterJoin => ({
  ...joinOf(index),
  session: { principal: '', until: -1 },
});
const rowOf = (ledger: Ledger, index: number) =>
  ledger.members.find(({ key }) => key === keyOf(index));
const refused = (ledger: Ledger, ...joins: readonly RosterJoin[]) =>
  refuseChange(rules, ledger, changeOf(ledger, { joins }));

describe('sessions', () => {
  it('are in the ledger with their principal, and among its bytes', () => {
    const ledger = play(rules, FINAL, { joins: [of(9), own(8)] });
    expect(rowOf(ledger, 9)?.features?.sessions).toEqual({
      principal: keyOf(PRINCIPAL),
      until: 40,
    });
    expect(rowOf(ledger, 8)?.features?.sessions).toEqual({ principal: '', until: -1 });
    expect(rowOf(ledger, 0)?.features?.sessions).toEqual({ principal: '', until: -1 });
    const set = featureSet(['sessions']);
    const read = parseLedger(ledgerBytes(ledger), ledgerRoot(ledger), set);
    expect(read.ok && read.value.members).toEqual(ledger.members);
  });

  it('of one name are one at a time, and its own key is one of them', () => {
    const first = play(rules, FINAL);
    expect(refused(first, of(9))).toBeUndefined();
    expect(refused(first, of(9), of(10))).toBe('join-twice');
    expect(refused(first, of(9), of(10, 51))).toBeUndefined();
    expect(refused(first, of(9, 0))).toBe('principal-taken');
    const ledger = play(rules, FINAL, { joins: [of(9)] });
    expect(refused(ledger, of(10))).toBe('principal-taken');
    expect(refused(ledger, own(PRINCIPAL))).toBe('principal-taken');
    expect(refused(ledger, of(10, 51))).toBeUndefined();
    const gone = play(rules, FINAL, { joins: [of(9)] }, { leaves: [keyOf(9)] });
    expect(refused(gone, of(10))).toBeUndefined();
  });

  it('are listed by a proposer once for each name, whatever it was sent', () => {
    const ledger = play(rules, FINAL);
    const joins = [of(9), of(10), of(11), of(12, 51)];
    const chosen = chooseJoins(rules, ledger, joins);
    expect(chosen).toHaveLength(2);
    expect(refused(ledger, ...chosen)).toBeUndefined();
  });

  it('end with the round they were delegated for', () => {
    const ledger = play(rules, FINAL, { joins: [of(9, PRINCIPAL, 4)] }, FINAL);
    expect(ledger.round).toBe(3);
    expect(rowOf(ledger, 9)).toBeDefined();
    const last = play(rules, FINAL, { joins: [of(9, PRINCIPAL, 4)] }, FINAL, FINAL);
    expect(rowOf(last, 9)).toBeDefined();
    const over = play(rules, FINAL, { joins: [of(9, PRINCIPAL, 4)] }, FINAL, FINAL, FINAL);
    expect(rowOf(over, 9)).toBeUndefined();
    expect(refused(over, of(9, PRINCIPAL, 5))).toBe('delegation-over');
    expect(refused(over, of(9, PRINCIPAL, 6))).toBeUndefined();
  });

  it('make the principal responsible: a proven fault expels it too', () => {
    const ledger = play(rules, FINAL, { joins: [of(9)] }, { faults: [keyOf(9)] });
    expect(ledger.faulted).toEqual([keyOf(9), keyOf(PRINCIPAL)].sort());
    expect(refused(ledger, of(10))).toBe('join-of-faulted');
    expect(refused(ledger, own(PRINCIPAL))).toBe('join-of-faulted');
  });

  it('are admitted only for principals on the list', () => {
    const listed = { ...rules, admission: { kind: 'list', keys: [keyOf(PRINCIPAL)] } } as const;
    const ledger = play(listed, FINAL);
    const judge = (join: RosterJoin) =>
      refuseChange(listed, ledger, changeOf(ledger, { joins: [join] }));
    expect(judge(of(9))).toBeUndefined();
    expect(judge(own(PRINCIPAL))).toBeUndefined();
    expect(judge(own(9))).toBe('join-not-admitted');
    expect(judge(of(PRINCIPAL, 51))).toBe('join-not-admitted');
  });

  it('of founders are none: they are in the roster by their own keys', () => {
    const ledger = play(rules);
    const joins = [of(0), ...[1, 2, 3].map(own)];
    expect(refused(ledger, ...joins)).toBe('join-of-member');
  });
});

describe('a founder that takes part with a session key', () => {
  const FOUNDER = 3;
  const session = { key: keyOf(9), principal: keyOf(FOUNDER), until: 40 };
  const first = firstLedger(rules);

  it('has its row in round 0 under that key, and counts as the founder', () => {
    const ledger = seatSessions(first, [session]);
    expect(ledger.members.map(({ key }) => key)).toEqual(
      first.members.map(({ key }) => (key === keyOf(FOUNDER) ? keyOf(9) : key)),
    );
    expect(refused(ledger, ...[0, 1].map(own), of(9, FOUNDER))).toBeUndefined();
    expect(refused(ledger, ...[0, 1].map(own))).toBe('too-few-founders');
    expect(refused(first, ...[0, 1, 2].map(own), of(9, FOUNDER))).toBe('principal-taken');
    const joins = [0, 1, 2, FOUNDER].map(own);
    expect(chooseJoins(rules, ledger, [...joins, of(9, FOUNDER), of(10, FOUNDER)])).toEqual([
      ...joins.slice(0, 3),
      of(9, FOUNDER),
    ]);
    const change = changeOf(ledger, { joins: [...joins.slice(0, 3), of(9, FOUNDER)] });
    const next = nextLedger(rules, ledger, change);
    expect(rowOf(next, FOUNDER)).toBeUndefined();
    expect(rowOf(next, 9)).toMatchObject({ tip: joinOf(9).tip, seatFrom: 0, joined: 0 });
  });

  it('may be called by its own key alone, whatever the session key', () => {
    const few = { ...rules, foundersPerRound: 2 };
    const called = calledFounders(few, first);
    const judge = (founder: string) => {
      const ledger = seatSessions(first, [{ ...session, principal: founder }]);
      const others = called.filter((key) => key !== founder).map((key) => ({ key, tip: 'ab' }));
      const delegated = { ...joinOf(9), session: { principal: founder, until: 40 } };
      const joins = [...others, delegated].slice(-2);
      return refuseChange(few, ledger, changeOf(ledger, { proposer: called[0]!, joins }));
    };
    expect(judge(called[1]!)).toBeUndefined();
    const uncalled = first.members.map(({ key }) => key).find((key) => !called.includes(key))!;
    expect(judge(uncalled)).toBe('too-few-founders');
  });

  it('is seated by the joins of an outcome alone, only for founders, once each', () => {
    const seated = seatSessions(first, [session]);
    expect(seatSessions(seated, [session])).toBe(seated);
    expect(seatSessions(seated, [])).toBe(first);
    const other = { ...session, key: keyOf(10) };
    expect(seatSessions(first, [session, other])).toBe(seated);
    expect(seatSessions(first, [{ ...session, principal: keyOf(PRINCIPAL) }])).toBe(first);
    expect(seatSessions(first, [{ ...session, key: keyOf(1) }])).toBe(first);
    const later = play(rules, FINAL);
    expect(seatSessions(later, [session])).toBe(later);
  });

  it('has the seat that the founder has, in the same draw', () => {
    const draw = {
      run: rules.run,
      round: 0,
      attempt: 0,
      entropy: first.entropy!,
      parent: rules.run,
    };
    const committeeIn = (ledger: Ledger) =>
      drawCommittee({
        ...draw,
        eligible: ledger.members.map(({ key }) => key),
        stakes: null,
        rules: { size: 16, quorum: 'bft', weights: 'equal', minStake: '0' },
        names: seatNames(ledger),
      });
    const before = committeeIn(first);
    const after = committeeIn(seatSessions(first, [session]));
    expect(after.ctx).toBe(before.ctx);
    expect(after.members).toEqual(
      before.members.map((key) => (key === keyOf(FOUNDER) ? keyOf(9) : key)),
    );
  });

  it('that was absent from outcome 0 joins later as a newcomer in place of the founder', () => {
    const ledger = play(rules, { joins: [0, 1, 2].map(own) });
    expect(refused(ledger, of(9, FOUNDER))).toBeUndefined();
    expect(refused(ledger, of(9, FOUNDER), own(FOUNDER))).toBe('join-twice');
    expect(chooseJoins(rules, ledger, [of(9, FOUNDER), own(FOUNDER)])).toEqual([own(FOUNDER)]);
    const next = nextLedger(rules, ledger, changeOf(ledger, { joins: [of(9, FOUNDER)] }));
    expect(next.members.map(({ key }) => key)).toEqual([0, 1, 2, 9].map(keyOf).sort());
    expect(rowOf(next, 9)).toMatchObject({ joined: 2, seatFrom: -1 });
    expect(refused(next, own(FOUNDER))).toBe('principal-taken');
  });
});
