import fc from 'fast-check';
import { seatable } from 'nostrain/consensus';
import { type Ledger, nextSnapshotOf, snapshotOf } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import {
  completeLedger,
  firstLedger,
  liveOf,
  nextLedger,
  type RosterChange,
} from '../../../src/consensus/round/membership.ts';
import { unseated } from '../../../src/consensus/round/seats.ts';
import { lateOf } from '../../../src/run/ledger.ts';
import { keyOf } from '../../support/members.ts';
import { changeOf, joinOf, play, rulesOf } from '../../support/run-history.ts';

const rules = rulesOf();
const roster = ({ members }: Ledger) => members.map(({ key }) => key);
const keys = (...indices: readonly number[]) => indices.map(keyOf).sort();
const FINAL = {};
const VOID = { result: 'void', seen: [], accepted: [] } as const;
/** A final outcome that sees all of the members 0 to 3 except these. */
const without = (...away: readonly number[]): Partial<RosterChange> => ({
  seen: keys(0, 1, 2, 3).filter((key) => !away.map(keyOf).includes(key)),
});

describe('the roster', () => {
  it('begins with the founders, which all decide round 0', () => {
    const ledger = firstLedger(rules);
    expect(roster(ledger)).toEqual(keys(0, 1, 2, 3));
    expect(seatable(ledger, liveOf(rules, ledger))).toEqual(keys(0, 1, 2, 3));
  });

  it('after round 0 a key without a certified tip has no seat until an outcome lists its join', () => {
    const ledger = play(rules, { joins: [0, 1, 2].map(joinOf) });
    expect(liveOf(rules, ledger)).toEqual(keys(0, 1, 2, 3));
    expect(seatable(ledger, liveOf(rules, ledger))).toEqual(keys(0, 1, 2));
  });

  it('a founder with a late tip waits as newcomers do, or it would choose its tip knowing the draw', () => {
    const late = [{ joins: [0, 1, 2].map(joinOf) }, FINAL, { joins: [joinOf(3)] }];
    const sitting = (...outcomes: readonly Partial<RosterChange>[]) => {
      const ledger = play(rules, ...late, ...outcomes);
      expect(ledger.members.find(({ key }) => key === keyOf(3))?.tip).not.toBe(null);
      return seatable(ledger, liveOf(rules, ledger)).includes(keyOf(3));
    };
    // it contributed to every round before; that says nothing about reveals it committed to since
    expect(sitting()).toBe(false);
    expect(sitting(FINAL)).toBe(false);
    expect(sitting(FINAL, FINAL)).toBe(true);
    const idle = { contributed: keys(0, 1, 2) };
    expect(sitting(idle, idle, idle)).toBe(false);
    expect(sitting(idle, VOID, FINAL)).toBe(false);
    expect(sitting(idle, VOID, FINAL, VOID)).toBe(true);
  });

  it('takes joins and leaves from final and void outcomes alike', () => {
    for (const outcome of [FINAL, VOID]) {
      const ledger = play(rules, FINAL, { ...outcome, joins: [joinOf(9)], leaves: [keyOf(2)] });
      expect(roster(ledger)).toEqual(keys(0, 1, 3, 9));
    }
  });

  it('R-09: removes a key with a proven equivocation for ever', () => {
    const ledger = play(rules, FINAL, { faults: [keyOf(2)] }, FINAL);
    expect(roster(ledger)).toEqual(keys(0, 1, 3));
    expect(ledger.faulted).toEqual(keys(2));
    expect(liveOf(rules, ledger)).toEqual(keys(0, 1, 3));
  });

  it('removes members not seen in the last final outcomes; void ones do not count', () => {
    const away = without(3);
    expect(roster(play(rules, away, away))).toContain(keyOf(3));
    expect(roster(play(rules, away, VOID, VOID, away))).toContain(keyOf(3));
    expect(roster(play(rules, away, VOID, away, away))).toEqual(keys(0, 1, 2));
    expect(roster(play(rules, away, away, FINAL, away, away))).toContain(keyOf(3));
  });

  it('gives a newcomer as many rounds to be seen as other members', () => {
    const late = { joins: [joinOf(9)] };
    const outcomes = [FINAL, FINAL, FINAL, late, without(), without()];
    expect(roster(play(rules, ...outcomes))).toContain(keyOf(9));
    expect(roster(play(rules, ...outcomes, without()))).not.toContain(keyOf(9));
  });
});

describe('R-07: a late joiner', () => {
  const joined = [FINAL, FINAL, FINAL, { joins: [joinOf(9)] }];

  it('is not eligible before it was in two rosters and seen', () => {
    const seen = [joined, [...joined, FINAL], [...joined, FINAL, FINAL]].map((outcomes) => {
      const ledger = play(rules, ...outcomes);
      return [ledger.round, liveOf(rules, ledger).includes(keyOf(9))];
    });
    expect(seen).toEqual([[4, false], [5, false], [6, true]]); // biome-ignore format: pairs
  });

  it('has to be seen, also while there are few rounds to look back on', () => {
    const joined = { joins: [0, 1, 2, 3, 9].map(joinOf) };
    const live = (...outcomes: readonly Partial<RosterChange>[]) =>
      liveOf(rules, play(rules, joined, ...outcomes)).includes(keyOf(9));
    expect([live(), live(without()), live(without(), without())]).toEqual([false, false, false]);
    expect([live(FINAL), live(FINAL, FINAL)]).toEqual([false, true]);
  });

  it('a leaver that comes back is a newcomer', () => {
    const back = [FINAL, FINAL, { leaves: [keyOf(2)] }, { joins: [joinOf(2)] }];
    expect(liveOf(rules, play(rules, ...back))).not.toContain(keyOf(2));
    expect(liveOf(rules, play(rules, ...back, FINAL))).not.toContain(keyOf(2));
  });
});

describe('live', () => {
  it('excludes members not seen recently, and includes them again when seen', () => {
    const away = without(3);
    const live = (...outcomes: readonly Partial<RosterChange>[]) =>
      liveOf(rules, play(rules, ...outcomes)).includes(keyOf(3));
    expect(live(FINAL, away, away)).toBe(true);
    // not seen in rounds 1 and 2, and round 3 does not decide about round 4
    expect(live(FINAL, away, away, FINAL)).toBe(false);
    expect(live(FINAL, away, away, FINAL, FINAL)).toBe(true);
    expect(live(FINAL, away, VOID, VOID, away)).toBe(true);
  });

  it('no outcome chooses the eligible keys of the next round: it can only remove some', () => {
    const subset = fc.subarray([0, 1, 2, 3]);
    const outcome = fc
      .record({ seen: subset, leaves: subset, faults: subset, isVoid: fc.boolean() })
      .map(
        ({ seen, leaves, faults, isVoid }): Partial<RosterChange> => ({
          result: isVoid ? 'void' : 'final',
          seen: keys(...seen),
          leaves: keys(...leaves),
          faults: keys(...faults),
          joins: [joinOf(7)],
        }),
      );
    const past = fc.array(
      subset.map((seen) => ({ seen: keys(...seen) })),
      { maxLength: 6 },
    );
    fc.assert(
      fc.property(past, outcome, (before, last) => {
        const ledger = play(rulesOf({ absentRounds: 50 }), FINAL, ...before);
        const quiet = nextLedger(rules, ledger, changeOf(ledger, VOID));
        const next = nextLedger(rules, ledger, changeOf(ledger, last));
        const gone = new Set([...last.leaves!, ...last.faults!]);
        const stay = new Set(roster(next));
        expect(liveOf(rules, next)).toEqual(
          liveOf(rules, quiet).filter((key) => !gone.has(key) && stay.has(key)),
        );
      }),
    );
  });

  it('after a recovery only the authors of its view-change votes have seats, and only in the next round', () => {
    const ledger = play(rules, FINAL, FINAL, { viewChangeKeys: keys(3, 0, 1) });
    expect(liveOf(rules, ledger)).toEqual(keys(0, 1, 3));
    expect(roster(ledger)).toEqual(keys(0, 1, 2, 3));
    const next = nextLedger(rules, ledger, changeOf(ledger));
    expect(liveOf(rules, next)).toEqual(keys(0, 1, 2, 3));
  });
});

describe('what else the ledger keeps', () => {
  it('a stake snapshot takes effect two rounds after the outcome that names it', () => {
    const stake = { source: 'evm', snapshot: keyOf(70), every: 2 };
    const first = rulesOf({ stake });
    const named = play(first, FINAL, FINAL, { snapshot: keyOf(71) });
    expect([snapshotOf(named), nextSnapshotOf(named)]).toEqual([keyOf(70), keyOf(71)]);
    const next = nextLedger(first, named, changeOf(named));
    expect([next.round, snapshotOf(next)]).toEqual([4, keyOf(71)]);
  });

  it('the entropy of a run with a beacon waits for it, and the root does not', () => {
    const withBeacon = rulesOf({ beacon: { kind: 'drand' } });
    const waiting = play(withBeacon, FINAL);
    expect(waiting.entropy).toBe(null);
    const there = completeLedger(withBeacon, waiting, keyOf(80));
    expect(there.entropy).not.toBe(null);
    expect(there).toEqual(play(withBeacon, { beacon: keyOf(80) }));
    expect(there.entropy).not.toBe(completeLedger(withBeacon, waiting, keyOf(81)).entropy);
    expect(() => nextLedger(withBeacon, waiting, changeOf(waiting))).toThrow(RangeError);
  });

  it('late contributions may come from every worker not accepted, after a void round from all', () => {
    const defer = rulesOf({ late: 'defer' });
    expect(lateOf(play(defer, { accepted: keys(0, 2) }))).toEqual(keys(1, 3));
    expect(lateOf(play(defer, FINAL, VOID))).toEqual(keys(0, 1, 2, 3));
    expect(lateOf(play(defer, { accepted: [], joins: [joinOf(9)] }))).not.toContain(keyOf(9));
    expect(lateOf(play(rules, { accepted: keys(0, 2) }))).toEqual([]);
  });

  it('outer steps taken, and only as many rounds as it looks back on', () => {
    const ledger = play(rules, FINAL, VOID, FINAL, FINAL, VOID, FINAL, FINAL);
    expect([ledger.round, ledger.steps, ledger.finals]).toEqual([7, 5, [3, 5, 6]]);
  });
});

describe('members below the floor of scores', () => {
  const scored = rulesOf({ scores: true });
  const harmful = {
    scores: new Map(keys(0, 1, 2, 3).map((key) => [key, key === keyOf(3) ? -90_000 : 20_000])),
  };
  const after = (rounds: number) => play(scored, FINAL, ...Array(rounds).fill(harmful));

  it('loses its seat two outcomes later, and never its place in the roster or its vote before', () => {
    const sitting = [1, 2, 3, 4, 5].map((rounds) => {
      const ledger = after(rounds);
      const live = liveOf(scored, ledger);
      expect(live).toContain(keyOf(3));
      const out = unseated(ledger, live);
      expect(seatable(ledger, live)).toEqual(live.filter((key) => !out.has(key)));
      return [...out];
    });
    expect(sitting).toEqual([[], [], [keyOf(3)], [keyOf(3)], [keyOf(3)]]);
  });

  it('are the worst ones first, by rolling score and then by key, of those that have earned a seat', () => {
    const ledgerOf = (rows: readonly (readonly [score: number, isLow: 0 | 1])[], round = 9) => {
      const base = play(scored, FINAL);
      const members = rows.map(([score, before], i) => ({
        ...base.members[0]!,
        key: keyOf(i),
        tip: 'a'.repeat(64),
        features: { scores: { history: [score, score], low: before, before } },
      }));
      return { ...base, round, members };
    };
    const outOf = (ledger: ReturnType<typeof ledgerOf>) => {
      const byKey = [
        ...unseated(
          ledger,
          ledger.members.map(({ key }) => key),
        ),
      ];
      return byKey.map((key) => ledger.members.findIndex((member) => member.key === key));
    };
    const low = [-5, -9, -7].map((score) => [score, 1] as const);
    const fine = [3, 2, 1, -99].map((score) => [score, 0] as const);
    // two of seven, one of four to six, none of three
    expect(outOf(ledgerOf([...low, ...fine]))).toEqual([1, 2]);
    expect(outOf(ledgerOf([...fine, ...low].slice(1)))).toEqual([4]);
    expect(outOf(ledgerOf([...low, ...fine].slice(0, 4)))).toEqual([1]);
    expect(outOf(ledgerOf(low))).toEqual([]);
    expect(outOf(ledgerOf([...low, ...fine], 0))).toEqual([]);
    const equal = [0, 1, 2, 3].map(() => [-5, 1] as const);
    const [first] = [...ledgerOf(equal).members].sort((a, b) => (a.key < b.key ? -1 : 1));
    expect(outOf(ledgerOf(equal)).map(keyOf)).toEqual([first!.key]);
    expect(outOf(ledgerOf([...equal].reverse())).map(keyOf)).toEqual([first!.key]);
    const ledger = ledgerOf([...low, ...fine]);
    const without = { tip: null };
    const [worst] = outOf({
      ...ledger,
      members: ledger.members.map((each, i) => (i === 1 ? { ...each, ...without } : each)),
    } as typeof ledger);
    expect(worst).toBe(2);
  });

  it('is always fewer than a third of the eligible keys', () => {
    const most = { scores: new Map(keys(0, 1, 2, 3).map((key, i) => [key, i < 2 ? -90_000 : 1])) };
    const ledger = play(scored, FINAL, most, most, most, most);
    expect(seatable(ledger, liveOf(scored, ledger)).length).toBeGreaterThanOrEqual(3);
  });
});
