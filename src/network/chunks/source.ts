/** A place where chunks live, as whoever fetches or stores them sees it: relays, Blossom servers, holders, folders are all the same to them. */
import { NostrainError } from '../../base/errors.ts';
import type { Digest } from '../../run/ids.ts';
import type { Piece } from './manifest.ts';

/** What is asked for: a chunk, a parity chunk or a manifest, by its hash; of a chunk also where it stands in the file. */
export interface Blob {
  readonly sha256: Digest;
  readonly bytes: number;
  /** Undefined of what is no part of the file. */
  readonly offset: number | undefined;
}

export interface ChunkPlace {
  /** Its address without secrets: errors and reports name it. */
  readonly name: string;
  /** Said to be near, by whoever named it: asked first until its speed is known. */
  readonly isNear?: boolean | undefined;
  /** What it gives costs others: it is asked only for what is not soon to be had elsewhere. */
  readonly isSpared?: boolean | undefined;
  /** Which chunks it should have, one bit each in the order of `piecesOf`, as long as it does not say itself. */
  readonly expected?: Uint8Array | undefined;
  /**
   * The bytes in pieces, never more than one piece too many; undefined where the place has not got it. Throws a `PlaceError` where it cannot be
   * asked, and the signal's reason. Nothing that comes is believed: the caller hashes it.
   */
  read(blob: Blob, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined>;
  /** The bytes of a manifest, where it has another way to it than `read`; its caller hashes them. Throws a `PlaceError` where it has none. */
  findManifest?(digest: Digest, signal: AbortSignal): Promise<Uint8Array>;
  /** Which chunks of a manifest it has, one bit each in the order of `piecesOf`; undefined where it does not say: then it is asked for each. */
  holds?(digest: Digest, signal: AbortSignal): Promise<Uint8Array | undefined>;
  /** Stores a blob; true where it has it now. Throws a `PlaceError` that says what was refused. */
  store?(blob: Blob, bytes: Uint8Array, signal: AbortSignal): Promise<void>;
}

/** A place that did not do what was asked. */
export class PlaceError extends NostrainError {
  /** It may do so later, after so many milliseconds where it says so. */
  readonly retryMs: number | undefined;

  constructor(
    message: string,
    details: { readonly cause?: unknown; readonly retryMs?: number } = {},
  ) {
    super('checkpoint/place', message, {
      hint: 'name other places with --from, or try again later',
      cause: details.cause,
    });
    this.retryMs = details.retryMs;
  }
}

// FROM /** What a fetch knows of one place: how fast and how far it is, what it has, what it is asked for now, and whether it can be trusted any more. */
/** What became of a place in a fetch, for people. */
export interface PlaceReport {
  readonly name: string;
  /** Bytes of chunks that were right. */
  readonly bytes: number;
  readonly chunks: number;
  /** Chunks that were not what their hash says. */
  readonly corrupt: number;
  readonly failures: number;
  readonly state: 'good' | 'demoted' | 'away';
  /** The words of its last failure; empty where there was none. */
  readonly message: string;
}

/** What is left of old measures when a new one comes. */
const FADING = 0.7;
const FAR_MS = 100;
const FIRST_REST_MS = 500;
const LONGEST_REST_MS = 15_000;
/** Failures one after the other that make a place one that is away. */
const MOST_FAILURES = 5;

export class PlaceState {
  readonly place: ChunkPlace;
  /** Chunks asked for now, and their bytes that have not come. */
  active = 0;
  outstanding = 0;
  isDemoted = false;
  isAway = false;
  restUntilMs = 0;
  /** Which chunks it says it has, or should have; undefined where nobody says. */
  have: Uint8Array | undefined;
  /** When to ask again what it has; undefined where it was asked and does not say. */
  askMs: number | undefined;
  #bytes = 0;
  #busyMs = 0;
  #latencyMs: number | undefined;
  #sinceMs = 0;
  #failed = 0;
  #report = { bytes: 0, chunks: 0, corrupt: 0, failures: 0, message: '' };

  constructor(place: ChunkPlace) {
    this.place = place;
    this.have = place.expected;
    this.askMs = place.holds ? 0 : undefined;
  }

  get isOut(): boolean {
    return this.isDemoted || this.isAway;
  }

  /** Whether it may have the chunk of this index. */
  mayHave(index: number): boolean {
    return this.have === undefined || ((this.have[index >> 3] ?? 0) & (1 << (index & 7))) !== 0;
  }

  /** Bytes a second; undefined until something came. */
  get rate(): number | undefined {
    return this.#busyMs > 0 && this.#bytes > 0 ? (1000 * this.#bytes) / this.#busyMs : undefined;
  }

  /** How long a chunk would take, behind all that it is asked for now; `usual` is the rate of places that are not known yet. */
  waitMs(bytes: number, usual: number, nearKnown: boolean): number {
    const far = nearKnown && this.place.isNear !== true ? FAR_MS : 0;
    const rate = this.rate ?? usual;
    return (this.#latencyMs ?? far) + (1000 * (this.outstanding + bytes)) / rate;
  }

  begin(bytes: number, nowMs: number): void {
    if (this.active++ === 0) this.#sinceMs = nowMs;
    this.outstanding += bytes;
  }

  /** The first bytes of an answer came. */
  hear(latencyMs: number): void {
    const before = this.#latencyMs ?? latencyMs;
    this.#latencyMs = FADING * before + (1 - FADING) * latencyMs;
  }

  take(bytes: number): void {
    this.outstanding -= bytes;
    this.#bytes += bytes;
  }

  /** An attempt is over; `left` of its bytes did not come. */
  end(left: number, nowMs: number): void {
    this.active--;
    this.outstanding -= left;
    this.#busyMs += nowMs - this.#sinceMs;
    this.#sinceMs = nowMs;
    // old measures fade, so that a place that becomes slow is seen to be
    this.#bytes *= FADING;
    this.#busyMs *= FADING;
  }

  succeed({ bytes }: Piece): void {
    this.#failed = 0;
    this.#report.bytes += bytes;
    this.#report.chunks++;
  }

  /** It cannot do this now, and said so. */
  rest(ms: number, nowMs: number, message: string): void {
    this.#report.message = message;
    this.restUntilMs = Math.max(this.restUntilMs, nowMs + ms);
  }

  fail(message: string, nowMs: number): void {
    this.#report.failures++;
    this.#failed++;
    const ms = Math.min(LONGEST_REST_MS, FIRST_REST_MS * 2 ** (this.#failed - 1));
    this.rest(ms, nowMs, message);
    if (this.#failed >= MOST_FAILURES) this.isAway = true;
  }

  /** It gave bytes that are not the chunk's: nothing more is asked of it. */
  demote(message: string): void {
    this.isDemoted = true;
    this.#report.corrupt++;
    this.#report.message = message;
  }

  report(): PlaceReport {
    const state = this.isDemoted ? 'demoted' : this.isAway ? 'away' : 'good';
    return { name: this.place.name, state, ...this.#report };
  }
}
