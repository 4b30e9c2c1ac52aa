/**
 * Limits of one relay, learned from its description (NIP-11) and its answers: event size, kinds, proof of work, AUTH.
 */
import type { Result } from '../../base/errors.ts';
import type { SignedEvent } from '../event.ts';
import { committedBits, leadingZeroBits } from '../proof-of-work.ts';
import type { AnswerVerdict, PublishStatus } from './answers.ts';

interface RelayLimitation {
  /** Longest WebSocket message; the limit of an event may be lower. */
  readonly maxMessageLength?: number;
  readonly maxContentLength?: number;
  readonly maxSubscriptions?: number;
  readonly maxFilters?: number;
  readonly maxLimit?: number;
  readonly maxEventTags?: number;
  readonly minPowDifficulty?: number;
  readonly createdAtLowerLimit?: number;
  readonly createdAtUpperLimit?: number;
  readonly authRequired?: boolean;
  readonly paymentRequired?: boolean;
  readonly restrictedWrites?: boolean;
}

/** The used fields of a NIP-11 document. */
export interface RelayInfo {
  readonly name?: string;
  readonly software?: string;
  readonly version?: string;
  readonly supportedNips: readonly number[];
  readonly limitation: RelayLimitation;
}

/** Fetches the description of a relay (on Node: `src/node/net/relays.ts`). Rejects only if aborted. */
export type FetchInfo = (url: string, signal: AbortSignal) => Promise<Result<RelayInfo>>;

/** An event and its frame, serialized once for all relays. */
export interface Parcel {
  readonly event: SignedEvent;
  readonly frame: string;
  readonly bytes: number;
}

/** Known limits of a relay; undefined means unlimited or unknown. */
export interface RelayLimits {
  readonly eventsPerMinute: number | undefined;
  readonly maxEventBytes: number | undefined;
  readonly maxContentLength: number | undefined;
  readonly maxSubscriptions: number | undefined;
  readonly refusedKinds: readonly number[];
  /** Highest proof of work required for any kind, in leading zero bits. */
  readonly workBits: number;
  readonly needsAuth: boolean;
}

export interface Foreseen {
  readonly status: PublishStatus;
  readonly message: string;
}

/** Event size that large public relays accept, whatever their description states. */
export const PUBLIC_EVENT_BYTES = 65_536;

/** Bytes of `["EVENT",` and `]`. */
const FRAME_BYTES = 10;

/** Software name of our relay, whose description is exact and may also raise limits. */
const OUR_RELAY = 'nostrain-relay';

/** Number of consecutive refusals of events with the requested work after which no more work is done. */
const MOST_WASTED = 2;

/** After this time, one event without the work goes out, to find out whether the relay still requires it. */
const WORK_BELIEVED_MS = 60_000;

interface RequiredWork {
  readonly bits: number;
  /** When the relay last refused an event for lack of it, or an event went out to find out. */
  readonly atMs: number;
  /** Id of that event. */
  readonly probe?: string;
}

const NO_WORK: RequiredWork = { bits: 0, atMs: 0 };

const isRefusal = (status: PublishStatus): boolean =>
  status === 'refused' || status === 'pow-needed';

const sizeOf = ({ bytes }: Parcel): number => bytes - FRAME_BYTES;

const known = (limit: number): number | undefined => (Number.isFinite(limit) ? limit : undefined);

export class Limits {
  #maxEventBytes: number;
  #maxContentLength = Number.POSITIVE_INFINITY;
  #maxSubscriptions: number | undefined;
  readonly #refusedKinds = new Map<number, string>();
  /** Bits required of all kinds, and by kind. */
  #workBits = 0;
  readonly #workOf = new Map<number, RequiredWork>();
  #workWasted = 0;
  #needsAuth = false;
  /** Kinds for which this connection needs AUTH that was not given, with the refusal. */
  readonly #lockedKinds = new Map<number, string>();
  #clockComplaint = '';
  readonly #isSizeGiven: boolean;

  readonly #nowMs: () => number;

  constructor(maxEventBytes: number, isSizeGiven: boolean, nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#maxEventBytes = maxEventBytes;
    this.#isSizeGiven = isSizeGiven;
  }

  get clockComplaint(): string {
    return this.#clockComplaint;
  }

  known(eventsPerMinute: number): RelayLimits {
    return {
      eventsPerMinute: known(eventsPerMinute),
      maxEventBytes: known(this.#maxEventBytes),
      maxContentLength: known(this.#maxContentLength),
      maxSubscriptions: this.#maxSubscriptions,
      refusedKinds: [...this.#refusedKinds.keys()],
      workBits: Math.max(this.#workBits, this.#mostWork),
      needsAuth: this.#needsAuth,
    };
  }

  /** Applies a description. It lowers limits; only that of our own relay raises the event size. */
  readInfo({ software, limitation }: RelayInfo): void {
    const { maxMessageLength, maxContentLength, maxSubscriptions } = limitation;
    if (maxMessageLength) {
      const bytes = maxMessageLength - FRAME_BYTES;
      const isBelieved = software === OUR_RELAY && !this.#isSizeGiven;
      this.#maxEventBytes = isBelieved ? bytes : Math.min(this.#maxEventBytes, bytes);
    }
    if (maxContentLength) this.#maxContentLength = maxContentLength;
    if (maxSubscriptions) this.#maxSubscriptions = maxSubscriptions;
    this.#workBits = limitation.minPowDifficulty ?? 0;
    this.#needsAuth ||= limitation.authRequired ?? false;
  }

  learn(parcel: Parcel, verdict: AnswerVerdict, message: string): void {
    const { kind } = parcel.event;
    const { status, refuses, blamesClock, bits } = verdict;
    if (bits !== undefined) this.#workOf.set(kind, { bits, atMs: this.#nowMs() });
    const wanted = this.#requiredWork(kind);
    if (status === 'accepted') {
      this.#workWasted = 0;
      if (leadingZeroBits(parcel.event.id) < wanted) this.#workOf.set(kind, NO_WORK);
    } else if (
      isRefusal(status) &&
      !verdict.transient &&
      wanted > 0 &&
      committedBits(parcel.event) >= wanted
    )
      this.#workWasted++;
    if (status === 'accepted') this.#clockComplaint = '';
    if (blamesClock) this.#clockComplaint = message;
    if (refuses === 'kind') this.#refusedKinds.set(kind, message);
    if (refuses === 'size') this.#maxEventBytes = Math.min(this.#maxEventBytes, sizeOf(parcel) - 1);
    if (status === 'auth-needed') this.#needsAuth = true;
  }

  lock(kind: number, message: string): void {
    this.#lockedKinds.set(kind, message);
  }

  /** Forgets refusals for lack of AUTH: the connection ended, and the next one may be authenticated. */
  unlock(): void {
    this.#lockedKinds.clear();
  }

  /** Returns the leading zero bits required for an event of this kind; Infinity if the relay refuses all of them. */
  workFor(kind: number): number {
    const isOut = this.#refusedKinds.has(kind) || this.#lockedKinds.has(kind);
    return isOut || this.#isWorkUseless(kind) ? Number.POSITIVE_INFINITY : this.#requiredWork(kind);
  }

  /** If the relay states nothing, a kind without an answer of its own is assumed to need what the others need. */
  #requiredWork(kind: number): number {
    const assumed = this.#workBits || this.#mostWork;
    return Math.max(this.#workBits, this.#workOf.get(kind)?.bits ?? assumed);
  }

  #isWorkUseless(kind: number): boolean {
    const known = Math.max(this.#workBits, this.#workOf.get(kind)?.bits ?? 0);
    return this.#workWasted >= MOST_WASTED && known > 0;
  }

  get #mostWork(): number {
    return Math.max(0, ...Array.from(this.#workOf.values(), ({ bits }) => bits));
  }

  /** Reports whether this event goes out without the work, to find out whether the relay still requires it. */
  #isProbe({ kind, id }: SignedEvent, work: RequiredWork): boolean {
    if (work.probe === id) return true;
    const nowMs = this.#nowMs();
    if (nowMs - work.atMs < WORK_BELIEVED_MS) return false;
    this.#workOf.set(kind, { ...work, atMs: nowMs, probe: id });
    return true;
  }

  foresee(parcel: Parcel): Foreseen | undefined {
    const { kind, content } = parcel.event;
    const refusal = this.#refusedKinds.get(kind);
    if (refusal !== undefined) return { status: 'refused', message: refusal };
    const locked = this.#lockedKinds.get(kind);
    if (locked !== undefined) return { status: 'auth-needed', message: locked };
    if (sizeOf(parcel) > this.#maxEventBytes) {
      const message =
        `too large: the event has ${sizeOf(parcel)} bytes, this relay takes ` +
        `${this.#maxEventBytes}`;
      return { status: 'refused', message };
    }
    if (content.length > this.#maxContentLength) {
      const message =
        `too large: the content has ${content.length} characters, this relay takes ` +
        `${this.#maxContentLength}`;
      return { status: 'refused', message };
    }
    if (this.#isWorkUseless(kind)) {
      const message = 'pow: this relay refuses events that have the work it requires';
      return { status: 'pow-needed', message };
    }
    // the description alone does not refuse an event: it may be outdated
    const work = this.#workOf.get(kind) ?? NO_WORK;
    const has = committedBits(parcel.event);
    if (has >= work.bits || this.#isProbe(parcel.event, work)) return undefined;
    return {
      status: 'pow-needed',
      message: `pow: ${work.bits} bits wanted, this event has ${has}`,
    };
  }
}
