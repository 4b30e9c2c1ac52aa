/** Proof of work for events (NIP-13): leading zero bits of the id, and a `nonce` tag that commits to the target. */

import { anySignal, type Clock, deferred, unlessAborted } from '../base/async.ts';
import { utf8 } from '../base/bytes.ts';
import { type EventDraft, eventId, type SignedEvent, type Signer } from './event.ts';
import { pureCrypto } from './event-crypto.ts';

/** An event that needs a nonce. Its id depends on the author, so the key must be known before signing. */
export interface WorkDraft extends EventDraft {
  readonly pubkey: string;
}

/**
 * Finds a `nonce` with which the id has this many leading zero bits. Rejects with `signal.reason`, or with a RangeError
 * beyond MAX_WORK_BITS or MAX_WORK_BYTES.
 */
export type Mine = (draft: WorkDraft, bits: number, signal: AbortSignal) => Promise<EventDraft>;

/** Maximum work: about ten seconds on one core. */
export const MAX_WORK_BITS = 20;
/** Maximum event size to work on, since each try hashes the whole event. */
export const MAX_WORK_BYTES = 2048;

export function leadingZeroBits(id: string): number {
  const zeros = /^0*/.exec(id)![0].length;
  const digit = id[zeros];
  return zeros * 4 + (digit === undefined ? 0 : Math.clz32(Number.parseInt(digit, 16)) - 28);
}

/** Returns the work that relays may count: an event without a `nonce` tag has none, however lucky its id. */
export function committedBits({ id, tags }: Pick<SignedEvent, 'id' | 'tags'>): number {
  const target = Number(tags.find(([name]) => name === 'nonce')?.[2]);
  return target > 0 ? Math.min(target, leadingZeroBits(id)) : 0;
}

/** Returns the draft with the first nonce, counted from 0, that gives the id these bits; blocks until then. */
export const mineDraft = (
  draft: WorkDraft,
  bits: number,
  hash = pureCrypto.sha256Text,
): EventDraft => tryNonces(draft, bits, 0, Number.POSITIVE_INFINITY, hash)!;

/** Nonces to try before other work gets its turn: about ten milliseconds. */
const NONCES_PER_TURN = 1024;

/** Returns a miner in pure JavaScript that gives way to other work every few milliseconds. */
export const createMiner =
  (clock: Clock): Mine =>
  async (draft, bits, signal) => {
    for (let from = 0; ; from += NONCES_PER_TURN) {
      const mined = tryNonces(draft, bits, from, from + NONCES_PER_TURN, pureCrypto.sha256Text);
      if (mined) return mined;
      await clock.sleep(0, signal);
    }
  };

function tryNonces(
  { pubkey, kind, created_at, tags, content }: WorkDraft,
  bits: number,
  from: number,
  end: number,
  hash: typeof pureCrypto.sha256Text,
): EventDraft | undefined {
  const others = tags.filter(([name]) => name !== 'nonce');
  for (let nonce = from; nonce < end; nonce++) {
    const tag = ['nonce', String(nonce), String(bits)];
    const draft: EventDraft = { kind, created_at, tags: [...others, tag], content };
    if (leadingZeroBits(eventId(pubkey, draft, hash)) >= bits) return draft;
  }
  return undefined;
}

/** Time for work per minute, over all events. Work that has begun is finished, and paid for by a longer wait. */
const WORK_MS = 10_000;
const WORK_SHARE = WORK_MS / 60_000;
/** Interval at which a waiting event checks whether it still needs the work. */
const CHECK_MS = 1000;

export interface WorkingSignerOptions {
  readonly signer: Signer;
  readonly clock: Clock;
  readonly mine: Mine;
  /** Returns the bits without which no relay accepts an event of this kind; 0 if one accepts it as it is. */
  workFor(kind: number): number;
  /** Called when an event has to wait until there is time for its work. */
  onWait?(bits: number, seconds: number): void;
  readonly signal: AbortSignal;
}

/**
 * Signs an event, after the work that relays require of small events. Rejects if `replaced` is aborted before the work
 * begins: a newer event takes its place.
 */
export type SignWorked = (draft: EventDraft, replaced?: AbortSignal) => Promise<SignedEvent>;

/** Reports whether an event is small enough for work. */
export const isWorkable = (draft: WorkDraft): boolean =>
  utf8(JSON.stringify(draft)).length <= MAX_WORK_BYTES;

/** Creates a signer that works on one event at a time, within a budget of time per minute. */
export function createWorkingSigner({
  signer,
  clock,
  mine,
  workFor,
  onWait,
  signal,
}: WorkingSignerOptions): SignWorked {
  let spentMs = 0;
  let countedMs = clock.now();
  let line: Promise<void> = Promise.resolve();

  /** Returns the wait until there is time for work again. */
  function waitMs(): number {
    const nowMs = clock.now();
    spentMs = Math.max(0, spentMs - Math.max(0, nowMs - countedMs) * WORK_SHARE);
    countedMs = nowMs;
    return spentMs < WORK_MS ? 0 : Math.ceil((spentMs - WORK_MS + 1) / WORK_SHARE);
  }

  async function work(draft: WorkDraft, replaced: AbortSignal | undefined): Promise<EventDraft> {
    const { signal: either, release } = anySignal(signal, replaced);
    try {
      for (let wasReported = false; workFor(draft.kind) > 0; wasReported = true) {
        either.throwIfAborted();
        const ms = waitMs();
        if (ms === 0) break;
        if (!wasReported && !replaced) onWait?.(workFor(draft.kind), Math.ceil(ms / 1000));
        await clock.sleep(Math.min(ms, CHECK_MS), either);
      }
    } finally {
      release();
    }
    const bits = workFor(draft.kind);
    if (bits === 0) return draft;
    const begunMs = clock.now();
    try {
      return await mine(draft, bits, signal);
    } finally {
      waitMs();
      spentMs += clock.now() - begunMs;
    }
  }

  return async (draft, replaced) => {
    const workDraft = { ...draft, pubkey: signer.publicKey };
    if (workFor(draft.kind) === 0 || !isWorkable(workDraft)) return signer.sign(draft);
    const before = line;
    const { promise: done, settle } = deferred<void>();
    line = before.then(() => done);
    try {
      await unlessAborted(before, signal);
      return signer.sign(await work(workDraft, replaced));
    } finally {
      settle();
    }
  };
}
