/** Reads one chunk from one place into a sink, within its length, and says what came of it. */
import type { Clock } from '../base/clock.ts';
import { CheckpointError } from '../base/errors.ts';
import { safeLine } from '../base/safe-text.ts';
import type { Piece } from './manifest.ts';
import { PlaceError } from './place.ts';
import type { PlaceState } from './place-state.ts';

/** Where the bytes of one attempt go. What it throws as a CheckpointError concerns this machine, not the place. */
export interface ChunkSink {
  write(bytes: Uint8Array): Promise<void> | void;
  /** Keeps the chunk where its bytes have its hash; false where they have not. */
  finish(): Promise<boolean>;
  discard(): Promise<void>;
}

/** One chunk on its way from one place. */
export interface Attempt {
  readonly piece: Piece;
  readonly state: PlaceState;
  readonly stop: AbortController;
  readonly startedMs: number;
  /** When its last bytes came. */
  heardMs: number;
  bytes: number;
}

/** The chunk is here; the place has not got it; it gave other bytes; or it failed in these words. */
export type Outcome = 'right' | 'absent' | 'wrong' | PlaceError;

export interface ReadOptions {
  readonly clock: Clock;
  /** Of the whole fetch: what it aborts is no fault of the place. */
  readonly signal: AbortSignal;
  openSink(piece: Piece): Promise<ChunkSink>;
  /** Told of all that comes; throws a CheckpointError where it is too much. */
  onBytes(count: number): void;
}

/** Rejects only for what concerns the whole fetch. */
export async function readChunk(attempt: Attempt, options: ReadOptions): Promise<Outcome> {
  const { piece, state, stop } = attempt;
  let sink: ChunkSink | undefined;
  let isKept = false;
  try {
    const body = await state.place.read(piece, stop.signal);
    if (body === undefined) return 'absent';
    sink = await options.openSink(piece);
    for await (const part of body) {
      if (stop.signal.aborted) throw stop.signal.reason;
      if (!take(attempt, part.length, options)) return 'wrong';
      await sink.write(part);
    }
    if (attempt.bytes < piece.bytes) {
      throw new PlaceError(`it ended after ${attempt.bytes} of ${piece.bytes} bytes`);
    }
    isKept = await sink.finish();
    return isKept ? 'right' : 'wrong';
  } catch (error) {
    if (options.signal.aborted || error instanceof CheckpointError) throw error;
    if (error instanceof PlaceError) return error;
    const words = safeLine(error instanceof Error ? error.message : String(error));
    return new PlaceError(words, { cause: error });
  } finally {
    if (!isKept) await sink?.discard();
  }
}

/** Counts what came; false where it is more than the chunk has. */
function take(attempt: Attempt, bytes: number, { clock, onBytes }: ReadOptions): boolean {
  const { state, piece } = attempt;
  const now = clock.now();
  if (attempt.bytes === 0) state.hear(now - attempt.startedMs);
  attempt.heardMs = now;
  onBytes(bytes);
  if (attempt.bytes + bytes > piece.bytes) return false;
  attempt.bytes += bytes;
  state.take(bytes);
  return true;
}
