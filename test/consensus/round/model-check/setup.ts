/** The setup of a schedule: number of workers, quorum rule, number of hostile members, quality of the network. */
import {
  cappedStakes,
  createElection,
  type Election,
  hasQuorum,
  quorumOf,
  type RoundContext,
  type RoundTiming,
} from 'nostrain/consensus';
import type { Committee, Outcome, WorkerId } from 'nostrain/run';

export interface Setup {
  readonly name: string;
  /** N: keys in the roster. */
  readonly workers: number;
  /** K: seats of a committee, if there are enough keys. */
  readonly seats: number;
  readonly rule: 'bft' | 'cft';
  /** f: hostile members, which may sign anything. */
  readonly equivocators: number;
  /** View-change votes that a recovery epoch requires; 0 without recovery. The same share of the roster as in production. */
  readonly floor: number;
  /** Stake of the workers, in their order; 1 each without it. */
  readonly stakes?: readonly number[];
  /** Whether k honest members remain, so that the round must end. */
  readonly isLive: boolean;
}

export const RUN = 'run';
export const PARENT = 'parent';
export const VIEW_MS = 100;

export const timing: RoundTiming = {
  graceMinMs: 0,
  graceMaxMs: 80,
  deadlineC: 3,
  viewMs: VIEW_MS,
  voidView: 4,
  recoveryMs: 0,
  skewMs: 40,
};

/** Keys are `w0`, `w1`, ... in the order of the roster. */
export const keysOf = ({ workers }: Setup): readonly WorkerId[] =>
  Array.from({ length: workers }, (_, i) => `w${i}`);

/** Rotates the ranks with the attempt, so that every attempt has another first proposer. */
const rotatedByAttempt = (keys: readonly WorkerId[], attempt: number): readonly WorkerId[] => {
  const sorted = [...keys].sort();
  return sorted.map((_, i) => sorted[(i + attempt * 2) % sorted.length]!);
};

/** Election rules of a setup: production's recovery rule, floor and quorums, with our own ranks. */
export function electionFor(setup: Setup): Election {
  const roster = keysOf(setup);
  const known = new Map<string, Committee>();
  const stakeOf = (key: WorkerId) => BigInt(setup.stakes?.[roster.indexOf(key)] ?? 1);
  const election = createElection({
    weighed: roster.map((key) => ({ key, weight: stakeOf(key) })),
    size: setup.seats,
    floorPermille: Math.floor((setup.floor * 1000) / setup.workers),
    rank: (attempt, keys) => rotatedByAttempt(keys, attempt),
    drawFrom: (attempt, keys, leastQuorum) => {
      const members = rotatedByAttempt(keys, attempt).slice(0, setup.seats);
      const quorum = Math.max(quorumOf(setup.rule, members.length), leastQuorum);
      const weights = cappedStakes(members.map(stakeOf), quorum);
      const ctx = `${attempt}:${members.join()}`;
      return { round: 0, attempt, members, weights, size: members.length, quorum, ctx };
    },
  });
  return {
    ...election,
    isFloor: (keys) => setup.floor > 0 && election.isFloor(keys),
    // schedules ask for the same few committees tens of thousands of times
    draw: (attempt, keys) => {
      const asked = `${attempt}:${[...keys].sort().join()}`;
      const committee = known.get(asked) ?? election.draw(attempt, keys);
      known.set(asked, committee);
      return committee;
    },
  };
}

export const drawFor = (setup: Setup): Election['draw'] => electionFor(setup).draw;

export function contextFor(
  setup: Setup,
  me: WorkerId,
  election: Election = electionFor(setup),
  overrides: Partial<RoundTiming> = {},
): RoundContext {
  const roster = keysOf(setup);
  const recoveryMs = setup.floor === 0 ? 0 : 40 * VIEW_MS;
  return {
    ...election,
    ...{ me, run: RUN, round: 0, parent: PARENT, since: 0 },
    timing: { ...timing, recoveryMs, voidView: Math.min(setup.seats, 4), ...overrides },
    ...{ roster, live: roster, delays: [], hasQuorum },
  };
}

/** A minimal outcome: its content does not matter to the machine, only its proposer. */
export const outcomeBy = (
  proposer: WorkerId,
  result: Outcome['result'],
  ballots: readonly string[] = [],
  isValid = true,
): Outcome => ({
  ...{ run: RUN, round: 0, parent: PARENT, base: 'base', result, time: isValid ? 1 : 0 },
  ...{ proposer, reveal: '', ballots, accepted: [], rejected: [], votes: null, joins: [] },
  ...{ leaves: [], faults: [], features: {}, rowSize: 0, modelRoot: 'model', ledgerRoot: 'ledger' },
});
