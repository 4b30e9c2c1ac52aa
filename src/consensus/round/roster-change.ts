/**
 * Chooses and validates the roster changes of an outcome (joins, leaves, faults, stake snapshot) against the ledger
 * alone. Their events are verified by the code that reads them.
 */
import { toHex } from '../../base/bytes.ts';
import { bytes32, taggedHash } from '../../base/hash.ts';
import type { WorkerId } from '../../run/ids.ts';
import { type Ledger, type Member, nextSnapshotOf } from '../../run/ledger.ts';
import { principalOf } from '../../run/spec/feature-fields.ts';
import { quorumOf } from '../committee/quorum.ts';
import { isReveal } from '../committee/randomness.ts';
import type { MembershipRules, RosterChange, RosterJoin } from './membership.ts';
import { groupOfMember, tierOfMember } from './seats.ts';

/** Returns the joins a proposer lists: founders without a tip, newcomers and changed wishes, by lot up to limits. */
export function chooseJoins(
  rules: MembershipRules,
  ledger: Ledger,
  known: readonly RosterJoin[],
): readonly RosterJoin[] {
  const roster = rosterOf(ledger);
  const refuse = joinJudge(rules, ledger, roster);
  const once = [...new Map(known.map((join) => [join.key, join])).values()];
  const good = once.filter((join) => refuse(join) === undefined);
  const most = joinLimit(rules, ledger);
  const chosen = (joins: readonly RosterJoin[]) => byLot(ledger, onePerName(joins)).slice(0, most);
  const isWish = wishesIn(roster);
  const founding = good.filter((join) => roster.has(join.key) && !isWish(join));
  const limit = founderLimit(rules);
  const founders = new Set(founding.map(nameOf));
  return [
    ...(founding.length <= limit ? founding : byLot(ledger, founding).slice(0, limit)),
    ...chosen(good.filter((join) => !roster.has(join.key) && !founders.has(nameOf(join)))),
    ...chosen(good.filter(isWish)),
  ];
}

/** Sorts by hash(round randomness, key), the lowest first. */
const byLot = <T extends { readonly key: WorkerId }>(
  ledger: Pick<Ledger, 'entropy'>,
  all: readonly T[],
): T[] =>
  all
    .map((each) => ({ each, lot: joinLot(ledger, each.key) }))
    .sort((a, b) => (a.lot < b.lot ? -1 : 1))
    .map(({ each }) => each);

/** Returns the founders whose joins outcome 0 may list, drawn by the first randomness, which no key can influence. */
export function calledFounders(
  rules: MembershipRules,
  ledger: Pick<Ledger, 'entropy'>,
): readonly WorkerId[] {
  const { founders } = rules;
  const most = founderLimit(rules);
  if (founders.length <= most) return founders;
  const called = byLot(
    ledger,
    founders.map((key) => ({ key })),
  );
  return called.slice(0, most).map(({ key }) => key);
}

const founderLimit = ({ foundersPerRound = 0 }: MembershipRules): number =>
  foundersPerRound || Number.POSITIVE_INFINITY;

/** Keeps one join per principal, the one with the lowest key. */
function onePerName(joins: readonly RosterJoin[]): readonly RosterJoin[] {
  const first = new Map<WorkerId, RosterJoin>();
  for (const join of joins) {
    const before = first.get(nameOf(join));
    if (before === undefined || join.key < before.key) first.set(nameOf(join), join);
  }
  return [...first.values()];
}

/** Returns the key on whose behalf a join is made. */
const nameOf = ({ key, session }: RosterJoin): WorkerId => session?.principal || key;

/** Tests whether a join comes from a member with a certified tip; it can only change whether the member wants seats. */
const wishesIn =
  (roster: Roster) =>
  ({ key }: RosterJoin): boolean =>
    (roster.get(key)?.tip ?? null) !== null;

type Roster = ReadonlyMap<WorkerId, Member>;

const rosterOf = ({ members }: Ledger): Roster =>
  new Map(members.map((member) => [member.key, member]));

const joinLot = ({ entropy }: Pick<Ledger, 'entropy'>, key: WorkerId): string => {
  if (entropy === null) throw new RangeError('joins before the entropy of the round');
  return toHex(taggedHash('nostrain/join/1', bytes32(entropy), bytes32(key)));
};

/** Maximum number of newcomers in one outcome: each takes about 350 bytes of its body. */
export const MOST_NEWCOMERS = 1024;

const joinLimit = ({ joinsPerRound }: MembershipRules, { members }: Ledger): number =>
  Math.min(MOST_NEWCOMERS, joinsPerRound || Math.max(1, Math.floor(members.length / 4)));

/** Reports whether a join changes a member's wish and follows a later outcome than the member's previous wish. */
function changesWish({ seatWishes }: MembershipRules, member: Member, join: RosterJoin): boolean {
  const { wants, asked } = member.features?.seats ?? {};
  if (!seatWishes || join.seats === undefined || wants === undefined || asked === undefined) {
    return false;
  }
  return join.tip === member.tip && join.seats.wants !== wants && join.seats.asked > asked;
}

/** Returns a function that judges one join in a few lookups, since there may be any number of joins. */
function joinJudge(
  rules: MembershipRules,
  ledger: Ledger,
  roster: Roster,
): (join: RosterJoin) => ChangeFault | undefined {
  const { admission, founders, tiers = 0, mixture } = rules;
  const groups = mixture?.groups.length ?? 0;
  const { faulted, members, round } = ledger;
  const called = round === 0 ? new Set(calledFounders(rules, ledger)) : null;
  const out = new Set(faulted);
  const admitted = admission.kind === 'list' ? new Set([...founders, ...admission.keys]) : null;
  // the row of a founder without a tip makes room for its session; in round 0 such rows have their sessions already
  const settled = members.filter(({ tip }) => tip !== null || round === 0);
  const names = new Set(settled.map(principalOf));
  return (join) => {
    const { key, session, tier = 0, group = -1 } = join;
    const name = nameOf(join);
    if (tier > tiers) return 'no-such-tier';
    if (group >= groups || (group < 0 && groups > 0)) return 'no-such-group';
    if (out.has(key) || out.has(name)) return 'join-of-faulted';
    if (admitted !== null && !admitted.has(name)) return 'join-not-admitted';
    const member = roster.get(key);
    if (member === undefined) {
      if (names.has(name)) return 'principal-taken';
      const isOver = name !== key && session!.until <= round;
      return isOver ? 'delegation-over' : undefined;
    }
    if (principalOf(member) !== name) return 'join-of-member';
    // founders decide the first rounds, so they hold the full model; a member can change its tier only by leaving
    if (tierOfMember(member) !== tier) return 'join-of-other-tier';
    const joined = groupOfMember(member);
    if (joined >= 0 && joined !== group) return 'join-of-other-group';
    if (called?.has(name) === false) return 'join-not-called';
    const isFree = member.tip === null || changesWish(rules, member, join);
    return isFree ? undefined : 'join-of-member';
  };
}

/** A key that left, and the round whose outcome listed its leave. */
export interface Departure {
  readonly key: WorkerId;
  readonly round: number;
}

/** A join with the round of the outcome that it follows, -1 if it follows none. */
export interface DatedJoin {
  readonly key: WorkerId;
  readonly after: number;
}

/** Returns a test for outdated joins: those made before their key left. A join made after the leave counts. */
export function joinsBeforeLeaving(departures: readonly Departure[]): (join: DatedJoin) => boolean {
  const left = new Map<WorkerId, number>();
  for (const { key, round } of departures) left.set(key, Math.max(round, left.get(key) ?? -1));
  return ({ key, after }) => after < (left.get(key) ?? -1);
}

/** Adds departures and drops those up to round `oldest`, which no join that still counts can precede. */
export const nextDepartures = (
  before: readonly Departure[],
  keys: readonly WorkerId[],
  { round, oldest }: { readonly round: number; readonly oldest: number },
): readonly Departure[] =>
  [...before, ...keys.map((key) => ({ key, round }))].filter((each) => each.round > oldest);

/** Why an outcome is not a valid successor of a ledger. The names are stable. */
export type ChangeFault =
  | 'wrong-round'
  | 'proposer-not-in-roster'
  | 'wrong-reveal'
  | 'too-few-founders'
  | 'too-many-joins'
  | 'join-twice'
  | 'join-of-faulted'
  | 'join-of-member'
  | 'join-not-admitted'
  | 'join-of-other-tier'
  | 'no-such-tier'
  | 'join-of-other-group'
  | 'no-such-group'
  | 'join-not-called'
  | 'principal-taken'
  | 'delegation-over'
  | 'leave-not-in-roster'
  | 'fault-not-in-roster'
  | 'snapshot-out-of-turn';

/** Returns the first rule that the roster changes of an outcome break, or undefined if they are valid. */
export function refuseChange(
  rules: MembershipRules,
  ledger: Ledger,
  change: RosterChange,
): ChangeFault | undefined {
  const roster = rosterOf(ledger);
  const isMember = (key: WorkerId) => roster.has(key);
  const { round, proposer, reveal, joins, isRecovered } = change;
  if (round !== ledger.round) return 'wrong-round';
  const author = roster.get(proposer);
  if (author === undefined) return 'proposer-not-in-roster';
  if (!isReveal(author.tip, round, reveal)) return 'wrong-reveal';
  if (!change.leaves.every(isMember)) return 'leave-not-in-roster';
  if (!change.faults.every(isMember)) return 'fault-not-in-roster';
  if (!isSnapshotInTurn(rules, ledger, change)) return 'snapshot-out-of-turn';
  const keys = new Set(joins.map(({ key }) => key));
  const names = new Set(joins.map(nameOf));
  if (Math.min(keys.size, names.size) !== joins.length) return 'join-twice';
  const newcomers = joins.filter(({ key }) => !isMember(key));
  const wishes = joins.filter(wishesIn(roster));
  const most = joinLimit(rules, ledger);
  if (newcomers.length > most || wishes.length > most) return 'too-many-joins';
  const founding = joins.length - newcomers.length - wishes.length;
  if (founding > founderLimit(rules)) return 'too-many-joins';
  if (round === 0 && hasTooFew(rules, ledger, names, isRecovered)) return 'too-few-founders';
  const refuse = joinJudge(rules, ledger, roster);
  return joins.map(refuse).find((fault) => fault !== undefined);
}

/**
 * Reports whether outcome 0 lists joins of fewer than a quorum of the founders that it may list; `joining` are the keys
 * on whose behalf they are made.
 */
function hasTooFew(
  rules: MembershipRules,
  ledger: Ledger,
  joining: ReadonlySet<WorkerId>,
  isRecovered: boolean,
): boolean {
  const called = calledFounders(rules, ledger);
  // a recovery happens because a quorum is missing, so more than half of the founders are enough
  const needed = quorumOf(isRecovered ? 'cft' : rules.committee.quorum, called.length);
  return called.filter((name) => joining.has(name)).length < needed;
}

/** Reports whether the snapshot is the one already scheduled, or a new one in a multiple of the spec's interval. */
function isSnapshotInTurn(
  { stake }: MembershipRules,
  ledger: Ledger,
  { snapshot }: RosterChange,
): boolean {
  const { round } = ledger;
  if (snapshot === (nextSnapshotOf(ledger) ?? '')) return true;
  return snapshot !== '' && !!stake.every && round > 0 && round % stake.every === 0;
}
