/**
 * Fetches chunks from many sources at once: relays, holders, Blossom and web servers, folders. Requests each chunk from
 * the source that should deliver it first, and from another one if that takes far longer (hedging). A chunk with a
 * wrong hash is fetched elsewhere, and its source is not used any more.
 */

import { anySignal, deferred, firstOf, slept } from '../../base/async.ts';
import { CheckpointError, safeLine, wordsOf } from '../../base/errors.ts';
import type { AnyChunk, ChunkSink, Fetched, FetchOptions } from './fetch-options.ts';
import { SourceError, SourceState } from './source.ts';

const PER_SOURCE = 4;
const AT_ONCE = 24;
const STALL_MS = 10_000;
const PATIENCE_MS = 15_000;
const TICK_MS = 100;
const PROGRESS_MS = 1000;
/** Interval at which a source is asked which chunks it has. */
const ASK_EVERY_MS = 1000;
/** Wait before a source is asked again for a chunk that it lacks; doubles each time. */
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 8000;
/** Maximum chunks examined to find the next request: those whose source is busy, and in total. */
const MAX_BUSY_CHUNKS = 16;
const MAX_EXAMINED_CHUNKS = 1024;
const HEDGE_MS = 500;
const MOST_RETRY_REST_MS = 200;
/** Spared sources are not used for chunks that take no longer than this elsewhere. */
const SPARE_MS = 2000;

/** One request of a chunk from one source. */
interface Attempt<C> {
  readonly state: SourceState<C>;
  readonly stop: AbortController;
  readonly startedMs: number;
  /** When the last bytes arrived. */
  heardMs: number;
  bytes: number;
}

interface Task<C> {
  readonly piece: C;
  readonly index: number;
  readonly attempts: Set<Attempt<C>>;
  /** Sources that lack it: how often they were asked, and until when they are not asked again. */
  readonly without: Map<SourceState<C>, { readonly times: number; readonly untilMs: number }>;
}

/** Result of an attempt: the chunk was received, the source lacks it, it sent other bytes, or it failed. */
type AttemptResult = 'right' | 'absent' | 'wrong' | SourceError;

/**
 * Fetches the chunks; resolves when all were received or no source has the rest. Throws if too many bytes arrive, or
 * the signal's reason.
 */
export const fetchChunks = <C extends AnyChunk>(options: FetchOptions<C>): Promise<Fetched<C>> =>
  new ChunkFetch(options).run();

class ChunkFetch<C extends AnyChunk> {
  readonly #options: FetchOptions<C>;
  readonly #states: readonly SourceState<C>[];
  readonly #waiting: Set<Task<C>>;
  readonly #running = new Set<Task<C>>();
  readonly #done = deferred<void>();
  readonly #attempts = new Set<Promise<void>>();
  readonly #total: number;
  readonly #isNearKnown: boolean;
  readonly #hedgeMs: number;
  /** Rate of the fastest source, assumed of those whose rate is unknown. */
  #usualRate = 1;
  #failure: unknown;
  #isOver = false;
  #bytes = 0;
  #right = 0;
  #startedMs = 0;
  #newestMs = 0;

  constructor(options: FetchOptions<C>) {
    const { sources, wanted, hedgeMs = HEDGE_MS } = options;
    this.#options = options;
    this.#hedgeMs = hedgeMs;
    this.#states = sources.map((source) => new SourceState(source));
    this.#waiting = new Set(
      wanted.map((each) => ({ ...each, attempts: new Set(), without: new Map() })),
    );
    this.#isNearKnown = sources.some(({ isNear }) => isNear === true);
    this.#total = wanted.reduce((sum, { piece }) => sum + piece.bytes, 0);
  }

  async run(): Promise<Fetched<C>> {
    const { clock, signal } = this.#options;
    const both = anySignal(signal);
    this.#startedMs = clock.now();
    this.#newestMs = clock.now();
    try {
      const tick = this.#tick(both.signal);
      this.#pump();
      await firstOf([this.#done.promise, tick]);
    } finally {
      this.#isOver = true;
      for (const { attempts } of this.#running) {
        for (const { stop } of attempts) stop.abort(signal.reason);
      }
      both.end();
      await Promise.allSettled(this.#attempts);
    }
    signal.throwIfAborted();
    if (this.#failure !== undefined) throw this.#failure;
    return {
      missing: [...this.#waiting].map(({ piece }) => piece),
      sources: this.#states.map((state) => state.report()),
      bytes: this.#bytes,
    };
  }

  /** Checks for stalled attempts, sources that may have more by now, and slow chunks. */
  async #tick(signal: AbortSignal): Promise<void> {
    const { clock, stallMs = STALL_MS, tickMs = TICK_MS, report } = this.#options;
    let reportedMs = clock.now();
    while (!this.#isOver) {
      const now = clock.now();
      for (const state of this.#states) this.#askWhatItHas(state, now, signal);
      for (const { attempts } of this.#running) {
        for (const { stop, heardMs } of attempts) {
          if (now - heardMs > stallMs) {
            stop.abort(new SourceError(`no data for ${stallMs / 1000} s`));
          }
        }
      }
      this.#pump();
      for (const task of this.#running) this.#hedge(task, now);
      if (report && now - reportedMs >= PROGRESS_MS) {
        reportedMs = now;
        const perSecond = (1000 * this.#right) / Math.max(1, now - this.#startedMs);
        report({ type: 'progress', bytes: this.#right, of: this.#total, perSecond });
      }
      if (!(await slept(clock, tickMs, signal))) return;
    }
  }

  #askWhatItHas(state: SourceState<C>, now: number, signal: AbortSignal): void {
    if (state.isOut || state.askMs === undefined || now < state.askMs) return;
    state.askMs = now + ASK_EVERY_MS;
    const { digest } = this.#options;
    state.source.holds?.(digest, signal).then(
      (have) => {
        state.have = have;
        if (have === undefined) state.askMs = undefined;
        this.#pump();
      },
      () => undefined,
    );
  }

  /** Starts all requests that are possible; ends the fetch if nothing is left to do. */
  #pump(): void {
    if (this.#isOver) return;
    const { atOnce = AT_ONCE, statusOf, clock } = this.#options;
    const now = clock.now();
    for (const state of this.#states) state.refresh();
    // skips chunks that no source has at the moment, and chunks whose best source is busy
    let busy = 0;
    let examined = 0;
    for (const task of this.#waiting) {
      if (
        this.#attempts.size >= atOnce ||
        busy === MAX_BUSY_CHUNKS ||
        examined++ === MAX_EXAMINED_CHUNKS
      )
        break;
      const status = statusOf?.(task.piece) ?? 'wanted';
      if (status === 'here') this.#waiting.delete(task);
      if (status !== 'wanted') continue;
      const state = this.#best(task, now);
      if (state && state.active < this.#perSource) this.#start(task, state, now);
      else if (state) busy++;
    }
    if (this.#running.size > 0) return;
    if (this.#waiting.size === 0 || this.#isHopeless(now)) this.#done.settle();
  }

  get #perSource(): number {
    return this.#options.perSource ?? PER_SOURCE;
  }

  /** Reports whether no attempt can follow; called while none is running. */
  #isHopeless(now: number): boolean {
    const open = this.#states.filter((state) => !state.isOut);
    const mayStill = [...this.#waiting].some(({ without, index }) =>
      open.some((state) => {
        const isLacking = without.get(state)?.untilMs === Number.POSITIVE_INFINITY;
        return state.askMs !== undefined || (state.mayHave(index) && !isLacking);
      }),
    );
    const { patienceMs = PATIENCE_MS } = this.#options;
    return !mayStill || now - this.#newestMs >= patienceMs;
  }

  /** Returns the source that would deliver first; a spared one only if the others take long. */
  #best(task: Task<C>, now: number): SourceState<C> | undefined {
    const best: { readonly state: SourceState<C>; readonly ms: number }[] = [];
    for (const state of this.#states) {
      if (!this.#isUsable(state, task, now)) continue;
      const ms = state.waitMs(task.piece.bytes, this.#usualRate, this.#isNearKnown);
      const at = state.isSpared ? 1 : 0;
      if (ms < (best[at]?.ms ?? Number.POSITIVE_INFINITY)) best[at] = { state, ms };
    }
    const [usual, spared] = best;
    if (usual === undefined || spared === undefined) return (usual ?? spared)?.state;
    // without any measurement, the time so far is the estimate
    const lateMs = usual.state.rate === undefined ? now - this.#startedMs : usual.ms;
    return lateMs > SPARE_MS && spared.ms < usual.ms ? spared.state : usual.state;
  }

  #isUsable(state: SourceState<C>, task: Task<C>, now: number): boolean {
    if (state.isOut || !state.isReady || now < state.restUntilMs) return false;
    if (!state.mayHave(task.index) || now < (task.without.get(state)?.untilMs ?? 0)) return false;
    for (const attempt of task.attempts) if (attempt.state === state) return false;
    return true;
  }

  /** Requests a chunk a second time if it takes much longer than it would from another source. */
  #hedge(task: Task<C>, now: number): void {
    const [attempt, second] = task.attempts;
    if (attempt === undefined || second !== undefined) return;
    const elapsed = now - attempt.startedMs;
    if (elapsed < this.#hedgeMs) return;
    const state = this.#best(task, now);
    if (!state || state.active >= this.#perSource) return;
    // a source that answers many requests in order is not slow while it delivers others
    if (attempt.bytes === 0 && now - attempt.state.heardMs < this.#hedgeMs) return;
    const left = task.piece.bytes - attempt.bytes;
    const leftMs = attempt.bytes > 0 ? (elapsed * left) / attempt.bytes : Number.POSITIVE_INFINITY;
    if (leftMs > 2 * state.waitMs(task.piece.bytes, this.#usualRate, false) + this.#hedgeMs) {
      this.#start(task, state, now);
    }
  }

  #start(task: Task<C>, state: SourceState<C>, now: number): void {
    const stop = new AbortController();
    const attempt: Attempt<C> = { state, stop, startedMs: now, heardMs: now, bytes: 0 };
    task.attempts.add(attempt);
    this.#waiting.delete(task);
    this.#running.add(task);
    state.begin(task.piece.bytes, now);
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

  async #play(task: Task<C>, attempt: Attempt<C>): Promise<void> {
    const { clock } = this.#options;
    const { piece } = task;
    const { state } = attempt;
    const result = await this.#read(piece, attempt);
    const now = clock.now();
    task.attempts.delete(attempt);
    this.#usualRate = Math.max(1, ...this.#states.map(({ rate }) => rate ?? 0));
    state.end(piece.bytes - attempt.bytes, now);
    if (!this.#running.has(task)) return;
    if (result === 'right') this.#finish(task, state, now);
    else {
      this.#judge(task, state, result, now);
      if (task.attempts.size > 0) return;
      this.#running.delete(task);
      this.#waiting.add(task);
    }
  }

  /** Downloads one chunk from one source, up to its length. Rejects only with what concerns the whole fetch. */
  async #read(piece: C, attempt: Attempt<C>): Promise<AttemptResult> {
    const { signal, openSink } = this.#options;
    const { state, stop } = attempt;
    let sink: ChunkSink | undefined;
    let isKept = false;
    try {
      const body = await state.source.read(piece, stop.signal);
      if (body === undefined) return 'absent';
      sink = await openSink(piece);
      for await (const part of body) {
        if (stop.signal.aborted) throw stop.signal.reason;
        if (!this.#take(piece, attempt, part.length)) return 'wrong';
        await sink.write(part);
      }
      if (attempt.bytes < piece.bytes) {
        throw new SourceError(`it ended after ${attempt.bytes} of ${piece.bytes} bytes`);
      }
      isKept = await sink.finish();
      return isKept ? 'right' : 'wrong';
    } catch (error) {
      if (signal.aborted || error instanceof CheckpointError) throw error;
      if (error instanceof SourceError) return error;
      const words = safeLine(wordsOf(error));
      return new SourceError(words, { cause: error });
    } finally {
      if (!isKept) await sink?.discard();
    }
  }

  /** Counts received bytes; returns false if they are more than the chunk has. */
  #take(piece: C, attempt: Attempt<C>, bytes: number): boolean {
    const { clock, mostBytes = Number.POSITIVE_INFINITY } = this.#options;
    const { state } = attempt;
    const now = clock.now();
    if (attempt.bytes === 0) state.hear(now - attempt.startedMs);
    attempt.heardMs = now;
    this.#bytes += bytes;
    if (this.#bytes > mostBytes) throw tooMuch(mostBytes);
    if (attempt.bytes + bytes > piece.bytes) return false;
    attempt.bytes += bytes;
    state.take(bytes, now);
    return true;
  }

  #finish(task: Task<C>, state: SourceState<C>, now: number): void {
    this.#running.delete(task);
    for (const { stop } of task.attempts)
      stop.abort(new SourceError('it arrived from another source'));
    state.succeed(task.piece.bytes);
    this.#newestMs = now;
    this.#right += task.piece.bytes;
    this.#options.onChunk?.(task.piece);
  }

  /** Records what a failed attempt says about its source. */
  #judge(
    { piece, without }: Task<C>,
    state: SourceState<C>,
    result: Exclude<AttemptResult, 'right'>,
    now: number,
  ): void {
    const { report } = this.#options;
    const { name } = state.source;
    const times = (without.get(state)?.times ?? 0) + 1;
    if (result === 'absent') {
      const waitMs = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** (times - 1));
      const untilMs = state.isGrowing ? now + waitMs : Number.POSITIVE_INFINITY;
      without.set(state, { times, untilMs });
      return;
    }
    if (result === 'wrong') {
      const message = `${piece.name} does not match its hash`;
      if (!state.isDemoted) report?.({ type: 'demoted', source: name, message });
      state.demote(message);
      return;
    }
    const { message, retryMs } = result;
    if (retryMs !== undefined) {
      without.set(state, { times, untilMs: now + retryMs });
      state.rest(Math.min(MOST_RETRY_REST_MS, retryMs), now, message);
      return;
    }
    state.fail(message, now);
    if (state.isAway) report?.({ type: 'away', source: name, message });
  }
}

const tooMuch = (most: number): CheckpointError =>
  new CheckpointError('checkpoint/too-much', `more than ${most} bytes arrived`, {
    hint: 'sources send wrong or duplicate chunks: name other sources, or raise --max-bytes',
  });
