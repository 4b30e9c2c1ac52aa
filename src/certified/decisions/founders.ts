/**
 * Founders that act through session keys in round 0: proves the delegations in joins and seats the sessions
 * (run/founder-seats.ts).
 */
import { calledFounders } from '../../consensus/round/roster-change.ts';
import { type FounderSession, seatSessions } from '../../run/founder-seats.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { ListedJoin } from '../../run/listed.ts';
import { withFeatures } from '../../run/spec/features.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import { isDelegated } from './admission.ts';
import { type Chain, type Electorate, electorateOf, membershipOf, stakesOf } from './chain.ts';
import { unwrapRuling } from './contributions.ts';
import type { Evidence, EvidenceStore, Gathered } from './evidence.ts';

type SeatingJoin = Pick<ListedJoin, 'key' | 'features'>;

/** Reports whether the keys that act for founders are still open: in round 0 of a run with sessions. */
export const seatsFounders = ({ round, spec }: Pick<Chain, 'round' | 'spec'>): boolean =>
  round === 0 && spec.sessions;

/**
 * Returns the state in which the sessions of founders in these joins have the rows of their founders; unchanged after
 * round 0. Joins without a valid delegation by a founder are ignored.
 */
export function seatFounders<T extends Chain>(
  chain: T,
  joins: readonly SeatingJoin[],
  evidence: Pick<Evidence, 'isSigned'>,
): T {
  if (!seatsFounders(chain)) return chain;
  const ledger = seatSessions(chain.ledger, sessionsIn(chain, joins, evidence));
  return ledger === chain.ledger ? chain : { ...chain, ledger };
}

/** Returns the sessions that founders delegated, as these joins prove. */
const sessionsIn = (
  { spec, run }: Chain,
  joins: readonly SeatingJoin[],
  { isSigned }: Pick<Evidence, 'isSigned'>,
): readonly FounderSession[] =>
  joins.flatMap((join) => {
    const by = join.features?.sessions?.by;
    if (!by || !spec.founders.includes(by.key) || !isDelegated(run, join, isSigned)) return [];
    return [{ key: join.key, principal: by.key, until: by.until }];
  });

/**
 * Returns the members of the coming round; in round 0 also all sessions of founders, since each outcome of that round
 * counts by the joins that it lists.
 */
export function keysBehind(chain: Chain, events: Gathered): readonly WorkerId[] {
  const members = chain.ledger.members.map(({ key }) => key);
  if (!seatsFounders(chain)) return members;
  const joins = [...events.messages.values()].flatMap((message): readonly SeatingJoin[] => {
    if (message.type === 'join') return [message];
    return message.type === 'proposal' ? message.outcome.joins : [];
  });
  return [...members, ...sessionsIn(chain, joins, events).map(({ key }) => key)];
}

/** Returns the round that these joins open. Throws a TypeError if its stakes are missing. */
export const roundWith = <T extends Chain>(
  chain: T,
  joins: readonly SeatingJoin[],
  evidence: Pick<Evidence, 'isSigned' | 'stakes'>,
) => roundOf(seatFounders(chain, joins, evidence), evidence);

function roundOf<T extends Chain>(
  state: T,
  evidence: Pick<Evidence, 'stakes'>,
): { readonly state: T; readonly electorate: Electorate } {
  const stakes = unwrapRuling(stakesOf(state.ledger, evidence));
  return { state, electorate: electorateOf(state, stakes) };
}

/** Maximum changes of the key through which one founder acts in round 0. */
const MOST_CHANGES = 4;

interface Acting extends SeatingJoin {
  readonly createdAt: number;
  readonly changes: number;
}

/**
 * Tracks through which keys the founders act in round 0 as far as this worker knows: each through the key that joined
 * last, so that a founder can move to another machine before the round is decided.
 */
export class ActingFounders {
  readonly #chain: Chain;
  readonly #evidence: Pick<Evidence, 'isSigned'>;
  readonly #called: ReadonlySet<WorkerId>;
  readonly #acting = new Map<WorkerId, Acting>();

  constructor(chain: Chain, evidence: Pick<Evidence, 'isSigned'>) {
    const { spec, run, ledger } = chain;
    this.#chain = chain;
    this.#evidence = evidence;
    this.#called = new Set(calledFounders(membershipOf(spec, run), ledger));
  }

  get joins(): readonly SeatingJoin[] {
    return [...this.#acting.values()];
  }

  /** Takes the joins in a message; returns whether a founder acts through another key now. */
  take(message: ProtocolMessage): boolean {
    if (message.type === 'join') {
      return this.#act(message, message.signature?.createdAt ?? 0);
    }
    if (message.type !== 'proposal' || !this.#isActing(message.key)) return false;
    // a large roster does not listen to joins; the outcome may be invalid, so its joins replace no other
    const fresh = message.outcome.joins.filter(
      ({ features }) => !this.#acting.has(features?.sessions?.by?.key ?? ''),
    );
    return fresh.filter((join) => join.features?.sessions?.by && this.#act(join, 0)).length > 0;
  }

  #isActing(author: WorkerId): boolean {
    return this.#called.has(author) || this.joins.some(({ key }) => key === author);
  }

  #act({ key, features }: SeatingJoin, createdAt: number): boolean {
    const by = features?.sessions?.by ?? null;
    const founder = by?.key ?? key;
    const before = this.#acting.get(founder);
    if (!this.#called.has(founder)) return false;
    if (before && (createdAt <= before.createdAt || before.changes >= MOST_CHANGES)) return false;
    const { run } = this.#chain;
    if (
      by !== null &&
      !isDelegated(run, { key, ...withFeatures(features) }, this.#evidence.isSigned)
    )
      return false;
    const isOther = key !== (before?.key ?? founder);
    const changes = (before?.changes ?? 0) + Number(isOther);
    this.#acting.set(founder, { key, ...withFeatures(features), createdAt, changes });
    return isOther;
  }
}

/** Returns the state in which founders act through the keys that joined last, as far as these messages tell. */
export function seatActing<T extends Chain>(
  chain: T,
  messages: Iterable<ProtocolMessage>,
  evidence: Pick<Evidence, 'isSigned'>,
): T {
  if (!seatsFounders(chain)) return chain;
  const acting = new ActingFounders(chain, evidence);
  for (const message of messages) acting.take(message);
  return seatFounders(chain, acting.joins, evidence);
}

/** Returns the round in which founders act through the keys that joined last, as far as this worker knows. */
export const actingRound = <T extends Chain>(state: T, evidence: EvidenceStore) =>
  roundOf(seatActing(state, evidence.messages(), evidence), evidence);
