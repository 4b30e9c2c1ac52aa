/**
 * What validators that merge decide, without I/O: the phases of a round, which contributions are merged, when the
 * exchange of merges ends, which state counts, and which messages are refused.
 */

import type { RejectReason } from '../run/contribution.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { MOST_SCORE } from '../run/spec/feature-fields.ts';

/** Lengths of the phases of a round. */
export interface Timing {
  /** When round 0 begins, in milliseconds since the Unix epoch. */
  readonly startMs: number;
  readonly trainMs: number;
  readonly scoreMs: number;
  /** Wait for merges before those that are missing are requested, and for an answer. */
  readonly timeoutMs: number;
  /** Waits in an exchange; it ends after `retries` × `timeoutMs`. */
  readonly retries: number;
}

/** When the phases of a round end, in milliseconds since the Unix epoch. */
export interface Phases {
  readonly beginMs: number;
  readonly trainedMs: number;
  readonly scoredMs: number;
  readonly mergedMs: number;
  /** End of the comparison of states; the next round begins. */
  readonly endMs: number;
}

const roundMs = ({ trainMs, scoreMs, timeoutMs, retries }: Timing): number =>
  trainMs + scoreMs + (retries + 1) * timeoutMs;

/** Returns the phases of a round. */
export function phasesOf(timing: Timing, round: number): Phases {
  const beginMs = timing.startMs + round * roundMs(timing);
  const trainedMs = beginMs + timing.trainMs;
  const scoredMs = trainedMs + timing.scoreMs;
  const mergedMs = scoredMs + timing.retries * timing.timeoutMs;
  return { beginMs, trainedMs, scoredMs, mergedMs, endMs: mergedMs + timing.timeoutMs };
}

/** Returns the round that is about to begin or in progress: a round's comparison of states belongs to the next one. */
export const roundAt = (timing: Timing, nowMs: number): number =>
  Math.max(0, Math.floor((nowMs + timing.timeoutMs - timing.startMs) / roundMs(timing)));

/** A contribution and the decrease of the loss by it, in millionths. */
export interface Scored {
  readonly worker: WorkerId;
  readonly score: number;
}

export interface Selection {
  readonly merged: readonly WorkerId[];
  /** Contributions that are not merged, and why. */
  readonly skipped: readonly Skipped[];
}

export interface Skipped {
  readonly worker: WorkerId;
  readonly reason: Extract<RejectReason, 'not-finite' | 'low-score'>;
  readonly detail: string;
}

/** Selects the `most` best contributions above a cutoff; equal scores rank by key. */
export function selectBest(
  scored: readonly Scored[],
  { most, cutoff }: { readonly most: number; readonly cutoff: number },
): Selection {
  const ranked = [...scored].sort((a, b) => b.score - a.score || (a.worker < b.worker ? -1 : 1));
  const merged = ranked.filter(({ score }, i) => i < most && score > cutoff);
  const skipped = ranked.slice(merged.length).map(({ worker, score }): Skipped => {
    const detail = `score ${score}, cutoff ${cutoff}, the best ${most} are merged`;
    if (score > -MOST_SCORE) return { worker, reason: 'low-score', detail };
    return { worker, reason: 'not-finite', detail: 'the loss is not finite with it' };
  });
  return { merged: merged.map(({ worker }) => worker), skipped };
}

export type Move =
  | { readonly type: 'wait'; readonly untilMs: number }
  | { readonly type: 'ask' }
  | { readonly type: 'step' };

/**
 * Returns what a validator does next in an exchange: it waits for merges, asks for missing ones after each timeout, and
 * steps with all of them or, at the end of the phase, with those it has.
 */
export function nextMove(
  { arrived, expected, requests }: Readonly<Record<'arrived' | 'expected' | 'requests', number>>,
  { scoredMs, mergedMs }: Phases,
  { timeoutMs, retries }: Timing,
  nowMs: number,
): Move {
  if (arrived >= expected || nowMs >= mergedMs) return { type: 'step' };
  if (requests + 1 >= retries) return { type: 'wait', untilMs: mergedMs };
  const askMs = scoredMs + (requests + 1) * timeoutMs;
  return nowMs >= askMs ? { type: 'ask' } : { type: 'wait', untilMs: askMs };
}

export interface AgreedState {
  readonly digest: Digest;
  readonly agreeing: readonly WorkerId[];
  /** Validators whose state differs. */
  readonly lonely: readonly WorkerId[];
}

/**
 * Returns the state that most validators have; of equally many, the one with the validator that `tie` draws first.
 * Undefined if there are no states.
 */
export function agreeOn(
  states: ReadonlyMap<WorkerId, Digest>,
  tie: (worker: WorkerId) => number,
): AgreedState | undefined {
  const digests = [...new Set(states.values())];
  const camps = digests.map((digest) => {
    const agreeing = [...states.keys()].filter((worker) => states.get(worker) === digest);
    return { digest, agreeing, first: Math.min(...agreeing.map(tie)) };
  });
  camps.sort((a, b) => b.agreeing.length - a.agreeing.length || a.first - b.first);
  const [best] = camps;
  if (best === undefined) return undefined;
  const lonely = [...states.keys()].filter((worker) => !best.agreeing.includes(worker));
  return { digest: best.digest, agreeing: best.agreeing, lonely };
}

/** Maximum difference between the date of a message and the local clock. */
export const MOST_SKEW_SECONDS = 30;
/** Maximum messages of one author within the time in which a nonce could be used again; bounds memory. */
const MOST_NONCES = 256;

/** What is checked of a signed message. */
export interface Authored {
  readonly key: WorkerId;
  readonly step: string;
  readonly nonce: string;
  /** Unix seconds. */
  readonly createdAt: number;
}

/** Refuses messages of strangers, with dates too far from the local clock, or with a nonce that was used before. */
export class Gate {
  readonly #validators: ReadonlySet<WorkerId>;
  readonly #workers: ReadonlySet<WorkerId>;
  readonly #nonces = new Map<WorkerId, Map<string, number>>();

  /** `workers` may only ask for states. */
  constructor(validators: readonly WorkerId[], workers: readonly WorkerId[] = []) {
    this.#validators = new Set(validators);
    this.#workers = new Set(workers);
  }

  /** Returns why a message does not count; undefined if it does. Remembers its nonce. */
  refusal({ key, step, nonce, createdAt }: Authored, nowSeconds: number): string | undefined {
    const isMember = this.#validators.has(key) || (step === 'ask-state' && this.#workers.has(key));
    if (!isMember) return 'its author is not a validator of this run';
    const seconds = Math.abs(createdAt - nowSeconds);
    if (seconds > MOST_SKEW_SECONDS) {
      return `dated ${Math.round(seconds)} s from the local clock; at most ${MOST_SKEW_SECONDS} s`;
    }
    const seen = this.#nonces.get(key) ?? new Map<string, number>();
    this.#nonces.set(key, seen);
    // an older date cannot pass again
    for (const [each, at] of seen) if (at < nowSeconds - MOST_SKEW_SECONDS - 1) seen.delete(each);
    if (seen.has(nonce)) return 'its nonce was used before';
    if (seen.size >= MOST_NONCES) return `more than ${MOST_NONCES} messages in a minute`;
    seen.set(nonce, createdAt);
    return undefined;
  }
}
