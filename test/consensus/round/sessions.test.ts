/** Sessions on behalf of another key: one at a time, up to the delegated round; the principal is responsible for it. */

import { chooseJoins, type RosterJoin, refuseChange } from 'nostrain/consensus';
import { featureSet, type Ledger, ledgerBytes, ledgerRoot, parseLedger } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
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
