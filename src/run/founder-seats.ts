/**
 * Founders that act through session keys in round 0. The outcome of that round lists their joins, and its votes and
 * contributions count by what it lists: each session takes the row of its principal. Draws use the founders' own keys,
 * so a session changes no seat.
 */
import { Recent } from '../base/bounded.ts';
import type { WorkerId } from './ids.ts';
import type { Ledger, Member } from './ledger.ts';
import { principalOf } from './spec/feature-fields.ts';

type Session = NonNullable<NonNullable<Member['features']>['sessions']>;

/** A key that acts on behalf of a founder. */
export interface FounderSession extends Session {
  readonly key: WorkerId;
}

/** Returns the keys of the members that act for these principals. */
export const actingFor = (
  principals: ReadonlySet<WorkerId>,
  members: readonly Member[],
): ReadonlySet<WorkerId> =>
  new Set(members.filter((each) => principals.has(principalOf(each))).map(({ key }) => key));

/** Maximum seatings of one ledger that are cached. Only founders can make more of them. */
const MOST_SEATINGS = 16;

/** Seatings by the ledger of the founders' own keys: draws and assignments are cached by ledger. */
const seatings = new WeakMap<Ledger, Recent<Ledger>>();
/** The ledger of the founders' own keys that a seating was made from. */
const unseated = new WeakMap<Ledger, Ledger>();

/**
 * Returns the ledger of round 0 in which these sessions, and no others, have the rows of their principals. The order of
 * the rows stays. Returns ledgers of later rounds unchanged. Ignores sessions of keys that are not founders, and of
 * founders' keys.
 */
export function seatSessions(ledger: Ledger, sessions: readonly FounderSession[]): Ledger {
  if (ledger.round > 0) return ledger;
  const base = unseat(ledger);
  const founders = new Set(base.members.map(({ key }) => key));
  const seated = new Map<WorkerId, FounderSession>();
  for (const session of sessions) {
    const { key, principal } = session;
    if (!principal || !founders.has(principal) || founders.has(key)) continue;
    if (!seated.has(principal)) seated.set(principal, session);
  }
  if (seated.size === 0) return base;
  const name = [...seated.values()]
    .map(({ key, principal, until }) => `${principal} ${key} ${until}`)
    .sort()
    .join();
  const known = seatings.get(base) ?? new Recent<Ledger>(MOST_SEATINGS);
  seatings.set(base, known);
  const made = known.get(name) ?? { ...base, members: base.members.map(rowIn(seated)) };
  known.set(name, made);
  unseated.set(made, base);
  return made;
}

const rowIn =
  (seated: ReadonlyMap<WorkerId, FounderSession>) =>
  (member: Member): Member => {
    const session = seated.get(member.key);
    if (session === undefined) return member;
    const { key, principal, until } = session;
    return { ...member, key, features: { ...member.features, sessions: { principal, until } } };
  };

/** Returns the ledger with the founders' own keys. */
function unseat(ledger: Ledger): Ledger {
  const known = unseated.get(ledger);
  if (known !== undefined) return known;
  if (ledger.members.every((member) => principalOf(member) === member.key)) return ledger;
  const sessions = { principal: '', until: -1 } as const;
  const members = ledger.members.map((member) => ({
    ...member,
    key: principalOf(member),
    features: { ...member.features, sessions },
  }));
  const base = { ...ledger, members };
  unseated.set(ledger, base);
  return base;
}

/** Translates between the keys of members and the names that draws of the round use. */
export interface SeatNames {
  nameOf(key: WorkerId): WorkerId;
  keyOf(name: WorkerId): WorkerId;
}

/** Every key is its own name. */
export const keyNames: SeatNames = { nameOf: (key) => key, keyOf: (name) => name };

/** Returns the names of the members in draws: in round 0 their principals, later their keys. */
export function seatNames({ round, members }: Ledger): SeatNames {
  const sessions = round > 0 ? [] : members.filter((each) => principalOf(each) !== each.key);
  if (sessions.length === 0) return keyNames;
  const names = new Map(sessions.map((member) => [member.key, principalOf(member)]));
  const keys = new Map(sessions.map((member) => [principalOf(member), member.key]));
  return { nameOf: (key) => names.get(key) ?? key, keyOf: (name) => keys.get(name) ?? name };
}
