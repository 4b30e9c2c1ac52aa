/** A place where chunks live, as whoever fetches or stores them sees it: relays, Blossom servers, holders, folders are all the same to them. */
import { NostrainError } from '../base/errors.ts';
import type { Digest } from '../run/ids.ts';

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
