/** Keys that join and then stay silent, or nearly so, must not stall the workers that train. */

import {
  createElection,
  type Election,
  hasQuorum,
  liveOf,
  type MembershipRules,
  mostGuests,
  nextLedger,
  quorumOf,
  type RosterChange,
  seatable,
  withFounderQuorum,
} from 'nostrain/consensus';
import type { Ledger } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import { keyOf } from '../../support/members.ts';
import { changeOf, joinOf, play, rulesOf } from '../../support/run-history.ts';

const SIZES = [1, 2, 3, 4, 5, 6, 7, 8] as const;
const PAIRS = SIZES.flatMap((n) => SIZES.map((s) => [n, s] as const));
const ROUNDS = 14;
const range = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);

interface Crowd {
  readonly rules: MembershipRules;
  readonly founders: readonly string[];
  readonly strangers: readonly string[];
  readonly start: Ledger;
}

/** Strangers that joined in outcome 0, with the founders. */
function crowdOf(n: number, s: number, foundersDecide = false): Crowd {
  const [founders, strangers] = [range(0, n), range(20, s)];
  const rules = rulesOf({
    ...{ founders: founders.map(keyOf), joinsPerRound: s, liveRounds: 8, absentRounds: 50 },
    foundersDecide,
  });
  const keys = founders.map(keyOf).sort();
  const joins = [...founders, ...strangers].map(joinOf);
  const seen = { seen: keys, accepted: keys, contributed: keys };
  const start = play(rules, { joins, ...seen });
  return { rules, founders: keys, strangers: strangers.map(keyOf).sort(), start };
}

/** The voters by production's rule; the order of ranks does not matter here. */
function electionOf(rules: MembershipRules, ledger: Ledger): Election {
  const eligible = seatable(ledger, liveOf(rules, ledger)).map((key) => ({ key, weight: 1n }));
  return createElection({
    weighed: withFounderQuorum(rules, ledger, eligible),
    ...{ size: 64, floorPermille: 501, rank: (_, keys) => keys },
    drawFrom: (attempt, members, leastQuorum) => ({
      ...{ round: ledger.round, attempt, members, size: members.length, ctx: '' },
      weights: members.map(() => 1n),
      quorum: Math.max(quorumOf('bft', members.length), leastQuorum),
    }),
  });
}

/** Plays rounds that only the founders decide; returns the recovery epoch in which each ended. */
function playOn(
  { rules, founders, start }: Crowd,
  said: (round: number) => Partial<RosterChange> = () => ({}),
): { readonly epochs: readonly number[]; readonly elections: readonly Election[] } {
  let ledger = start;
  const epochs: number[] = [];
  const elections: Election[] = [];
  for (const round of range(1, ROUNDS)) {
    const election = electionOf(rules, ledger);
    elections.push(election);
    const isDecided = hasQuorum(election.committee, founders);
    if (!isDecided) {
      expect(election.isFloor(founders)).toBe(true);
      expect(hasQuorum(election.draw(1, founders), founders)).toBe(true);
    }
    epochs.push(isDecided ? 0 : 1);
    ledger = nextLedger(rules, ledger, {
      ...changeOf(ledger, { seen: founders, accepted: founders, contributed: founders }),
      ...(isDecided ? {} : { isRecovered: true, viewChangeKeys: founders }),
      ...said(round),
    });
  }
  return { epochs, elections };
}

const never = Array.from({ length: ROUNDS }, () => 0);

describe('silent newcomers', () => {
  test.each(PAIRS)('%i founders decide every round despite %i keys that never send', (n, s) => {
    const crowd = crowdOf(n, s);
    expect(playOn(crowd).epochs).toEqual(never);
  });

  test.each(PAIRS)(
    '%i founders decide despite %i keys that send one empty contribution',
    (n, s) => {
      const crowd = crowdOf(n, s);
      const { founders, strangers } = crowd;
      const all = [...founders, ...strangers].sort();
      const said = (round: number) => (round === 2 ? { seen: all, accepted: all } : {});
      expect(playOn(crowd, said).epochs).toEqual(never);
    },
  );

  test.each(PAIRS.filter(([n, s]) => s < n))(
    '%i founders beside %i keys that send one genuine contribution and then nothing: a recovery at most',
    (n, s) => {
      const crowd = crowdOf(n, s);
      const { founders, strangers } = crowd;
      const all = [...founders, ...strangers].sort();
      const { epochs, elections } = playOn(crowd, (round) =>
        round === 2 ? { seen: all, accepted: all, contributed: all } : {},
      );
      // they sit from two rounds later on, until nobody has seen them for long
      expect(elections[2]!.eligible).toEqual(founders);
      expect(elections[3]!.eligible).toEqual(all);
      expect(elections.at(-1)!.eligible).toEqual(founders);
      expect(epochs.slice(0, 3)).toEqual([0, 0, 0]);
      expect(epochs.slice(-3)).toEqual([0, 0, 0]);
    },
  );

  test.each(PAIRS)(
    '%i founders who decide, beside %i keys that send one genuine contribution and then nothing: no recovery',
    (n, s) => {
      const crowd = crowdOf(n, s, true);
      const { founders, strangers } = crowd;
      const all = [...founders, ...strangers].sort();
      const { epochs, elections } = playOn(crowd, (round) =>
        round === 2 ? { seen: all, accepted: all, contributed: all } : {},
      );
      expect(epochs).toEqual(never);
      const most = Math.min(s, Math.ceil(n / 2) - 1);
      // the strangers are live from the fourth round on
      const { eligible, committee } = elections[3]!;
      expect(eligible.filter((key) => !founders.includes(key))).toHaveLength(most);
      // founders decide alone; strangers neither decide nor recover without them
      const others = eligible.filter((key) => !founders.includes(key));
      expect(hasQuorum(committee, founders)).toBe(true);
      expect(hasQuorum(committee, others)).toBe(false);
      expect(elections[3]!.isFloor(others)).toBe(false);
    },
  );

  test('seats of strangers go round by lot, and are all given where no founder may sit', () => {
    const { rules, founders, strangers, start } = crowdOf(4, 8, true);
    const all = [...founders, ...strangers].sort();
    const everybody = { seen: all, accepted: all, contributed: all };
    const sitting = new Set<string>();
    let ledger = start;
    for (const _ of range(1, 24)) {
      ledger = nextLedger(rules, ledger, changeOf(ledger, everybody));
      for (const key of electionOf(rules, ledger).eligible) sitting.add(key);
    }
    expect([...sitting].sort()).toEqual(all);
    ledger = nextLedger(rules, ledger, changeOf(ledger, { ...everybody, leaves: founders }));
    expect(electionOf(rules, ledger).eligible).toEqual(strangers);
  });

  test.each([
    [{ quorum: 'bft' }, [0, 0, 0, 1, 1, 2, 2, 3]],
    [{ quorum: 'cft' }, [0, 0, 1, 2, 3, 4, 5, 6]],
    [{ quorum: 'bft', size: 6 }, [0, 0, 0, 1, 1, 1, 0, 0]],
  ] as const)(
    'under %j founders leave others %j seats, so that seats are not sampled',
    (rules, most) => {
      expect(most.map((_, founders) => mostGuests(rules, founders))).toEqual(most);
    },
  );
});
