/** A run's membership played by hand: keys with reveal chains, and outcomes that say what the test wants. */

import {
  createRevealChain,
  firstLedger,
  type MembershipRules,
  nextLedger,
  type RosterChange,
  type RosterJoin,
  revealOf,
  tipOf,
} from 'nostrain/consensus';
import { type Ledger, nextSnapshotOf } from 'nostrain/run';
import type { RevealChain } from '../../src/consensus/committee/randomness.ts';
import { keyOf, seedOf } from './members.ts';

/** Founders are the keys 0 to 3 unless said otherwise. */
export const rulesOf = (change: Partial<MembershipRules> = {}): MembershipRules => ({
  run: keyOf(5000),
  founders: [0, 1, 2, 3].map(keyOf),
  ...{ liveRounds: 2, absentRounds: 3, joinsPerRound: 0, late: 'discard' },
  committee: { quorum: 'bft' },
  beacon: { kind: 'none' },
  stake: { source: 'none' },
  admission: { kind: 'open' },
  ...change,
});

/** Rounds of the chains here. */
const ROUNDS = 64;

export const chainOf = (index: number): RevealChain =>
  createRevealChain(seedOf(index), rulesOf().run, ROUNDS);

export const joinOf = (index: number): RosterJoin => ({
  key: keyOf(index),
  tip: tipOf(chainOf(index)),
});

/** A final outcome proposed by key 0 in which everybody of the roster is seen. */
export function changeOf(ledger: Ledger, change: Partial<RosterChange> = {}): RosterChange {
  const { round, members } = ledger;
  const keys = members.map(({ key }) => key);
  return {
    ...{ round, result: 'final', proposer: keyOf(0), reveal: revealOf(chainOf(0), round) },
    ...{ seen: keys, accepted: keys, contributed: change.accepted ?? keys, isRecovered: false },
    joins: round === 0 ? [0, 1, 2, 3].map(joinOf) : [],
    ...{ leaves: [], faults: [], viewChangeKeys: null },
    snapshot: nextSnapshotOf(ledger) ?? '',
    rowSize: 0,
    beacon: '',
    ...change,
  };
}

/** The ledger after these outcomes, from round 0. */
export function play(
  rules: MembershipRules,
  ...outcomes: readonly Partial<RosterChange>[]
): Ledger {
  return outcomes.reduce<Ledger>(
    (ledger, outcome) => nextLedger(rules, ledger, changeOf(ledger, outcome)),
    firstLedger(rules),
  );
}
