/** Seat wishes in joins: a wish takes effect two rounds later, and never leaves a run without a committee. */
import fc from 'fast-check';
import {
  chooseJoins,
  liveOf,
  type RosterChange,
  type RosterJoin,
  refuseChange,
  seatable,
} from 'nostrain/consensus';
import { featureSet, type Ledger, ledgerBytes, ledgerRoot, parseLedger } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { entitled } from '../../../src/consensus/round/seats.ts';
import { keyOf } from '../../support/members.ts';
import { changeOf, joinOf, play, rulesOf } from '../../support/run-history.ts';

const rules = rulesOf({ seatWishes: true });
const keys = (...indices: readonly number[]) => indices.map(keyOf).sort();
const FINAL = {};
const VOID = { result: 'void', seen: [], accepted: [] } as const;
const wish = (index: number, wants: 0 | 1, asked: number): RosterJoin => ({
  ...joinOf(index),
  seats: { wants, asked },
});
const sitting = (ledger: Ledger) => [...seatable(ledger, liveOf(rules, ledger))].sort();
const owning = (ledger: Ledger) => [...entitled(ledger, liveOf(rules, ledger))].sort();
const away = (index: number, asked: number): Partial<RosterChange> => ({
  joins: [wish(index, 0, asked)],
});

describe('seat wishes', () => {
  it('count two rounds on, in final and void outcomes alike, and can be taken back', () => {
    for (const listing of [{}, VOID]) {
      const asked = [FINAL, { ...listing, ...away(3, 0) }];
      expect(sitting(play(rules, ...asked))).toEqual(keys(0, 1, 2, 3));
      expect(sitting(play(rules, ...asked, FINAL))).toEqual(keys(0, 1, 2));
      const back = { ...listing, joins: [wish(3, 1, 2)] };
      expect(sitting(play(rules, ...asked, FINAL, back))).toEqual(keys(0, 1, 2));
      expect(sitting(play(rules, ...asked, FINAL, back, FINAL))).toEqual(keys(0, 1, 2, 3));
    }
  });

  it('take no parameters from a member without the wish for a seat', () => {
    expect(owning(play(rules, FINAL, away(3, 0), FINAL))).toEqual(keys(0, 1, 2, 3));
  });

  it('of founders are said with their tips, in the first round', () => {
    const first = { joins: [joinOf(0), joinOf(1), joinOf(2), wish(3, 0, -1)] };
    expect(sitting(play(rules, first))).toEqual(keys(0, 1, 2, 3));
    expect(sitting(play(rules, first, FINAL))).toEqual(keys(0, 1, 2));
  });

  it('of newcomers keep them out of committees for as long as they last', () => {
    const came = play(rules, FINAL, { joins: [wish(9, 0, 0)] }, FINAL, FINAL, FINAL, FINAL);
    expect(sitting(came)).toEqual(keys(0, 1, 2, 3));
    expect(owning(came)).toEqual(keys(0, 1, 2, 3, 9));
  });

  it('are refused that say nothing new, that are older than the last one, or that bring another tip', () => {
    const ledger = play(rules, FINAL, away(3, 0));
    const refused = (join: RosterJoin) =>
      refuseChange(rules, ledger, changeOf(ledger, { joins: [join] }));
    expect(refused(wish(3, 1, 1))).toBeUndefined();
    expect(refused(wish(3, 0, 1))).toBe('join-of-member');
    expect(refused(wish(3, 1, 0))).toBe('join-of-member');
    expect(refused({ ...wish(3, 1, 1), tip: joinOf(2).tip })).toBe('join-of-member');
    expect(refused(joinOf(3))).toBe('join-of-member');
    const twice = [wish(3, 1, 1), wish(3, 1, 1)];
    expect(refuseChange(rules, ledger, changeOf(ledger, { joins: twice }))).toBe('join-twice');
  });

  it('have the same limit per outcome as newcomers, and are chosen by lot', () => {
    const ledger = play(rules, FINAL);
    const all = [0, 1, 2, 3].map((index) => wish(index, 0, 0));
    const chosen = chooseJoins(rules, ledger, [...all, wish(9, 1, 0)]);
    expect(chosen.filter(({ key }) => key !== keyOf(9))).toHaveLength(1);
    expect(chosen.map(({ key }) => key)).toContain(keyOf(9));
    expect(refuseChange(rules, ledger, changeOf(ledger, { joins: chosen }))).toBeUndefined();
    const two = all.slice(0, 2);
    expect(refuseChange(rules, ledger, changeOf(ledger, { joins: two }))).toBe('too-many-joins');
  });

  it('are nothing in a run without them', () => {
    const plain = rulesOf();
    const ledger = play(plain, FINAL);
    expect(ledger.members[0]?.features).toBeUndefined();
    const joins = [wish(3, 0, 0)];
    expect(refuseChange(plain, ledger, changeOf(ledger, { joins }))).toBe('join-of-member');
  });

  it("are part of the ledger's bytes, next to the scores", () => {
    const both = rulesOf({ seatWishes: true, scores: true });
    const ledger = play(both, FINAL, away(3, 0), FINAL);
    const { features } = ledger.members.find(({ key }) => key === keyOf(3))!;
    expect(features?.seats).toEqual({ wants: 0, before: 0, asked: 0 });
    expect(features?.scores).toEqual({ history: [], low: 0, before: 0 });
    const set = featureSet(['scores', 'seats']);
    const read = parseLedger(ledgerBytes(ledger), ledgerRoot(ledger), set);
    expect(read.ok && read.value.members).toEqual(ledger.members);
    expect(parseLedger(ledgerBytes(ledger), ledgerRoot(ledger), featureSet(['scores'])).ok).toBe(
      false,
    );
  });

  it('of any order of joins lead to one ledger', () => {
    const many = rulesOf({ seatWishes: true, joinsPerRound: 8 });
    const joins = [wish(1, 0, 0), wish(2, 0, 0), wish(8, 0, 0), wish(9, 1, 0)];
    const roots = new Set<string>();
    fc.assert(
      fc.property(fc.shuffledSubarray(joins, { minLength: joins.length }), (order) => {
        roots.add(ledgerRoot(play(many, FINAL, { joins: order }, FINAL)));
        expect(roots.size).toBe(1);
      }),
      { numRuns: 20 },
    );
  });
});
