/**
 * The ledger transition between rounds: roster, eligibility and randomness. Depends on certified outcomes only
 * (docs/committee.md, section 4).
 */

import { type Digest, roundName, type WorkerId } from '../../run/ids.ts';
import { type Ledger, type Member, nextSnapshotOf } from '../../run/ledger.ts';
import { JURY_ROUNDS, principalOf } from '../../run/spec/feature-fields.ts';
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
  /** A key is live if seen in the last `liveRounds` final outcomes; it leaves unseen in `absentRounds`. */
  readonly liveRounds: number;
  readonly absentRounds: number;
  /** Largest number of newcomers in one outcome; 0 means a quarter of the roster, at least one. */
  readonly joinsPerRound: number;
  /** Largest number of founder joins in one outcome, in the first one by lot; 0 or absent lists all. */
  readonly foundersPerRound?: number;
  /** Members that are drawn to contribute to a round; 0 or absent draws all. */
  readonly contributors?: number;
  readonly late: 'discard' | 'defer';
  readonly committee: { readonly quorum: QuorumRule };
  readonly beacon: { readonly kind: string };
  readonly stake: {
    readonly source: string;
    readonly snapshot?: Digest;
    /** Rounds between stake snapshots; 0 or absent keeps the first one. */
    readonly every?: number;
  };
  /** Whether contributions are scored. */
  readonly scores?: boolean;
  /** Whether keys may take part in the name of others. */
  readonly sessions?: boolean;
  /** Whether joins say if their key wants seats. */
  readonly seatWishes?: boolean;
  /** How often the width of the model may be halved, in runs with tiers of it. */
  readonly tiers?: number;
  /** How many members run a drawn contribution again at once; then the ledger says who sat in the last committees. */
  readonly jury?: number;
  readonly admission:
    | { readonly kind: 'open' }
    | { readonly kind: 'list'; readonly keys: readonly WorkerId[] }
    // judged by the evidence in a join
    | { readonly kind: 'work' | 'stake' | 'trust' };
}

export interface RosterJoin {
  readonly key: WorkerId;
  readonly tip: Digest;
  /** In a run with seat wishes: what it wants, and the round of the outcome that it follows. */
  readonly seats?: { readonly wants: 0 | 1; readonly asked: number };
  /** In a run with sessions: in whose name it takes part, empty for its own, and up to which round. */
  readonly session?: Session;
  /** In a run with tiers: the tier that it trains. */
  readonly tier?: number;
}

type Session = Pick<
  NonNullable<NonNullable<Member['features']>['sessions']>,
  'principal' | 'until'
>;

const OWN: Session = { principal: '', until: -1 };

/** The membership content of an outcome whose events were verified. Lists are in any order. */
export interface RosterChange {
  readonly round: number;
  readonly result: 'final' | 'void';
  /** Author of its first proposal. */
  readonly proposer: WorkerId;
  readonly reveal: Digest | '';
  /** Workers of accepted rows and authors of listed votes; keys outside the roster are ignored. */
  readonly seen: readonly WorkerId[];
  /** Workers of accepted rows that are not late: they owe no contribution for this round. */
  readonly accepted: readonly WorkerId[];
  /** What the listed votes make of the contributions of two rounds before; null where too few scored them. */
  readonly scores?: ReadonlyMap<WorkerId, number> | null;
  /** Workers of accepted rows, late ones too, that are not empty: what earns a newcomer its seat. */
  readonly contributed: readonly WorkerId[];
  readonly joins: readonly RosterJoin[];
  readonly leaves: readonly WorkerId[];
  readonly faults: readonly WorkerId[];
  /** The committee of recovery epoch 0, in a run with a jury. */
  readonly committee?: readonly WorkerId[];
  /** Whether its body was made in a recovery epoch. */
  readonly isRecovered: boolean;
  /** Authors of the view-change votes in its body, where they say who is counted; else null. */
  readonly viewChangeKeys: readonly WorkerId[] | null;
  /** Typical size of its rows; 0 where it accepts nothing. */
  readonly rowSize: number;
  /** The same in each slice but the first, in a run with tiers. */
  readonly outerSizes?: readonly number[];
  /** The stake snapshot in force from two rounds later on; empty where the run has none. */
  readonly snapshot: Digest | '';
  /** The beacon value for the next round's randomness; empty while unknown, or where the run has no beacon. */
  readonly beacon: Digest | '';
}

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
    stake: { snapshot: rules.stake.snapshot ?? '', next: rules.stake.snapshot ?? '' },
    widths: { sizes: Array.from({ length: rules.tiers ?? 0 }, () => []) },
  }),
});

/** The values of those features that the run has. */
const ledgerFeatures = (
  { late, stake, tiers = 0 }: MembershipRules,
  values: Required<Ledger['features']>,
): Ledger['features'] => ({
  ...(late === 'defer' && { defer: values.defer }),
  ...(stake.source !== 'none' && { stake: values.stake }),
  ...(tiers > 0 && { widths: values.widths }),
});

const newMember = (
  { scores, seatWishes, sessions, jury, tiers }: MembershipRules,
  { key, tip, joined, seatFrom }: Pick<Member, 'key' | 'tip' | 'joined' | 'seatFrom'>,
  { session = OWN, tier = 0 }: Pick<RosterJoin, 'session' | 'tier'> = {},
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
  }),
});

/** The ledger after an outcome that `refuseChange` (roster-change.ts) accepts. */
export function nextLedger(rules: MembershipRules, ledger: Ledger, change: RosterChange): Ledger {
  const { round, entropy } = ledger;
  if (entropy === null) throw new RangeError(`no entropy in ${roundName(round)}`);
  const isFinal = change.result === 'final';
  const historyRounds = Math.max(rules.liveRounds + 1, rules.absentRounds);
  const finals = isFinal ? [...ledger.finals, round].slice(-historyRounds) : ledger.finals;
  const culprits = new Set(change.faults);
  // whoever lent its name answers for it
  const principals = ledger.members.filter(({ key }) => culprits.has(key)).map(principalOf);
  const faulted = ascending([...ledger.faulted, ...culprits, ...principals]);
  const gone = new Set([...faulted, ...change.leaves]);
  const members = nextMembers(rules, ledger, change, finals).filter(
    (member) =>
      !gone.has(member.key) &&
      !isAbsent(member, finals, rules.absentRounds) &&
      !isOver(member, round + 1),
  );
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

/** The ledger with its randomness, as soon as the beacon value is known; at once without a beacon. */
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

/** Whether a member's contribution to the round is still missing from an outcome. */
const isOwed = (member: Member, round: number, accepted: ReadonlySet<WorkerId>): boolean =>
  member.joined <= round && !accepted.has(member.key);

/** The members after the outcome, newcomers included, before departures; ascending by key. */
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
  }));
  const known = new Set(keysOf(ledger.members));
  const come = change.joins
    .filter(({ key }) => !known.has(key))
    .map(({ key, tip, ...said }) =>
      newMember(rules, { key, tip, joined: round + 1, seatFrom: -1 }, said),
    );
  const sorted = [...stay, ...come].sort((a, b) => (a.key < b.key ? -1 : 1));
  const seated = rules.jury ? sitting(sorted, change) : sorted;
  const all = rules.seatWishes ? wishing(seated, change.joins) : seated;
  return rules.scores ? rated(all, change.scores ?? null) : all;
}

/** The members with the last rounds in whose committee they sat. */
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

/** The members with what they want now, and what they wanted before the outcome. */
function wishing(members: readonly Member[], joins: readonly RosterJoin[]): readonly Member[] {
  const said = new Map(joins.map(({ key, seats }) => [key, seats]));
  return members.map((member) => {
    const { wants, asked } = member.features?.seats ?? { wants: 1, asked: -1 };
    const seats = { wants, asked, ...said.get(member.key), before: wants };
    return { ...member, features: { ...member.features, seats } };
  });
}

/** The members with their scores, and who is under the floor now; without scores nothing changes. */
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
 * The first round in which a member may have a seat. A founder whose tip outcome 0 did not list waits like a newcomer:
 * it could choose its reveals knowing the randomness.
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

/** Whether it was delegated for rounds before this one only. */
function isOver({ features }: Member, round: number): boolean {
  const { principal, until } = features?.sessions ?? OWN;
  return principal !== '' && until < round;
}

/** Whether a member was in the roster of the last `rounds` final rounds and seen in none of them. */
function isAbsent(member: Member, finals: readonly number[], rounds: number): boolean {
  if (finals.length < rounds) return false;
  const since = finals.at(-rounds)!;
  return member.joined <= since && member.lastSeen < since;
}

/**
 * The live members, ascending: in the rosters of this round and the last, and seen in a recent final outcome before
 * that, so that no outcome chooses its successor's committee. After a recovery only authors of its view-change votes.
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
      joined <= round - 1 &&
      seenBefore >= (joined === 0 ? since : Math.max(since, joined)) &&
      // who could not have a seat in the round before could not be listed
      (listed === null || listed.has(key) || seatFrom < 0 || seatFrom >= round),
  );
}

/** Keys of the members that pass the filter, in the given order. */
export const keysOf = (
  members: readonly Member[],
  keep: (member: Member) => boolean = () => true,
): readonly WorkerId[] => members.filter(keep).map(({ key }) => key);

const ascending = (keys: readonly WorkerId[]): readonly WorkerId[] =>
  [...new Set(keys)].sort((a, b) => (a < b ? -1 : 1));
