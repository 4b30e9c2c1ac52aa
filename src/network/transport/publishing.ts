/** One event to one relay: sent, answered, and tried again while that can help. */
import { utf8 } from '../../base/bytes.ts';
import type { Clock } from '../../base/clock.ts';
import { backoffMs, type RetryPolicy } from '../../base/retry.ts';
import type { SignedEvent } from '../event.ts';
import type { Answer } from './answers.ts';
import { within } from './deadline.ts';
import type { Link } from './link.ts';
import { judgeAnswer, type PublishStatus, type Verdict } from './verdict.ts';

/** What became of one event at one relay. */
export interface PublishOutcome {
  readonly relay: string;
  readonly status: PublishStatus;
  /** The relay's words, or ours when it had none. */
  readonly message: string;
  /** Tries made; 0 when none was worth making. */
  readonly attempts: number;
  /** The wait after each failed try. */
  readonly delaysMs: readonly number[];
}

/** An event and its frame, serialised once for all relays. */
export interface Parcel {
  readonly event: SignedEvent;
  readonly frame: string;
  readonly bytes: number;
}

/** What a relay's answers taught about it; nothing here outlives the relay set. */
export interface Learned {
  readonly refusedKinds: Map<number, string>;
  maxBytes: number;
  throttledUntilMs: number;
}

export interface PublishOptions {
  readonly clock: Clock;
  readonly retry: RetryPolicy;
  readonly random: () => number;
  /** Wait for an OK, besides the time the event needs on a slow line. */
  readonly publishTimeoutMs: number;
}

interface Try extends Verdict {
  readonly message: string;
  /** The link already waits this long before it connects again. */
  readonly linkRetryMs?: number;
}

/** The slowest line we wait for. */
const UPLINK_BYTES_PER_MS = 64;
const THROTTLE_MS = 60_000;
const QUESTION_MS = 3000;

export const createLearned = (): Learned => ({
  refusedKinds: new Map(),
  maxBytes: Number.POSITIVE_INFINITY,
  throttledUntilMs: 0,
});

export function createParcel(event: SignedEvent): Parcel {
  const frame = JSON.stringify(['EVENT', event]);
  return { event, frame, bytes: utf8(frame).length };
}

/** Publishes until there is a verdict, tries are exhausted or the relay is down; rejects only when aborted. */
export async function publishTo(
  link: Link,
  learned: Learned,
  parcel: Parcel,
  options: PublishOptions,
  signal?: AbortSignal,
): Promise<PublishOutcome> {
  const { clock, retry, random } = options;
  const relay = link.url;
  const known = foresee(link, learned, parcel, clock.now());
  if (known) {
    return { relay, status: known.status, message: known.message, attempts: 0, delaysMs: [] };
  }
  const delaysMs: number[] = [];
  for (let attempts = 1; ; attempts++) {
    const { status, message, transient, linkRetryMs, refuses } = await tryOnce(
      link,
      parcel,
      options,
      signal,
    );
    if (refuses === 'kind') learned.refusedKinds.set(parcel.event.kind, message);
    if (refuses === 'size') learned.maxBytes = Math.min(learned.maxBytes, parcel.bytes - 1);
    if (status === 'throttled') learned.throttledUntilMs = clock.now() + THROTTLE_MS;
    if (!transient || attempts >= retry.maxAttempts || link.isDown) {
      return { relay, status, message, attempts, delaysMs };
    }
    const delayMs = linkRetryMs ?? backoffMs(retry, attempts, random);
    delaysMs.push(delayMs);
    if (linkRetryMs === undefined) await clock.sleep(delayMs, signal);
  }
}

/** The outcome when trying is known to be useless. */
function foresee(link: Link, learned: Learned, parcel: Parcel, nowMs: number): Try | undefined {
  if (link.isDown) return { status: 'unreachable', message: link.lastError || 'closed' };
  const refusal = learned.refusedKinds.get(parcel.event.kind);
  if (refusal !== undefined) return { status: 'refused', message: refusal };
  if (parcel.bytes > learned.maxBytes) {
    const message = `too large: this relay refused ${learned.maxBytes + 1} bytes before`;
    return { status: 'refused', message };
  }
  if (nowMs < learned.throttledUntilMs) {
    const seconds = Math.ceil((learned.throttledUntilMs - nowMs) / 1000);
    return { status: 'throttled', message: `this relay asked for a pause, ${seconds} s are left` };
  }
  return undefined;
}

async function tryOnce(
  link: Link,
  { event, frame, bytes }: Parcel,
  { clock, publishTimeoutMs }: PublishOptions,
  signal?: AbortSignal,
): Promise<Try> {
  const opened = await link.opened(signal);
  if (!opened.open) return unreachable(opened.message, opened.retryMs);
  const { answer, forget } = link.answers.expectOk(event.id);
  try {
    if (!(await link.sendWhenRoom(frame, bytes, signal))) return lost(link, 'connection ended');
    const timeoutMs = publishTimeoutMs + bytes / UPLINK_BYTES_PER_MS;
    const heard = await within(answer, timeoutMs, clock, signal);
    if (heard) return readAnswer(link, heard);
  } finally {
    forget();
  }
  if (await isThere(link, event, clock, signal)) {
    return { status: 'accepted', message: 'no answer, but the relay has it' };
  }
  return { status: 'no-verdict', transient: true, message: 'no answer in time' };
}

function readAnswer(link: Link, answer: Answer): Try {
  if (answer.type === 'ok') {
    return { ...judgeAnswer(answer.accepted, answer.message), message: answer.message };
  }
  if (answer.code === 1009) {
    return { status: 'refused', refuses: 'size', message: 'too large: the relay hung up (1009)' };
  }
  return lost(link, answer.message);
}

/** The connection ended under way; the link is about to wait, or already connecting again. */
const lost = (link: Link, message: string): Try => unreachable(message, link.retryMs);

const unreachable = (message: string, linkRetryMs: number): Try => ({
  status: 'unreachable',
  transient: true,
  message,
  linkRetryMs,
});

/** Asks for the id back: silence is not refusal. Nothing to ask about an ephemeral event. */
async function isThere(
  link: Link,
  { id, kind }: SignedEvent,
  clock: Clock,
  signal?: AbortSignal,
): Promise<boolean> {
  if (link.state !== 'open' || (kind >= 20_000 && kind < 30_000)) return false;
  const { name, found, forget } = link.answers.expectFound(id);
  try {
    link.say('REQ', name, { ids: [id], limit: 1 });
    return (await within(found, QUESTION_MS, clock, signal)) ?? false;
  } finally {
    forget();
    link.say('CLOSE', name);
  }
}
