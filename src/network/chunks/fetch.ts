/**
 * Fetches chunks from many places at once: each from where it will be here soonest, near ones first; a second time from elsewhere when it takes far
 * longer than that; and a chunk that is not what its hash says once more from another place, while nothing is asked of its source again.
 */

import type { Clock } from '../../base/async.ts';
import { anySignal, deferred, firstOf } from '../../base/async.ts';
import { CheckpointError, safeLine } from '../../base/errors.ts';
import type { Digest } from '../../run/ids.ts';
import type { Piece } from './manifest.ts';
import { type ChunkPlace, PlaceError, type PlaceReport, PlaceState } from './source.ts';

export type FetchEvent =
  | {
      readonly type: 'progress';
      readonly bytes: number;
      readonly of: number;
      readonly perSecond: number;
    }
  | { readonly type: 'demoted' | 'away'; readonly place: string; readonly message: string };

export interface FetchOptions {
  /** Names the manifest: holders are asked which of its chunks they have. */
  readonly digest: Digest;
  /** Which chunks, each with its place in the order of `piecesOf`. */
  readonly wanted: readonly { readonly piece: Piece; readonly index: number }[];
  readonly places: readonly ChunkPlace[];
  readonly clock: Clock;
  readonly signal: AbortSignal;
  openSink(piece: Piece): Promise<ChunkSink>;
  /** A chunk is here. */
  onChunk?(piece: Piece): void;
  report?(event: FetchEvent): void;
  /** Chunks asked of one place at once, and of all together. */
  readonly perPlace?: number | undefined;
  readonly atOnce?: number | undefined;
  /** An answer that brings nothing for so long is given up. */
  readonly stallMs?: number | undefined;
  /** Chunks that no place has are waited for so long after the last one came, where places may still get them. */
  readonly patienceMs?: number | undefined;
  /** More bytes than this are not taken, wrong ones and second ones included. */
  readonly mostBytes?: number | undefined;
}

export interface Fetched {
  /** Chunks that are nowhere to be had. */
  readonly missing: readonly Piece[];
  readonly places: readonly PlaceReport[];
  /** All that came, wrong and second bytes included. */
  readonly bytes: number;
}

const PER_PLACE = 4;
const AT_ONCE = 24;
const STALL_MS = 10_000;
const PATIENCE_MS = 15_000;
const TICK_MS = 100;
const ASK_EVERY_MS = 1000;
/** Chunks looked at for the next one to ask for: whose place is busy, and in all. */
const LOOK_AHEAD = 16;
const MOST_LOOKS = 1024;
/** Before that nothing is asked for twice. */
const LEAST_HEDGE_MS = 500;
const MOST_RETRY_REST_MS = 200;
/** What takes no longer is not asked of places that are to be spared. */
const SPARE_MS = 2000;

interface Task {
  readonly piece: Piece;
  readonly index: number;
  readonly attempts: Set<Attempt>;
  /** Places that have not got it, or not now. */
  readonly without: Map<PlaceState, number>;
}

/** Resolves when every chunk is here or nowhere to be had; throws where more came than may, and the signal's reason. */
export const fetchChunks = (options: FetchOptions): Promise<Fetched> =>
  new ChunkFetch(options).run();

class ChunkFetch {
  readonly #options: FetchOptions;
  readonly #states: readonly PlaceState[];
  readonly #waiting: Set<Task>;
  readonly #running = new Set<Task>();
  readonly #done = deferred<void>();
  readonly #attempts = new Set<Promise<void>>();
  readonly #total: number;
  readonly #isNearKnown: boolean;
  /** Of the fastest place: what is assumed of those that are not known yet. */
  #usualRate = 1;
  #failure: unknown;
  #isOver = false;
  #bytes = 0;
  #right = 0;
  #startedMs = 0;
  #newestMs = 0;

  constructor(options: FetchOptions) {
    this.#options = options;
    this.#states = options.places.map((place) => new PlaceState(place));
    this.#waiting = new Set(
      options.wanted.map(({ piece, index }) => ({
        piece,
        index,
        attempts: new Set(),
        without: new Map(),
      })),
    );
    this.#isNearKnown = options.places.some(({ isNear }) => isNear === true);
    this.#total = options.wanted.reduce((sum, { piece }) => sum + piece.bytes, 0);
  }

  async run(): Promise<Fetched> {
    const { clock, signal } = this.#options;
    const over = new AbortController();
    const both = anySignal(signal, over.signal);
    this.#startedMs = clock.now();
    this.#newestMs = clock.now();
    try {
      const tick = this.#tick(both.signal);
      this.#pump();
      await firstOf([this.#done.promise, tick]);
    } finally {
      this.#isOver = true;
      for (const task of this.#running)
        for (const { stop } of task.attempts) stop.abort(signal.reason);
      over.abort();
      both.release();
      await Promise.allSettled(this.#attempts);
    }
    signal.throwIfAborted();
    if (this.#failure !== undefined) throw this.#failure;
    return {
      missing: [...this.#waiting].map(({ piece }) => piece),
      places: this.#states.map((state) => state.report()),
      bytes: this.#bytes,
    };
  }

  /** Looks after answers that have stopped, places that may have more by now, and chunks that take too long. */
  async #tick(signal: AbortSignal): Promise<void> {
    const { clock, stallMs = STALL_MS, report } = this.#options;
    let toldMs = clock.now();
    while (!this.#isOver) {
      const now = clock.now();
      for (const state of this.#states) this.#askWhatItHas(state, now, signal);
      for (const { attempts } of this.#running) {
        for (const { stop, heardMs } of attempts) {
          if (now - heardMs > stallMs)
            stop.abort(new PlaceError(`nothing for ${stallMs / 1000} s`));
        }
      }
      this.#pump();
      for (const task of this.#running) this.#hedge(task, now);
      if (report && now - toldMs >= 1000) {
        toldMs = now;
        this.#tellProgress(now);
      }
      await clock.sleep(TICK_MS, signal).catch(() => undefined);
      if (signal.aborted) return;
    }
  }

  #tellProgress(now: number): void {
    const perSecond = (1000 * this.#right) / Math.max(1, now - this.#startedMs);
    this.#options.report?.({ type: 'progress', bytes: this.#right, of: this.#total, perSecond });
  }

  #askWhatItHas(state: PlaceState, now: number, signal: AbortSignal): void {
    if (state.isOut || state.askMs === undefined || now < state.askMs) return;
    state.askMs = now + ASK_EVERY_MS;
    const { digest } = this.#options;
    state.place.holds?.(digest, signal).then(
      (have) => {
        state.have = have;
        if (have === undefined) state.askMs = undefined;
        this.#pump();
      },
      () => undefined,
    );
  }

  /** Starts what can be started; ends the whole when nothing is left to be done. */
  #pump(): void {
    if (this.#isOver) return;
    const now = this.#options.clock.now();
    // chunks that are nowhere now are passed over; those whose best place is busy are waited for
    const { atOnce = AT_ONCE } = this.#options;
    let busy = 0;
    let looked = 0;
    for (const task of this.#waiting) {
      if (this.#attempts.size >= atOnce || busy === LOOK_AHEAD || looked++ === MOST_LOOKS) break;
      const state = this.#best(task, now);
      if (state && state.active < this.#perPlace) this.#start(task, state, now);
      else if (state) busy++;
    }
    if (this.#running.size > 0) return;
    if (this.#waiting.size === 0 || this.#isHopeless(now)) this.#done.settle();
  }

  get #perPlace(): number {
    return this.#options.perPlace ?? PER_PLACE;
  }

  /** Nothing runs: whether nothing will. */
  #isHopeless(now: number): boolean {
    const open = this.#states.filter((state) => !state.isOut);
    const mayStill = [...this.#waiting].some(({ without, index }) =>
      open.some((state) => {
        const untilMs = without.get(state) ?? 0;
        return (
          state.askMs !== undefined || (state.mayHave(index) && untilMs < Number.POSITIVE_INFINITY)
        );
      }),
    );
    const { patienceMs = PATIENCE_MS } = this.#options;
    return !mayStill || now - this.#newestMs >= patienceMs;
  }

  /** From where the chunk would be here soonest; from places that are to be spared only where that is not soon. */
  #best(task: Task, now: number): PlaceState | undefined {
    const best: { readonly state: PlaceState; readonly ms: number }[] = [];
    for (const state of this.#states) {
      if (!this.#isUsable(state, task, now)) continue;
      const ms = state.waitMs(task.piece.bytes, this.#usualRate, this.#isNearKnown);
      const at = state.place.isSpared ? 1 : 0;
      if (ms < (best[at]?.ms ?? Number.POSITIVE_INFINITY)) best[at] = { state, ms };
    }
    const [usual, spared] = best;
    if (usual === undefined || spared === undefined) return (usual ?? spared)?.state;
    // of a place that nothing came from yet nobody knows how long it takes
    const lateMs = usual.state.rate === undefined ? now - this.#startedMs : usual.ms;
    return lateMs > SPARE_MS && spared.ms < usual.ms ? spared.state : usual.state;
  }

  #isUsable(state: PlaceState, task: Task, now: number): boolean {
    if (state.isOut || now < state.restUntilMs || !state.mayHave(task.index)) return false;
    if (now < (task.without.get(state) ?? 0)) return false;
    for (const attempt of task.attempts) if (attempt.state === state) return false;
    return true;
  }

  /** Asks another place for a chunk that takes much longer than it would from there. */
  #hedge(task: Task, now: number): void {
    const [attempt, second] = task.attempts;
    if (attempt === undefined || second !== undefined) return;
    const elapsed = now - attempt.startedMs;
    if (elapsed < LEAST_HEDGE_MS) return;
    const state = this.#best(task, now);
    if (!state || state.active >= this.#perPlace) return;
    const left = task.piece.bytes - attempt.bytes;
    const leftMs =
      attempt.bytes === 0 ? Number.POSITIVE_INFINITY : (elapsed * left) / attempt.bytes;
    if (leftMs > 2 * state.waitMs(task.piece.bytes, this.#usualRate, false) + LEAST_HEDGE_MS) {
      this.#start(task, state, now);
    }
  }

  #start(task: Task, state: PlaceState, now: number): void {
    const stop = new AbortController();
    const { piece } = task;
    const attempt: Attempt = { piece, state, stop, startedMs: now, heardMs: now, bytes: 0 };
    task.attempts.add(attempt);
    this.#waiting.delete(task);
    this.#running.add(task);
    state.begin(piece.bytes, now);
    const running = this.#play(task, attempt).catch((error: unknown) => {
      this.#failure ??= error;
      this.#done.settle();
    });
    this.#attempts.add(running);
    void running.then(() => {
      this.#attempts.delete(running);
      this.#pump();
    });
  }

  async #play(task: Task, attempt: Attempt): Promise<void> {
    const { clock, signal, openSink } = this.#options;
    const { state } = attempt;
    const outcome = await readChunk(attempt, {
      clock,
      signal,
      openSink,
      onBytes: (count) => this.#count(count),
    });
    const now = clock.now();
    task.attempts.delete(attempt);
    this.#usualRate = Math.max(1, ...this.#states.map(({ rate }) => rate ?? 0));
    state.end(task.piece.bytes - attempt.bytes, now);
    const isDone = !this.#running.has(task);
    if (outcome === 'right' && !isDone) this.#finish(task, state, now);
    else if (!isDone && outcome !== 'right') this.#judge(task, state, outcome, now);
    if (!isDone && outcome !== 'right' && task.attempts.size === 0) {
      this.#running.delete(task);
      this.#waiting.add(task);
    }
  }

  #count(bytes: number): void {
    const { mostBytes = Number.POSITIVE_INFINITY } = this.#options;
    this.#bytes += bytes;
    if (this.#bytes > mostBytes) throw tooMuch(mostBytes);
  }

  #finish(task: Task, state: PlaceState, now: number): void {
    this.#running.delete(task);
    for (const { stop } of task.attempts) stop.abort(new PlaceError('it came from elsewhere'));
    state.succeed(task.piece);
    this.#newestMs = now;
    this.#right += task.piece.bytes;
    this.#options.onChunk?.(task.piece);
  }

  /** What a failed attempt says of its place. */
  #judge(task: Task, state: PlaceState, outcome: Exclude<Outcome, 'right'>, now: number): void {
    const { report } = this.#options;
    const { name } = state.place;
    if (outcome === 'absent') {
      task.without.set(
        state,
        state.askMs === undefined ? Number.POSITIVE_INFINITY : now + ASK_EVERY_MS,
      );
      return;
    }
    if (outcome === 'wrong') {
      const message = `${task.piece.name} is not what its hash says`;
      state.demote(message);
      report?.({ type: 'demoted', place: name, message });
      return;
    }
    const { message, retryMs } = outcome;
    if (retryMs !== undefined) {
      task.without.set(state, now + retryMs);
      state.rest(Math.min(MOST_RETRY_REST_MS, retryMs), now, message);
      return;
    }
    state.fail(message, now);
    if (state.isAway) report?.({ type: 'away', place: name, message });
  }
}

const tooMuch = (most: number): CheckpointError =>
  new CheckpointError('checkpoint/too-much', `more than ${most} bytes came`, {
    hint: 'places send wrong or slow chunks again and again: name better ones, or raise --max-bytes',
  });

// FROM /** Reads one chunk from one place into a sink, within its length, and says what came of it. */
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
