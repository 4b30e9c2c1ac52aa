/** Result of judging one event from a relay, and which of two events counts. */
import type { Rejection, RejectReason } from '../../run/contribution.ts';
import { type Digest, roundName, roundNumber, type WorkerId } from '../../run/ids.ts';
import { shortName } from '../../run/worker-names.ts';
import type { SignedEvent } from '../event.ts';

export type Judged<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly rejection: Rejection };

/** How far ahead of our clock an event may be dated. */
const MAX_AHEAD_SECONDS = 15 * 60;

export const accept = <T>(value: T): { ok: true; value: T } => ({ ok: true, value });

export const reject = (
  event: SignedEvent,
  reason: RejectReason,
  detail: string,
): { ok: false; rejection: Rejection } => refusal(event.pubkey, reason, detail);

/** Returns a rejection of a worker's event. */
export const refusal = (
  worker: WorkerId,
  reason: RejectReason,
  detail: string,
): { ok: false; rejection: Rejection } => ({ ok: false, rejection: { reason, worker, detail } });

/** Codec issues that a round's summary counts separately; all others are `malformed`. */
const REASONS: Readonly<Record<string, RejectReason>> = {
  'too-large': 'too-large',
  'wrong-shape': 'wrong-shape',
  'bad-index': 'bad-index',
  'not-finite': 'not-finite',
  'unknown-codec': 'unknown-codec',
  'unsupported-codec': 'unknown-codec',
  'other-roster': 'other-roster',
  'other-run': 'other-run',
  'wrong-round': 'wrong-round',
};

/** Returns the reason under which a round's summary counts a codec issue. */
export const codecReason = (code: string): RejectReason => REASONS[code] ?? 'malformed';

interface Claim {
  readonly run: string;
  readonly worker: string;
  readonly round?: number;
  readonly base?: Digest;
}

/** What an event is checked against. */
export interface ClaimContext {
  readonly run: string;
  readonly nowSeconds: number;
  /** The only round of contributions that counts; undefined accepts every round. */
  readonly round?: number | undefined;
  /** Digest of the state that contributions must start from; undefined accepts every state. */
  readonly base?: Digest | undefined;
  /** Accepts worker names that are not the signing key, as the Python reference does. */
  readonly anyKey?: boolean | undefined;
}

/**
 * Checks what every event of a run must satisfy: signed by its worker, of this run, not dated in the future, and a
 * contribution of this round and start state.
 */
export function judgeClaim(
  event: SignedEvent,
  claim: Claim,
  ours: ClaimContext,
): { ok: false; rejection: Rejection } | undefined {
  if (claim.worker !== event.pubkey && !ours.anyKey) {
    return reject(
      event,
      'worker-key-mismatch',
      `signed by ${shortName(event.pubkey)} for ${shortName(claim.worker)}`,
    );
  }
  if (claim.run !== ours.run) return reject(event, 'other-run', `run ${claim.run}`);
  const ahead = event.created_at - ours.nowSeconds;
  if (ahead > MAX_AHEAD_SECONDS) {
    return reject(event, 'from-the-future', `dated ${ahead} s ahead of our clock`);
  }
  const { round = claim.round, base = claim.base } = ours;
  if (claim.round !== round) {
    const words = `${roundName(claim.round!)}, not ${roundNumber(round!)}`;
    return reject(event, 'wrong-round', words);
  }
  if (claim.base === base) return undefined;
  return reject(event, 'base-mismatch', `started from ${claim.base}, we from ${base}`);
}

/** When an event was signed, and its id, which decides between two of one date. */
export interface EventDate {
  readonly createdAt: number;
  readonly eventId: string;
}

/**
 * Reports whether `a` replaces `b`; never true in both directions, so the result does not depend on the order of
 * arrival.
 */
export const newer = (a: EventDate, b: EventDate): boolean =>
  a.createdAt !== b.createdAt ? a.createdAt > b.createdAt : a.eventId < b.eventId;

/** The key under which one contribution replaces another. */
export const slotOf = ({ worker, round }: { worker: string; round: number }): string =>
  `${round}:${worker}`;
