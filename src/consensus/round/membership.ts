/**
 * How the ledger goes from round to round: who is in the roster, who may sit on the next committee, what the entropy becomes.
 * Everything follows from certified outcomes; nobody's own observation counts. The rules are section 4 of docs/committee.md.
 */
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { Ledger, Member } from '../../run/ledger.ts';
import type { QuorumRule } from '../committee/quorum.ts';
import { firstRandomness, nextRandomness } from '../committee/randomness.ts';

/** A run spec and its id, as far as membership goes. */
export interface MembershipRules {
  readonly run: Digest;
  readonly founders: readonly WorkerId[];
  /** Final outcomes in which a key must be seen once to be live, and to stay. */
  readonly liveRounds: number;
  readonly absentRounds: number;
  /** The most newcomers of an outcome; 0 for a quarter of the roster, at least one. */
  readonly joinsPerRound: number;
  readonly late: 'discard' | 'defer';
  readonly committee: { readonly quorum: QuorumRule };
  readonly beacon: { readonly kind: string };
  readonly stake: {
    readonly source: string;
    readonly snapshot?: Digest;
    /** Rounds from one snapshot to the next; 0 or absent keeps the first. */
    readonly every?: number;
  };
  readonly admission:
    | { readonly kind: 'open' }
    | { readonly kind: 'list'; readonly keys: readonly WorkerId[] };
}

export interface Join {
  readonly key: WorkerId;
  readonly tip: Digest;
}

/** What an outcome says of members, its events already verified and read. Lists are in any order. */
export interface RosterChange {
  readonly round: number;
  readonly result: 'final' | 'void';
  /** Who proposed it first. */
  readonly proposer: WorkerId;
  readonly reveal: Digest | '';
  /** Workers of accepted rows, and authors of listed votes; those no longer in the roster do not matter. */
  readonly seen: readonly WorkerId[];
  /** Workers of accepted rows that are not late: they have nothing left to bring. */
  readonly accepted: readonly WorkerId[];
  readonly joins: readonly Join[];
  readonly leaves: readonly WorkerId[];
  readonly faults: readonly WorkerId[];
  /** Who was on the ballots of its body; null where it has none. */
  readonly ballotKeys: readonly WorkerId[] | null;
  /** The snapshot that holds from two rounds later on; empty where the run has none. */
  readonly snapshot: Digest | '';
  /** What comes after this outcome and makes the entropy of the next round; empty while unknown, or where the run has no beacon. */
  readonly beacon: Digest | '';
}

/** The ledger of round 0. */
export const firstLedger = (rules: MembershipRules): Ledger => ({
  round: 0,
  entropy: firstRandomness(rules.run),
  mixed: null,
  snapshot: rules.stake.snapshot ?? null,
  nextSnapshot: rules.stake.snapshot ?? null,
  steps: 0,
  members: ascending(rules.founders).map((key) => newMember(key, null, 0)),
  faulted: [],
  finals: [],
  ballots: null,
  late: [],
});

const newMember = (key: WorkerId, tip: Digest | null, joined: number): Member => {
  return { key, tip, joined, lastSeen: -1, seenBefore: -1, score: 0 };
};

/** The ledger after an outcome that `refuseChange` (roster-change.ts) has nothing against. */
export function nextLedger(rules: MembershipRules, ledger: Ledger, change: RosterChange): Ledger {
  const { round, entropy } = ledger;
  if (entropy === null) throw new RangeError(`no entropy in round ${round}`);
  const isFinal = change.result === 'final';
  const lookBack = Math.max(rules.liveRounds + 1, rules.absentRounds);
  const finals = isFinal ? [...ledger.finals, round].slice(-lookBack) : ledger.finals;
  const faulted = ascending([...ledger.faulted, ...change.faults]);
  const gone = new Set([...faulted, ...change.leaves]);
  const members = nextMembers(ledger, change).filter(
    (member) => !gone.has(member.key) && !isAbsent(member, finals, rules.absentRounds),
  );
  const accepted = new Set(change.accepted);
  const next: Ledger = {
    round: round + 1,
    entropy: null,
    mixed: { entropy, reveal: change.reveal },
    snapshot: ledger.nextSnapshot,
    nextSnapshot: change.snapshot || ledger.nextSnapshot,
    steps: ledger.steps + (isFinal ? 1 : 0),
    members,
    faulted,
    finals,
    ballots: change.ballotKeys && ascending(change.ballotKeys),
    late: rules.late === 'discard' ? [] : keysOf(members, (m) => isOwed(m, round, accepted)),
  };
  return completeLedger(rules, next, change.beacon);
}

/** The same ledger with the entropy of its round, once the beacon is there; without beacon in the run it is there at once. */
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

/** Members of the round before whose contribution to it was not listed. */
const isOwed = (member: Member, round: number, accepted: ReadonlySet<WorkerId>): boolean =>
  member.joined <= round && !accepted.has(member.key);

/** Everybody of the roster as the outcome saw them, and who joined by it; ascending. */
function nextMembers(ledger: Ledger, change: RosterChange): readonly Member[] {
  const { round } = ledger;
  const seen = new Set(change.result === 'final' ? change.seen : []);
  const joins = new Map(change.joins.map(({ key, tip }) => [key, tip]));
  const stay = ledger.members.map((member) => ({
    ...member,
    tip: member.tip ?? joins.get(member.key) ?? null,
    lastSeen: seen.has(member.key) ? round : member.lastSeen,
    seenBefore: member.lastSeen,
  }));
  const known = new Set(keysOf(ledger.members));
  const come = change.joins
    .filter(({ key }) => !known.has(key))
    .map(({ key, tip }) => newMember(key, tip, round + 1));
  return [...stay, ...come].sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** In the roster of all the last final rounds and seen in none of them. */
function isAbsent(member: Member, finals: readonly number[], rounds: number): boolean {
  if (finals.length < rounds) return false;
  const since = finals.at(-rounds)!;
  return member.joined <= since && member.lastSeen < since;
}

/**
 * live(r), ascending: in the rosters of this round and the one before, and seen in one of the last final outcomes before that,
 * so that no outcome chooses who may sit in the next round. After a recovery only who was on its ballots.
 */
export function liveOf(rules: MembershipRules, ledger: Ledger): readonly WorkerId[] {
  const { round, members, ballots } = ledger;
  if (round === 0) return keysOf(members);
  const looked = ledger.finals.filter((final) => final < round - 1).slice(-rules.liveRounds);
  const since = looked.length < rules.liveRounds ? -1 : looked[0]!;
  const listed = ballots && new Set(ballots);
  return keysOf(
    members,
    ({ key, joined, seenBefore }) =>
      joined <= round - 1 && seenBefore >= since && (listed === null || listed.has(key)),
  );
}

/** Those of the keys that may have a seat: after round 0 a key without a certified tip has none. Stake is judged in the draw. */
export function seatable(ledger: Ledger, keys: readonly WorkerId[]): readonly WorkerId[] {
  if (ledger.round === 0) return keys;
  const withTip = new Set(keysOf(ledger.members, ({ tip }) => tip !== null));
  return keys.filter((key) => withTip.has(key));
}

/** Keys of the members that pass, in their order. */
export const keysOf = (
  members: readonly Member[],
  keep: (member: Member) => boolean = () => true,
): readonly WorkerId[] => members.filter(keep).map(({ key }) => key);

const ascending = (keys: readonly WorkerId[]): readonly WorkerId[] =>
  [...new Set(keys)].sort((a, b) => (a < b ? -1 : 1));
