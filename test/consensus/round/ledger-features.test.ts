/** What features of a run add to its ledger, and how outcomes change it. */
import { firstLedger, liveOf, type MembershipRules, type RosterChange } from 'nostrain/consensus';
import type { Ledger } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { drawnOf } from '../../../src/consensus/committee/draw.ts';
import { completeLedger } from '../../../src/consensus/round/membership.ts';
import { JURY_ROUNDS } from '../../../src/run/spec/feature-fields.ts';
import { keyOf } from '../../support/members.ts';
import { joinOf, play, rulesOf } from '../../support/run-history.ts';

const keys = (...indices: readonly number[]) => indices.map(keyOf).sort();
const memberOf = ({ members }: Ledger, index: number) =>
  members.find(({ key }) => key === keyOf(index));
const VOID = { result: 'void', seen: [], accepted: [] } as const;

describe('the first ledger', () => {
  const snapshot = keyOf(77);
  const scores = { history: [], low: 0, before: 0 };
  const seats = { wants: 1, before: 1, asked: -1 };
  const sessions = { principal: '', until: -1 };
  const cases: readonly (readonly [
    change: Partial<MembershipRules>,
    ledger: Ledger['features'],
    member: object | undefined,
  ])[] = [
    [{}, {}, undefined],
    [{ late: 'defer' }, { defer: { late: [] } }, undefined],
    [{ jury: 3 }, { jury: { left: [] } }, { jury: { sat: [] } }],
    [{ jury: 0, tiers: 0 }, {}, undefined],
    [{ tiers: 2 }, { widths: { sizes: [[], []] } }, { widths: { tier: 0 } }],
    [{ stake: { source: 'file', snapshot } }, { stake: { snapshot, next: snapshot } }, undefined],
    [{ stake: { source: 'file' } }, { stake: { snapshot: '', next: '' } }, undefined],
    [{ scores: true }, {}, { scores }],
    [{ seatWishes: true }, {}, { seats }],
    [{ sessions: true }, {}, { sessions }],
    [
      { scores: true, seatWishes: true, sessions: true, jury: 1, tiers: 1 },
      { jury: { left: [] }, widths: { sizes: [[]] } },
      { scores, seats, sessions, jury: { sat: [] }, widths: { tier: 0 } },
    ],
  ];

  it.each(cases)('with %j has the fields %j, and members %j', (change, features, added) => {
    const ledger = firstLedger(rulesOf(change));
    expect(ledger.features).toEqual(features);
    for (const member of ledger.members) {
      expect(member.features).toEqual(added);
      expect(member).toMatchObject({ lastSeen: -1, seenBefore: -1, seatFrom: 0, joined: 0 });
    }
    expect(Object.keys(play(rulesOf(change), {}).features)).toEqual(Object.keys(features));
  });

  it('has its randomness from the start', () => {
    const rules = rulesOf();
    const { entropy, ...ledger } = firstLedger(rules);
    expect(completeLedger(rules, { ...ledger, entropy: null }, '')).toEqual(firstLedger(rules));
    expect(entropy).not.toBeNull();
  });
});

describe('in a run with a jury', () => {
  const rules = rulesOf({ jury: 2 });
  const committee = { committee: keys(0, 1) };
  const rounds = (count: number, from = 0) => Array.from({ length: count }, (_, i) => from + i);
  const satOf = (ledger: Ledger, index: number) => memberOf(ledger, index)?.features?.jury?.sat;

  it('members remember in whose committees they sat, for as long as a verdict may come', () => {
    const ledger = play(rules, ...Array(JURY_ROUNDS).fill(committee));
    expect(satOf(ledger, 0)).toEqual(rounds(JURY_ROUNDS));
    expect(satOf(ledger, 2)).toEqual([]);
    const later = play(rules, ...Array(JURY_ROUNDS + 2).fill(committee), {});
    expect(satOf(later, 1)).toEqual(rounds(JURY_ROUNDS - 1, 3));
  });

  it('those that left are remembered as well, in all their times, and no longer', () => {
    const left = (...outcomes: readonly Partial<RosterChange>[]) =>
      play(rules, ...outcomes).features.jury!.left;
    const both = { ...committee, leaves: [keyOf(1), keyOf(0)] };
    expect(left(committee, committee, both)).toEqual(keys(0, 1).map((key) => [key, [0, 1, 2]]));
    expect(left(committee, { leaves: [keyOf(2)] })).toEqual([]);
    // it came back, sat again and left again
    const back = { joins: [joinOf(0)] };
    const again = { committee: [keyOf(0)], leaves: [keyOf(0)] };
    const gone = [committee, { ...committee, leaves: [keyOf(0)] }, back, again] as const;
    expect(left(...gone)).toEqual([[keyOf(0), [0, 1, 3]]]);
    expect(left(...gone, ...Array(JURY_ROUNDS - 3).fill({}))).toEqual([[keyOf(0), [1, 3]]]);
    expect(left(...gone, ...Array(JURY_ROUNDS - 1).fill({}))).toEqual([[keyOf(0), [3]]]);
    expect(left(...gone, ...Array(JURY_ROUNDS).fill({}))).toEqual([]);
  });
});

it('in a run with tiers the sizes of each outer slice have a history of their own', () => {
  const sized = (rowSize: number, ...outerSizes: readonly number[]) => ({ rowSize, outerSizes });
  const ledger = play(rulesOf({ tiers: 2 }), sized(3, 2, 1), { rowSize: 4 }, sized(5, 0, 7));
  expect(ledger.rowSizes).toEqual([3, 4, 5]);
  expect(ledger.features.widths!.sizes).toEqual([[2], [1, 7]]);
  expect(
    memberOf(play(rulesOf({ tiers: 2 }), {}, { joins: [{ ...joinOf(9), tier: 2 }] }), 9),
  ).toMatchObject({
    features: { widths: { tier: 2 } },
  });
});

describe('in a run that draws contributors', () => {
  const rules = rulesOf({ contributors: 2 });

  it('members that were not drawn are as recently seen as before, those that were drawn and sent nothing are not', () => {
    const before = play(rules, {});
    const drawn = drawnOf(rules, before)!;
    expect(drawn.size).toBe(2);
    const silent = { seen: [], accepted: [], contributed: [] };
    for (const { key, lastSeen } of play(rules, {}, silent).members)
      expect(lastSeen).toBe(drawn.has(key) ? 0 : 1);
    for (const { lastSeen } of play(rules, {}, VOID).members) expect(lastSeen).toBe(0);
  });
});

it('in a void outcome no member counts as seen, and no contribution earns a seat', () => {
  const all = keys(0, 1, 2, 3, 9);
  const listed = { result: 'void', accepted: [], seen: all, contributed: all } as const;
  const ledger = play(rulesOf(), {}, { joins: [joinOf(9)] }, listed);
  expect(memberOf(ledger, 0)).toMatchObject({ lastSeen: 1 });
  expect(memberOf(ledger, 9)).toMatchObject({ lastSeen: -1, seatFrom: -1 });
});

describe('members are live', () => {
  it('only if they were seen lately, however long absent ones stay in the roster', () => {
    const rules = rulesOf({ liveRounds: 1, absentRounds: 6 });
    const without3 = { seen: keys(0, 1, 2), accepted: keys(0, 1, 2) };
    const recentlyLive = (...outcomes: readonly Partial<RosterChange>[]) =>
      liveOf(rules, play(rules, {}, {}, ...outcomes));
    expect(recentlyLive(without3)).toEqual(keys(0, 1, 2, 3));
    expect(recentlyLive(without3, {})).toEqual(keys(0, 1, 2));
    expect(play(rules, {}, {}, without3, without3).members).toHaveLength(4);
    expect(play(rules, ...Array(9).fill({})).finals).toHaveLength(6);
    expect(play(rulesOf({ liveRounds: 5 }), ...Array(9).fill({})).finals).toHaveLength(6);
  });

  it('after a recovery without a vote if they could have none', () => {
    const rules = rulesOf();
    const recovered = { isRecovered: true, viewChangeKeys: keys(0, 1, 2) };
    const came = [{}, { joins: [joinOf(9)] }] as const;
    const all = { seen: keys(0, 1, 2, 3, 9), accepted: keys(0, 1, 2, 3, 9) };
    const founders = { contributed: keys(0, 1, 2, 3) };
    const liveAfter = (...outcomes: readonly Partial<RosterChange>[]) =>
      [...liveOf(rules, play(rules, ...came, ...outcomes))].sort();
    // its first seat is in the round after the recovery
    expect(liveAfter(all, recovered)).toEqual(keys(0, 1, 2, 9));
    expect(liveAfter(all, {}, recovered)).toEqual(keys(0, 1, 2));
    // it has not earned a seat
    expect(
      liveAfter({ ...all, ...founders }, { ...all, ...founders }, { ...recovered, ...founders }),
    ).toEqual(keys(0, 1, 2, 9));
  });

  it('as newcomers only once they were seen, also in the first rounds', () => {
    const rules = rulesOf();
    const silent = { seen: keys(0, 1, 2, 3), accepted: keys(0, 1, 2, 3) };
    const first = { joins: [0, 1, 2, 3, 9].map(joinOf) };
    expect(liveOf(rules, play(rules, first, silent))).not.toContain(keyOf(9));
    expect(liveOf(rules, play(rules, first, {}, {}))).toContain(keyOf(9));
  });
});
