/** What one relay takes, as far as it has said (NIP-11) or shown by its answers. */
import type { Result } from '../../base/errors.ts';
import type { SignedEvent } from '../event.ts';
import { leadingZeroBits } from '../proof-of-work.ts';
import type { AnswerVerdict, PublishStatus } from './answers.ts';

interface RelayLimitation {
  /** Longest WebSocket message; says little about how large an event may be. */
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

/** The fields we use of a NIP-11 document. */
export interface RelayInfo {
  readonly name?: string;
  readonly software?: string;
  readonly version?: string;
  readonly supportedNips: readonly number[];
  readonly limitation: RelayLimitation;
}

/** Asks a relay for its description; `src/node/net/relays.ts` does it on Node. Rejects only when aborted. */
export type FetchInfo = (url: string, signal: AbortSignal) => Promise<Result<RelayInfo>>;

/** An event and its frame, serialised once for all relays. */
export interface Parcel {
  readonly event: SignedEvent;
  readonly frame: string;
  readonly bytes: number;
}

/** The limits known of a relay; what is undefined is unlimited or unknown. */
export interface RelayLimits {
  readonly eventsPerMinute: number | undefined;
  readonly maxEventBytes: number | undefined;
  readonly maxContentLength: number | undefined;
  readonly maxSubscriptions: number | undefined;
  readonly refusedKinds: readonly number[];
  /** Most leading zero bits it wants of any kind. */
  readonly workBits: number;
  readonly needsAuth: boolean;
}

export interface Foreseen {
  readonly status: PublishStatus;
  readonly message: string;
}

/** What the largest public relays take, whatever their description says. */
export const PUBLIC_EVENT_BYTES = 65_536;

/** `["EVENT",` and `]`. */
const FRAME_BYTES = 10;

/** Its description tells true limits, so it is believed upward too. */
const OUR_RELAY = 'nostrain-relay';

/** Events with the work asked for that a relay may refuse in a row before it is given up. */
const MOST_WASTED = 2;

const isRefusal = (status: PublishStatus): boolean =>
  status === 'refused' || status === 'pow-needed';

const sizeOf = ({ bytes }: Parcel): number => bytes - FRAME_BYTES;

const known = (limit: number): number | undefined => (Number.isFinite(limit) ? limit : undefined);

export class Limits {
  #maxEventBytes: number;
  #maxContentLength = Number.POSITIVE_INFINITY;
  #maxSubscriptions: number | undefined;
  readonly #refusedKinds = new Map<number, string>();
  /** Wanted of all kinds, and of some. */
  #workBits = 0;
  readonly #workBitsOf = new Map<number, number>();
  #workWasted = 0;
  #needsAuth = false;
  /** Kinds this connection wants a key for that it was not given. */
  readonly #lockedKinds = new Map<number, string>();
  #clockComplaint = '';
  readonly #isSizeGiven: boolean;

  constructor(maxEventBytes: number, isSizeGiven: boolean) {
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
      workBits: Math.max(this.#workBits, ...this.#workBitsOf.values()),
      needsAuth: this.#needsAuth,
    };
  }

  /** A description lowers limits; it raises the size only where the relay is of our own making. */
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
    const wanted = this.#requiredWork(kind);
    if (status === 'accepted') this.#workWasted = 0;
    else if (
      isRefusal(status) &&
      !verdict.transient &&
      wanted > 0 &&
      leadingZeroBits(parcel.event.id) >= wanted
    )
      this.#workWasted++;
    if (status === 'accepted') this.#clockComplaint = '';
    if (blamesClock) this.#clockComplaint = message;
    if (refuses === 'kind') this.#refusedKinds.set(kind, message);
    if (refuses === 'size') this.#maxEventBytes = Math.min(this.#maxEventBytes, sizeOf(parcel) - 1);
    if (bits !== undefined) this.#workBitsOf.set(kind, bits);
    if (status === 'auth-needed') this.#needsAuth = true;
  }

  lock(kind: number, message: string): void {
    this.#lockedKinds.set(kind, message);
  }

  /** The connection ended: the next one may be let in. */
  unlock(): void {
    this.#lockedKinds.clear();
  }

  /** Leading zero bits for an event of this kind; Infinity where the relay takes none of them. */
  workFor(kind: number): number {
    const isOut = this.#refusedKinds.has(kind) || this.#lockedKinds.has(kind);
    return isOut || this.#isWorkUseless(kind) ? Number.POSITIVE_INFINITY : this.#requiredWork(kind);
  }

  #requiredWork(kind: number): number {
    return Math.max(this.#workBits, this.#workBitsOf.get(kind) ?? 0);
  }

  #isWorkUseless(kind: number): boolean {
    return this.#workWasted >= MOST_WASTED && this.#requiredWork(kind) > 0;
  }

  foresee(parcel: Parcel): Foreseen | undefined {
    const { kind, id, content } = parcel.event;
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
      const message = 'pow: this relay refuses events that have the work it asks for';
      return { status: 'pow-needed', message };
    }
    // a description alone is not held against an event: it may be out of date
    const [wanted, has] = [this.#workBitsOf.get(kind) ?? 0, leadingZeroBits(id)];
    if (has >= wanted) return undefined;
    return { status: 'pow-needed', message: `pow: ${wanted} bits wanted, this event has ${has}` };
  }
}
