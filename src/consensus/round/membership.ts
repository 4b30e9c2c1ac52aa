/**
 * The ledger transition between rounds: computes the next roster, eligibility and randomness from a certified outcome
 * (docs/roster.md).
 */

import { type Digest, roundName, type WorkerId } from '../../run/ids.ts';
import { deletedOf, type Ledger, type Member, nextSnapshotOf } from '../../run/ledger.ts';
import { type FormerJuror, JURY_ROUNDS, principalOf } from '../../run/spec/feature-fields.ts';
import { withFeatures } from '../../run/spec/features.ts';
import { nextSizes } from '../aggregate/norm-bound.ts';
import { drawnOf, seenUndrawn } from '../committee/draw.ts';
import type { QuorumRule } from '../committee/quorum.ts';
import { firstRandomness, nextRandomness } from '../committee/randomness.ts';
import { belowFloor, withScore } from '../scores.ts';

/** The membership settings of a run spec, with the run's id. */
export interface MembershipRules {
  readonly run: Digest;
  readonly founders: readonly WorkerId[];
  /** A key is live if seen in the last `liveRounds` final outcomes; it is removed if not seen in `absentRounds`. */
  readonly liveRounds: number;
  readonly absentRounds: number;
  /** Maximum number of newcomers in one outcome; 0 means a quarter of the roster, at least one. */
  readonly joinsPerRound: number;
  /** Maximum number of founder joins in one outcome, drawn by lot in outcome 0; 0 or absent: no limit. */
  readonly foundersPerRound?: number;
  /** Whether other keys have seats only as far as the live founders alone remain a quorum. */
  readonly foundersDecide?: boolean;
  /** Number of members drawn to contribute to a round; 0 or absent: all contribute. */
  readonly contributors?: number;
  readonly late: 'discard' | 'defer';
  readonly committee: { readonly quorum: QuorumRule; readonly size?: number };
  readonly beacon: { readonly kind: string };
  readonly stake: {
    readonly source: string;
    readonly snapshot?: Digest;
    /** Rounds between stake snapshots; 0 or absent: the first snapshot stays in force. */
    readonly every?: number;
  };
  /** Merkle root of the notes that are the corpus; empty or absent in other runs. */
  readonly notes?: Digest | '';
  /** Whether contributions are scored. */
  readonly scores?: boolean;
  /** Whether keys may take part on behalf of other keys. */
  readonly sessions?: boolean;
  /** Whether joins state if their key wants seats. */
  readonly seatWishes?: boolean;
  /** Number of smaller tiers, in a run with tiers: tier t has the width of the model divided by 2^t. */
  readonly tiers?: number;
  /** The mixture of experts of the run, with its groups. */
  readonly mixture?: { readonly experts: number; readonly groups: readonly unknown[] };
  /** Number of members that recompute a drawn contribution; with a jury the ledger records recent committee members. */
  readonly jury?: number;
  readonly admission:
    | { readonly kind: 'open' }
    | { readonly kind: 'list'; readonly keys: readonly WorkerId[] }
    // decided by the evidence in a join
    | { readonly kind: 'work' | 'stake' | 'trust' };
}

/** A join that may enter the roster. */
export interface RosterJoin {
  readonly key: WorkerId;
  readonly tip: Digest;
  /** In a run with seat wishes: whether the key wants seats, and the round of the outcome that the join follows. */
  readonly seats?: { readonly wants: 0 | 1; readonly asked: number };
  /** In a run with sessions: on whose behalf the key takes part (empty: its own) and up to which round. */
  readonly session?: Session;
  /** In a run with tiers: the tier that the key trains. */
  readonly tier?: number;
  /** In a run with experts: the index of the group whose experts the key trains; -1 or absent for none. */
  readonly group?: number;
}

type Session = Pick<
  NonNullable<NonNullable<Member['features']>['sessions']>,
  'principal' | 'until'
>;

/** Session of a key that takes part on its own behalf. */
const NOT_DELEGATED: Session = { principal: '', until: -1 };

/** The membership content of an outcome whose events have been verified. The order of the lists does not matter. */
export interface RosterChange {
  readonly round: number;
  readonly result: 'final' | 'void';
  /** Author of its first proposal. */
  readonly proposer: WorkerId;
  readonly reveal: Digest | '';
  /** Workers of accepted contributions and authors of listed votes; keys outside the roster are ignored. */
  readonly seen: readonly WorkerId[];
  /** Workers of accepted contributions that are not late: they owe no contribution for this round. */
  readonly accepted: readonly WorkerId[];
  /** Scores of the contributions of two rounds before, from the listed votes; null if too few members scored them. */
  readonly scores?: ReadonlyMap<WorkerId, number> | null;
  /** Workers of accepted contributions that are not empty, including late ones; these earn a newcomer its seat. */
  readonly contributed: readonly WorkerId[];
  /** Notes of the corpus that the listed votes certify as deleted, by position. */
  readonly deleted?: readonly number[];
  readonly joins: readonly RosterJoin[];
  readonly leaves: readonly WorkerId[];
  readonly faults: readonly WorkerId[];
  /** The committee of recovery epoch 0; only in a run with a jury. */
  readonly committee?: readonly WorkerId[];
  /** Whether the outcome was composed in a recovery epoch. */
  readonly isRecovered: boolean;
  /** Authors of the view-change votes in the outcome, if they decide who counts as live; else null. */
  readonly viewChangeKeys: readonly WorkerId[] | null;
  /** Typical size of the accepted contributions; 0 without any. */
  readonly rowSize: number;
  /** The same in each slice but the first, in a run with tiers. */
  readonly outerSizes?: readonly number[];
  /** The stake snapshot in force from two rounds later on; empty if the run has none. */
  readonly snapshot: Digest | '';
  /** The beacon value for the next round's randomness; empty while unknown, or if the run has no beacon. */
  readonly beacon: Digest | '';
}

/** Returns the ledger before round 0. */
export const firstLedger = (rules: MembershipRules): Ledger => ({
  round: 0,
  entropy: firstRandomness(rules.run),
  mixed: null,
  steps: 0,
  members: ascending(rules.founders).map((key) =>
    newMember(rules, { key, tip: null, joined: 0, seatFrom: 0 }),
  ),
  faulted: [],
  finals: [],
  rowSizes: [],
  ballots: null,
  features: ledgerFeatures(rules, {
    defer: { late: [] },
    jury: { left: [] },
    notes: { deleted: [] },
    stake: { snapshot: rules.stake.snapshot ?? '', next: rules.stake.snapshot ?? '' },
    widths: { sizes: Array.from({ length: rules.tiers ?? 0 }, () => []) },
  }),
});

/** Keeps the values of those features that the run uses. */
const ledgerFeatures = (
  { late, stake, jury, notes, tiers = 0 }: MembershipRules,
  values: Required<Ledger['features']>,
): Ledger['features'] => ({
  ...(late === 'defer' && { defer: values.defer }),
  ...(jury && { jury: values.jury }),
  ...(notes && { notes: values.notes }),
  ...(stake.source !== 'none' && { stake: values.stake }),
  ...(tiers > 0 && { widths: values.widths }),
});

const newMember = (
  { scores, seatWishes, sessions, jury, tiers, mixture }: MembershipRules,
  { key, tip, joined, seatFrom }: Pick<Member, 'key' | 'tip' | 'joined' | 'seatFrom'>,
  {
    session = NOT_DELEGATED,
    tier = 0,
    group = -1,
  }: Pick<RosterJoin, 'session' | 'tier' | 'group'> = {},
): Member => ({
  key,
  tip,
  joined,
  lastSeen: -1,
  seenBefore: -1,
  seatFrom,
  ...withFeatures({
    ...(jury && { jury: { sat: [] } }),
    ...(scores && { scores: { history: [], low: 0, before: 0 } as const }),
    ...(seatWishes && { seats: { wants: 1, before: 1, asked: -1 } as const }),
    ...(sessions && { sessions: session }),
    ...(tiers && { widths: { tier } }),
    ...(mixture && mixture.experts > 0 && { experts: { group } }),
  }),
});

/** Returns the ledger after an outcome that `refuseChange` (roster-change.ts) accepts. */
export function nextLedger(rules: MembershipRules, ledger: Ledger, change: RosterChange): Ledger {
  const { round, entropy } = ledger;
  if (entropy === null) throw new RangeError(`no entropy in ${roundName(round)}`);
  const isFinal = change.result === 'final';
  const historyRounds = Math.max(rules.liveRounds + 1, rules.absentRounds);
  const finals = isFinal ? [...ledger.finals, round].slice(-historyRounds) : ledger.finals;
  const culprits = new Set(change.faults);
  // a key is also responsible for the sessions on its behalf
  const principals = ledger.members.filter(({ key }) => culprits.has(key)).map(principalOf);
  const faulted = ascending([...ledger.faulted, ...culprits, ...principals]);
  const gone = new Set([...faulted, ...change.leaves]);
  const names = new Set(change.joins.map(({ session }) => session?.principal));
  const stays = (member: Member): boolean =>
    !gone.has(member.key) &&
    !names.has(member.key) &&
    !isAbsent(member, finals, rules.absentRounds) &&
    !isOver(member, round + 1);
  const all = nextMembers(rules, ledger, change, finals);
  const members = all.filter(stays);
  const leavers = all.filter((member) => !stays(member));
  const accepted = new Set(change.accepted);
  const snapshot = nextSnapshotOf(ledger) ?? '';
  const next: Ledger = {
    round: round + 1,
    entropy: null,
    mixed: { entropy, reveal: change.reveal },
    steps: ledger.steps + (isFinal ? 1 : 0),
    members,
    faulted,
    finals,
    rowSizes: nextSizes(ledger.rowSizes, change.rowSize),
    ballots: change.viewChangeKeys && ascending(change.viewChangeKeys),
    features: ledgerFeatures(rules, {
      defer: { late: keysOf(members, (member) => isOwed(member, round, accepted)) },
      jury: { left: formerJurorsOf(ledger, leavers) },
      notes: { deleted: ascending([...deletedOf(ledger), ...(change.deleted ?? [])]) },
      stake: { snapshot, next: change.snapshot || snapshot },
      widths: {
        sizes: (ledger.features.widths?.sizes ?? []).map((history, i) =>
          nextSizes(history, change.outerSizes?.[i] ?? 0),
        ),
      },
    }),
  };
  return completeLedger(rules, next, change.beacon);
}

/** Adds the randomness to a ledger once the beacon value is known; at once in a run without a beacon. */
export function completeLedger(
  rules: MembershipRules,
  ledger: Ledger,
  beacon: Digest | '',
): Ledger {
  const { mixed, round } = ledger;
  if (mixed === null) return { ...ledger, entropy: firstRandomness(rules.run) };
  if ((rules.beacon.kind === 'none') !== (beacon === '')) return { ...ledger, entropy: null };
  return { ...ledger, entropy: nextRandomness({ run: rules.run, round, ...mixed, beacon }) };
}

/** Reports whether a member's contribution to the round is still missing from an outcome. */
const isOwed = (member: Member, round: number, accepted: ReadonlySet<WorkerId>): boolean =>
  member.joined <= round && !accepted.has(member.key);

/** Returns the members after the outcome, with newcomers but before departures; ascending by key. */
function nextMembers(
  rules: MembershipRules,
  ledger: Ledger,
  change: RosterChange,
  finals: readonly number[],
): readonly Member[] {
  const { round } = ledger;
  const drawn = change.result === 'final' ? drawnOf(rules, ledger) : null;
  const seen = new Set(change.result === 'final' ? change.seen : []);
  const contributed = new Set(change.result === 'final' ? change.contributed : []);
  const joins = new Map(change.joins.map(({ key, tip }) => [key, tip]));
  const groups = new Map(change.joins.map(({ key, group }) => [key, group]));
  const lastSeenOf = (member: Member): number => {
    if (seen.has(member.key)) return round;
    const isExcused = drawn !== null && !drawn.has(member.key);
    return isExcused ? seenUndrawn(member, finals) : member.lastSeen;
  };
  const stay = ledger.members.map((member) => ({
    ...member,
    tip: member.tip ?? joins.get(member.key) ?? null,
    lastSeen: lastSeenOf(member),
    seenBefore: member.lastSeen,
    seatFrom: nextSeatFrom(member, round, joins.has(member.key), contributed.has(member.key)),
    ...(member.features?.experts && {
      features: {
        ...member.features,
        experts: { group: groups.get(member.key) ?? member.features.experts.group },
      },
    }),
  }));
  const known = new Set(keysOf(ledger.members));
  const come = change.joins
    .filter(({ key }) => !known.has(key))
    .map(({ key, tip, ...options }) =>
      newMember(rules, { key, tip, joined: round + 1, seatFrom: -1 }, options),
    );
  const sorted = [...stay, ...come].sort((a, b) => (a.key < b.key ? -1 : 1));
  const seated = rules.jury ? sitting(sorted, change) : sorted;
  const all = rules.seatWishes ? wishing(seated, change.joins) : seated;
  return rules.scores ? rated(all, change.scores ?? null) : all;
}

/** Updates, for each member, the list of recent rounds in whose committee it sat. */
function sitting(
  members: readonly Member[],
  { round, committee = [] }: RosterChange,
): readonly Member[] {
  const seated = new Set(committee);
  return members.map((member) => {
    const before = member.features?.jury?.sat ?? [];
    const all = seated.has(member.key) ? [...before, round] : before;
    const sat = all.filter((each) => each > round - JURY_ROUNDS);
    return { ...member, features: { ...member.features, jury: { sat } } };
  });
}

/** Returns the former members that sat in recent committees: a jury keeps its size when members leave. */
function formerJurorsOf(
  { round, features }: Ledger,
  leavers: readonly Member[],
): readonly FormerJuror[] {
  const rounds = new Map<WorkerId, Set<number>>();
  const sat = leavers.map((leaver): FormerJuror => [leaver.key, leaver.features?.jury?.sat ?? []]);
  for (const [key, each] of [...(features.jury?.left ?? []), ...sat]) {
    const recent = each.filter((one) => one > round - JURY_ROUNDS);
    if (recent.length > 0) rounds.set(key, new Set([...(rounds.get(key) ?? []), ...recent]));
  }
  return ascending([...rounds.keys()]).map((key) => [
    key,
    [...rounds.get(key)!].sort((a, b) => a - b),
  ]);
}

/** Updates, for each member, whether it wants seats now and whether it did before the outcome. */
function wishing(members: readonly Member[], joins: readonly RosterJoin[]): readonly Member[] {
  const wishes = new Map(joins.map(({ key, seats }) => [key, seats]));
  return members.map((member) => {
    const { wants, asked } = member.features?.seats ?? { wants: 1, asked: -1 };
    const seats = { wants, asked, ...wishes.get(member.key), before: wants };
    return { ...member, features: { ...member.features, seats } };
  });
}

/** Updates, for each member, its score history and whether it is below the floor; null scores add nothing. */
function rated(
  members: readonly Member[],
  scores: ReadonlyMap<WorkerId, number> | null,
): readonly Member[] {
  const histories = members.map(({ key, features }) => {
    const { history = [], low = 0 } = features?.scores ?? {};
    const score = scores?.get(key);
    return { key, low, history: score === undefined ? history : withScore(history, score) };
  });
  const below = belowFloor(histories);
  return members.map((member, i) => {
    const { key, history, low: before } = histories[i]!;
    const scores = { history, low: below.has(key) ? 1 : 0, before } as const;
    return { ...member, features: { ...member.features, scores } };
  });
}

/**
 * Returns the first round in which a member may have a seat, -1 if it is not known yet. A founder whose tip is missing
 * from outcome 0 waits like a newcomer, since it could choose its reveals knowing the randomness.
 */
function nextSeatFrom(
  { tip, seatFrom }: Member,
  round: number,
  isJoining: boolean,
  hasContributed: boolean,
): number {
  if (tip === null) return round === 0 && isJoining ? seatFrom : -1;
  return seatFrom < 0 && hasContributed ? round + 2 : seatFrom;
}

/** Reports whether a member's delegation has expired before this round. */
function isOver({ features }: Member, round: number): boolean {
  const { principal, until } = features?.sessions ?? NOT_DELEGATED;
  return principal !== '' && until < round;
}

/** Reports whether a member was in the roster of the last `rounds` final rounds but was not seen in any of them. */
function isAbsent(member: Member, finals: readonly number[], rounds: number): boolean {
  if (finals.length < rounds) return false;
  const since = finals.at(-rounds)!;
  return member.joined <= since && member.lastSeen < since;
}

/**
 * Returns the live members, ascending: in the rosters of this round and the last, and seen in a recent final outcome
 * before that, so that no outcome chooses its successor's committee. After a recovery only the authors of its
 * view-change votes are live.
 */
export function liveOf(rules: MembershipRules, ledger: Ledger): readonly WorkerId[] {
  const { round, members, ballots } = ledger;
  if (round === 0) return keysOf(members);
  const recent = ledger.finals.filter((final) => final < round - 1).slice(-rules.liveRounds);
  const since = recent.length < rules.liveRounds ? -1 : recent[0]!;
  const listed = ballots && new Set(ballots);
  return keysOf(
    members,
    ({ key, joined, seenBefore, seatFrom }) =>
      seenBefore >= (joined === 0 ? since : Math.max(since, joined)) &&
      // a member that could not have a seat in the last round could not be listed either
      (listed === null || listed.has(key) || seatFrom < 0 || seatFrom >= round),
  );
}

/** Returns the keys of the members that pass the filter, in the given order. */
export const keysOf = (
  members: readonly Member[],
  keep: (member: Member) => boolean = () => true,
): readonly WorkerId[] => members.filter(keep).map(({ key }) => key);

const ascending = <T extends WorkerId | number>(keys: readonly T[]): readonly T[] =>
  [...new Set(keys)].sort((a, b) => (a < b ? -1 : 1));
