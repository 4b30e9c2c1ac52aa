/**
 * Pulls payloads and bodies that travel as chunk events from several relays at once, until someone has published all of
 * their chunks. A chunk fetch whose sources are relays; first requests chunks that the payload's author signed.
 */
import { anySignal, deferred, onAbort } from '../../base/async.ts';
import type { WorkerId } from '../../run/ids.ts';
import { fetchChunks } from '../chunks/fetch.ts';
import type { ChunkSink } from '../chunks/fetch-options.ts';
import {
  type Assembly,
  chunkLength,
  createAssembly,
  type ErasureCoded,
  isPayload,
  joinParts,
  type PayloadRoot,
  partsOf,
} from '../chunks/payload.ts';
import type { ChunkSource } from '../chunks/source.ts';
import type { Progress } from '../transport/delivery.ts';
import {
  MOST_CHUNKS_AT_ONCE,
  type ReceivedChunk,
  type RelayAccess,
  type RelayChunks,
} from './relay-chunks.ts';

/** A payload to pull, and authors whose chunks to request first. */
export interface PayloadRequest extends ErasureCoded {
  readonly worker: WorkerId;
  /** Returns other authors that name the same root, and so may have signed chunks of it. */
  others?(): readonly WorkerId[];
}

/** A payload and the total length of its chunk events. */
export interface PulledPayload {
  readonly payload: Uint8Array;
  readonly eventBytes: number;
}

export interface Pull {
  /** Undefined if the pull was stopped, or if the author signed chunks that do not fit together. */
  readonly done: Promise<PulledPayload | undefined>;
  progress(): Progress;
  stop(): void;
}

/** Time after which a chunk is also requested from another relay. */
const HEDGE_MS = 2000;
/** Time after which all shards of an erasure-coded payload are pulled, instead of only the k that are needed. */
const PATIENCE_MS = 3000;
const TICK_MS = 250;

/** A chunk of one part. */
interface PartChunk {
  readonly name: string;
  readonly bytes: number;
  readonly part: number;
  readonly index: number;
}

/** One payload being pulled. */
export class PullJob implements Pull {
  readonly #options: RelayAccess;
  readonly #wanted: PayloadRequest;
  readonly #need: number;
  readonly #assemblies: readonly Assembly[];
  readonly #chunks: readonly PartChunk[];
  /** How often each relay lacked a chunk. */
  readonly #absent: ReadonlyMap<RelayChunks, Map<PartChunk, number>>;
  readonly #over = new AbortController();
  readonly #result = deferred<PulledPayload | undefined>();
  readonly done = this.#result.promise;
  readonly #startedMs: number;
  #newestMs: number;
  #eventBytes = 0;
  /** Parts to pull now; recomputed when a relay lacks something or time has passed. */
  #parts: { readonly indices: ReadonlySet<number>; readonly atMs: number } | undefined;

  constructor(wanted: PayloadRequest, relays: readonly RelayChunks[], options: RelayAccess) {
    const { need, roots } = partsOf(wanted);
    this.#options = options;
    this.#wanted = wanted;
    this.#need = need;
    this.#absent = new Map(relays.map((relay) => [relay, new Map()]));
    this.#startedMs = options.clock.now();
    this.#newestMs = this.#startedMs;
    this.#assemblies = roots.map((root) => openAssembly(root, options));
    this.#chunks = this.#assemblies.flatMap(({ bytes, count }, part) =>
      Array.from({ length: count }, (_, index) => {
        return { name: `chunk ${index}`, bytes: chunkLength(index, bytes), part, index };
      }),
    );
  }

  /** Returns how many chunks arrived, of those that are enough. */
  readonly progress = (): Progress => {
    const counts = this.#assemblies.map(({ received }) => received).sort((a, b) => b - a);
    const have = counts.slice(0, this.#need).reduce((sum, count) => sum + count, 0);
    return { have, of: this.#need * (this.#assemblies[0]?.count ?? 0) };
  };

  readonly stop = (): void => {
    this.#over.abort();
    this.#result.settle(undefined);
  };

  async run(signal: AbortSignal, idleMs: number | undefined): Promise<void> {
    const both = anySignal(signal, this.#over.signal);
    const release = onAbort(both.signal, () => this.stop());
    if (both.signal.aborted) this.stop();
    if (idleMs !== undefined) void this.#watch(idleMs, both.signal).catch(() => undefined);
    try {
      await fetchChunks<PartChunk>({
        digest: this.#wanted.root,
        wanted: this.#chunks.map((piece) => ({ piece, index: piece.index })),
        sources: [...this.#absent.keys()].map((relay) => this.#source(relay)),
        clock: this.#options.clock,
        signal: both.signal,
        openSink: async () => PROVEN,
        statusOf: (piece) => this.#statusOf(piece),
        perSource: MOST_CHUNKS_AT_ONCE,
        atOnce: Number.POSITIVE_INFINITY,
        stallMs: Number.POSITIVE_INFINITY,
        patienceMs: Number.POSITIVE_INFINITY,
        hedgeMs: HEDGE_MS,
        tickMs: TICK_MS,
      });
    } catch (error) {
      if (!both.signal.aborted) throw error;
    } finally {
      release();
      both.release();
      this.stop();
    }
  }

  /** Stops the pull if no new chunk arrives for this long. */
  async #watch(idleMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    while (clock.now() < this.#newestMs + idleMs) await clock.sleep(TICK_MS, signal);
    this.stop();
  }

  /** Returns a relay as a source of this payload; a disconnected relay is asked last. */
  #source(relay: RelayChunks): ChunkSource<PartChunk> {
    const absent = this.#absent.get(relay)!;
    const { worker: owner } = this.#wanted;
    return {
      name: relay.relay,
      isGrowing: true,
      get isReady() {
        return ['open', 'idle'].includes(relay.state);
      },
      get isSpared() {
        return relay.state === 'idle';
      },
      read: async (piece, signal) => {
        const times = absent.get(piece) ?? 0;
        const { root, bytes } = this.#assemblies[piece.part]!;
        const { index } = piece;
        const author = this.#author(times);
        const chunk = await relay.read({ root, bytes, index, owner, author }, signal);
        if (chunk === undefined) {
          absent.set(piece, times + 1);
          this.#parts = undefined;
          return undefined;
        }
        this.#take(chunk);
        return [chunk.chunk.data];
      },
    };
  }

  /** Requests events of any author only every other time: they may be any number of forgeries. */
  #author(times: number): WorkerId | undefined {
    if (times % 2 === 1) return undefined;
    const { worker, others } = this.#wanted;
    const authors = [worker, ...(others?.() ?? [])];
    return authors[(times / 2) % authors.length];
  }

  #take({ chunk, event }: ReceivedChunk): void {
    let isNew = false;
    for (const assembly of this.#assemblies) {
      if (assembly.root !== chunk.root) continue; // equal shards have one root
      const added = assembly.add(chunk);
      isNew ||= added.ok && added.value;
    }
    if (!isNew) return;
    this.#newestMs = this.#options.clock.now();
    // base64 needs no escapes
    this.#eventBytes += JSON.stringify({ ...event, content: '' }).length + event.content.length;
    const whole = this.#assemblies.filter(({ received, count }) => received === count);
    if (whole.length >= this.#need) this.#finish();
  }

  #finish(): void {
    const parts = this.#assemblies.map((assembly) => {
      const result = assembly.result();
      return result.ok ? result.bytes : undefined;
    });
    const payload = joinParts(parts, this.#wanted);
    const isSound = payload && isPayload(payload, this.#wanted, this.#options.sha256);
    this.#result.settle(isSound ? { payload, eventBytes: this.#eventBytes } : undefined);
    this.stop();
  }

  #statusOf({ part, index }: PartChunk): 'wanted' | 'later' | 'here' {
    if (this.#assemblies[part]!.has(index)) return 'here';
    if (this.#need === this.#assemblies.length) return 'wanted';
    const atMs = this.#options.clock.now();
    if (this.#parts?.atMs !== atMs) this.#parts = { atMs, indices: this.#partsToPull(atMs) };
    return this.#parts.indices.has(part) ? 'wanted' : 'later';
  }

  /** Returns as many parts as are needed, first those that some relay may have; all parts if that takes too long. */
  #partsToPull(nowMs: number): ReadonlySet<number> {
    const all = [...this.#assemblies.keys()];
    if (nowMs - this.#startedMs > PATIENCE_MS) return new Set(all);
    const open = [...this.#absent].flatMap(([{ state }, lacking]) =>
      state === 'open' ? [lacking] : [],
    );
    const lacking = this.#chunks.filter(
      (piece) =>
        !this.#assemblies[piece.part]!.has(piece.index) && open.every((each) => each.has(piece)),
    );
    const stuck = new Set(lacking.map(({ part }) => part));
    const likely = all.filter((part) => !stuck.has(part));
    return new Set([...likely.slice(0, this.#need), ...stuck]);
  }
}

/** Chunk events are verified before they get here. */
const PROVEN: ChunkSink = {
  write: () => undefined,
  finish: async () => true,
  discard: async () => undefined,
};

function openAssembly(root: PayloadRoot, { sha256 }: RelayAccess): Assembly {
  const made = createAssembly(root, { maxBytes: root.bytes, sha256 });
  if (!made.ok) throw new TypeError(made.issue.message);
  return made.value;
}
