/**
 * A source of chunks as the fetcher sees it: a relay, a Blossom server, a holder, a web server or a folder. Also
 * what the fetcher knows of each: how fast and how far it is, what it has, and whether it can still be trusted.
 */
import { concatBytes } from '../../base/bytes.ts';
import { NostrainError } from '../../base/errors.ts';
import type { Digest } from '../../run/ids.ts';

/** A chunk, parity chunk or manifest to request by its hash. */
export interface Blob {
  readonly sha256: Digest;
  readonly bytes: number;
  /** Offset of the chunk in its file, in bytes; undefined for parity chunks and manifests. */
  readonly offset: number | undefined;
}

/** A source of chunks. */
export interface ChunkSource<C = Blob> {
  /** Address without secrets, for errors and reports. */
  readonly name: string;
  /** Whether the user or the spec called it near: preferred until its speed is known. */
  readonly isNear?: boolean | undefined;
  /** Whether using it costs others: it is used only for what is not soon available elsewhere. */
  readonly isSpared?: boolean | undefined;
  /** False while it cannot be used, such as a relay that is not connected. */
  readonly isReady?: boolean | undefined;
  /** Whether it may get a chunk later that it lacks now, so that it is asked again. */
  readonly isGrowing?: boolean | undefined;
  /** Which chunks it should have, one bit each in the order of `piecesOf`, until it reports them itself. */
  readonly expected?: Uint8Array | undefined;
  /**
   * Returns the bytes in pieces, at most one piece too many, or undefined if the source lacks the chunk. Throws a
   * SourceError if it cannot be asked, or the signal's reason. The caller hashes what comes.
   */
  read(chunk: C, signal: AbortSignal): Promise<ByteStream | undefined>;
  /** Returns the bytes of a manifest if there is another way than `read`. Throws a SourceError if it has none. */
  findManifest?(digest: Digest, signal: AbortSignal): Promise<Uint8Array>;
  /** Reports which chunks of a manifest it has, one bit each; undefined if it does not say. */
  holds?(digest: Digest, signal: AbortSignal): Promise<Uint8Array | undefined>;
  /** Stores a blob. Throws a SourceError that says why it was refused. */
  store?(blob: Blob, bytes: Uint8Array, signal: AbortSignal): Promise<void>;
}

export type ByteStream = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** A source that did not do what was asked. */
export class SourceError extends NostrainError {
  /** It may do so after this many milliseconds; undefined if it does not say. */
  readonly retryMs: number | undefined;

  constructor(
    message: string,
    details: { readonly cause?: unknown; readonly retryMs?: number } = {},
  ) {
    super('checkpoint/place', message, {
      hint: 'name other sources with --from, or try again later',
      cause: details.cause,
    });
    this.retryMs = details.retryMs;
  }
}

/** Reads a stream into memory; undefined if it has more than `most` bytes. */
export async function readUpTo(
  stream: ByteStream,
  most: number,
  onBytes?: (length: number) => void,
): Promise<Uint8Array | undefined> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of stream) {
    length += part.length;
    if (length > most) return undefined;
    onBytes?.(length);
    parts.push(part);
  }
  return concatBytes(...parts);
}

/** What a source did in a fetch, for reports. */
export interface SourceReport {
  readonly name: string;
  /** Bytes of correct chunks. */
  readonly bytes: number;
  readonly chunks: number;
  /** Number of chunks that did not match their hash. */
  readonly corrupt: number;
  readonly failures: number;
  readonly state: 'good' | 'demoted' | 'away';
  /** Message of its last failure; empty if there was none. */
  readonly message: string;
}

/** Weight of old measurements relative to a new one. */
const FADING = 0.7;
/** Assumed latency of a source that is not called near, if others are. */
const FAR_MS = 100;
/** Pause after a failure; doubles with each further one in a row. */
const FIRST_REST_MS = 500;
/** Consecutive failures after which a source is not used any more. */
const MOST_FAILURES = 5;

export class SourceState<C = Blob> {
  readonly source: ChunkSource<C>;
  /** Number of chunks requested at the moment, and how many of their bytes are outstanding. */
  active = 0;
  outstanding = 0;
  isDemoted = false;
  isAway = false;
  isReady = true;
  isSpared = false;
  restUntilMs = 0;
  heardMs = Number.NEGATIVE_INFINITY;
  /** Chunks that it reports, or is expected to have; undefined if unknown. */
  have: Uint8Array | undefined;
  /** When to ask again which chunks it has; undefined if it does not report them. */
  askMs: number | undefined;
  #bytes = 0;
  #busyMs = 0;
  #latencyMs: number | undefined;
  #sinceMs = 0;
  #failed = 0;
  #report = { bytes: 0, chunks: 0, corrupt: 0, failures: 0, message: '' };

  constructor(source: ChunkSource<C>) {
    this.source = source;
    this.have = source.expected;
    this.askMs = source.holds ? 0 : undefined;
  }

  get isOut(): boolean {
    return this.isDemoted || this.isAway;
  }

  /** Whether it may get chunks that it lacks now. */
  get isGrowing(): boolean {
    return this.askMs !== undefined || this.source.isGrowing === true;
  }

  /** Copies what the source reports of itself, once for many chunks. */
  refresh(): void {
    this.isReady = this.source.isReady !== false;
    this.isSpared = this.source.isSpared === true;
  }

  mayHave(index: number): boolean {
    return this.have === undefined || ((this.have[index >> 3] ?? 0) & (1 << (index & 7))) !== 0;
  }

  /** Bytes per second; undefined until something arrived. */
  get rate(): number | undefined {
    return this.#busyMs > 0 && this.#bytes > 0 ? (1000 * this.#bytes) / this.#busyMs : undefined;
  }

  /** Estimates how long a chunk would take, queued behind the outstanding ones; `usual` is the rate if unknown. */
  waitMs(bytes: number, usual: number, nearKnown: boolean): number {
    const far = nearKnown && this.source.isNear !== true ? FAR_MS : 0;
    const rate = this.rate ?? usual;
    return (this.#latencyMs ?? far) + (1000 * (this.outstanding + bytes)) / rate;
  }

  begin(bytes: number, nowMs: number): void {
    if (this.active++ === 0) this.#sinceMs = nowMs;
    this.outstanding += bytes;
  }

  /** Records the first bytes of an answer. */
  hear(latencyMs: number): void {
    const before = this.#latencyMs ?? latencyMs;
    this.#latencyMs = FADING * before + (1 - FADING) * latencyMs;
  }

  take(bytes: number, nowMs: number): void {
    this.heardMs = nowMs;
    this.outstanding -= bytes;
    this.#bytes += bytes;
  }

  /** Ends an attempt of which `left` bytes did not arrive. */
  end(left: number, nowMs: number): void {
    this.active--;
    this.outstanding -= left;
    this.#busyMs += nowMs - this.#sinceMs;
    this.#sinceMs = nowMs;
    // old measurements fade, so that a source that slows down is noticed
    this.#bytes *= FADING;
    this.#busyMs *= FADING;
  }

  succeed(bytes: number): void {
    this.#failed = 0;
    this.#report.bytes += bytes;
    this.#report.chunks++;
  }

  /** Records a temporary refusal. */
  rest(ms: number, nowMs: number, message: string): void {
    this.#report.message = message;
    this.restUntilMs = Math.max(this.restUntilMs, nowMs + ms);
  }

  fail(message: string, nowMs: number): void {
    this.#report.failures++;
    this.#failed++;
    this.rest(FIRST_REST_MS * 2 ** (this.#failed - 1), nowMs, message);
    if (this.#failed >= MOST_FAILURES) this.isAway = true;
  }

  /** Records a chunk with a wrong hash: the source is not used any more. */
  demote(message: string): void {
    this.isDemoted = true;
    this.#report.corrupt++;
    this.#report.message = message;
  }

  report(): SourceReport {
    const state = this.isDemoted ? 'demoted' : this.isAway ? 'away' : 'good';
    return { name: this.source.name, state, ...this.#report };
  }
}
