/** What a chunk fetch is given, what it reports on the way and what it returns. */
import type { Clock } from '../../base/async.ts';
import type { Digest } from '../../run/ids.ts';
import type { Piece } from './manifest.ts';
import type { ChunkSource, SourceReport } from './source.ts';

export interface FetchProgress {
  readonly type: 'progress';
  readonly bytes: number;
  readonly of: number;
  readonly perSecond: number;
}

export type FetchEvent =
  | FetchProgress
  | { readonly type: 'demoted' | 'away'; readonly source: string; readonly message: string };

/** Receives the bytes of one attempt. A CheckpointError that it throws concerns this machine, not the source. */
export interface ChunkSink {
  write(bytes: Uint8Array): Promise<void> | void;
  /** Stores the chunk and returns true if its bytes have its hash; false if they do not. */
  finish(): Promise<boolean>;
  discard(): Promise<void>;
}

/** What the fetcher needs to know of a chunk. */
export type AnyChunk = Pick<Piece, 'name' | 'bytes'>;

export interface FetchOptions<C extends AnyChunk = Piece> {
  /** Digest of the manifest, to ask sources which of its chunks they have. */
  readonly digest: Digest;
  /** The chunks, each with its index in the order of `piecesOf`. */
  readonly wanted: readonly { readonly piece: C; readonly index: number }[];
  readonly sources: readonly ChunkSource<C>[];
  readonly clock: Clock;
  readonly signal: AbortSignal;
  openSink(piece: C): Promise<ChunkSink>;
  /** Returns whether a chunk is wanted now or later, or was received elsewhere; default all are wanted. */
  statusOf?(piece: C): 'wanted' | 'later' | 'here';
  /** Called with each chunk that was received. */
  onChunk?(piece: C): void;
  report?(event: FetchEvent): void;
  /** Maximum chunks requested at once from one source, and in total. */
  readonly perSource?: number | undefined;
  readonly atOnce?: number | undefined;
  /** An attempt that receives nothing for this long is aborted. */
  readonly stallMs?: number | undefined;
  /** How long to wait after the last received chunk for chunks that a source may still get. */
  readonly patienceMs?: number | undefined;
  /** Bytes after which the fetch fails, wrong and duplicate ones included. */
  readonly mostBytes?: number | undefined;
  /** Minimum time before a chunk is also requested from a second source. */
  readonly hedgeMs?: number | undefined;
  /** Interval of the checks for stalled and slow attempts. */
  readonly tickMs?: number | undefined;
}

export interface Fetched<C = Piece> {
  /** Chunks that no source has. */
  readonly missing: readonly C[];
  readonly sources: readonly SourceReport[];
  /** All received bytes, including wrong and duplicate ones. */
  readonly bytes: number;
}
