/**
 * Requests chunk events from one relay by key, up to 64 per request. Authors take turns, so one that names many missing
 * payloads does not delay the others. Every event is verified against its root, so no relay is trusted.
 */
import { chunk } from '../../../kinds/chunk.ts';
import type { Clock } from '../../base/async.ts';
import { deferred, onAbort } from '../../base/async.ts';
import type { WorkerId } from '../../run/ids.ts';
import { chunkKey, type PayloadRoot, toChunk, type VerifiedChunk } from '../chunks/payload.ts';
import type { SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { ConnectionState } from '../transport/connection.ts';
import type { RelaySet, Subscription } from '../transport/relay-set.ts';

/** Connected relays, and what is needed to request payloads from them. */
export interface RelayAccess {
  readonly relays: RelaySet;
  readonly clock: Clock;
  readonly sha256: Sha256;
}

/** Relay access until a signal ends it. */
export interface RelaySession extends RelayAccess {
  readonly signal: AbortSignal;
}

/** A chunk to request from a relay. */
export interface ChunkRequest extends PayloadRoot {
  readonly index: number;
  /** Author of the event that names the payload; authors take turns. */
  readonly owner: WorkerId;
  /** Only events signed by this key; undefined accepts any author. */
  readonly author?: WorkerId | undefined;
}

/** A chunk and the event that brought it. */
export interface ReceivedChunk {
  readonly chunk: VerifiedChunk;
  readonly event: SignedEvent;
}

/** Requests under way at each relay: two of 64 chunks are 8 MiB. */
const REQUESTS_AT_ONCE = 2;
/** Values in one list of a filter that every relay accepts. */
const MOST_PER_REQUEST = 64;
/** Maximum number of chunks worth requesting from one relay at once. */
export const MOST_CHUNKS_AT_ONCE = REQUESTS_AT_ONCE * MOST_PER_REQUEST;
/** Time after which a request without EOSE counts as answered. */
const REQUEST_MS = 20_000;
const TICK_MS = 250;

interface Waiting extends ChunkRequest {
  settle(chunk: ReceivedChunk | undefined): void;
}

/** A request under way, with the chunks that have not arrived. */
interface Request {
  readonly open: Set<Waiting>;
  end(): void;
}

export class RelayChunks {
  readonly relay: string;
  readonly #options: RelayAccess;
  readonly #requests = new Set<Request>();
  #queue: Waiting[] = [];

  constructor(relay: string, options: RelayAccess) {
    this.relay = relay;
    this.#options = options;
  }

  get state(): ConnectionState {
    const all = this.#options.relays.status();
    return all.find(({ relay }) => relay === this.relay)?.state ?? 'closed';
  }

  /** Returns the chunk, or undefined if the relay does not have it now. Rejects with the signal's reason. */
  async read(request: ChunkRequest, signal: AbortSignal): Promise<ReceivedChunk | undefined> {
    signal.throwIfAborted();
    const { promise, settle } = deferred<ReceivedChunk | undefined>();
    const waiting: Waiting = { ...request, settle };
    this.#queue.push(waiting);
    queueMicrotask(() => this.#pump());
    const release = onAbort(signal, () => this.#drop(waiting));
    const chunk = await promise;
    release();
    signal.throwIfAborted();
    return chunk;
  }

  #drop(waiting: Waiting): void {
    this.#queue = this.#queue.filter((each) => each !== waiting);
    for (const request of this.#requests) {
      if (request.open.delete(waiting) && request.open.size === 0) request.end();
    }
    waiting.settle(undefined);
  }

  #pump(): void {
    while (this.#requests.size < REQUESTS_AT_ONCE) {
      const [first] = this.#queue;
      if (first === undefined) return;
      const { owner, author } = first;
      const theirs = this.#queue.filter((each) => each.owner === owner);
      const batch = theirs.filter((each) => each.author === author).slice(0, MOST_PER_REQUEST);
      const taken = new Set(batch);
      // their turn is over: their remaining requests go to the end of the queue
      const others = this.#queue.filter((each) => each.owner !== owner);
      this.#queue = [...others, ...theirs.filter((each) => !taken.has(each))];
      this.#request(batch, author);
    }
  }

  #request(batch: readonly Waiting[], author: WorkerId | undefined): void {
    const { relays } = this.#options;
    const open = new Set(batch);
    const stop = new AbortController();
    let subscription: Subscription | undefined;
    const request: Request = {
      open,
      end: () => {
        if (!this.#requests.delete(request)) return;
        stop.abort();
        subscription?.close();
        for (const each of open) each.settle(undefined);
        this.#pump();
      },
    };
    this.#requests.add(request);
    const { end } = request;
    const keys = [...new Set(batch.map(({ root, index }) => chunkKey(root, index)))];
    const filter = {
      kinds: [chunk.kind],
      '#c': keys,
      limit: 2 * keys.length,
      ...(author !== undefined && { authors: [author] }),
    };
    const onEvent = (event: SignedEvent) => this.#take(request, event);
    subscription = relays.subscribe(
      [filter],
      { onEvent, onCaughtUp: end, onLost: end },
      { only: [this.relay], recheck: false },
    );
    if (!this.#requests.has(request)) subscription.close();
    void this.#endLate(request, stop.signal).catch(() => undefined);
  }

  async #endLate({ end }: Request, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const untilMs = clock.now() + REQUEST_MS;
    while (clock.now() < untilMs) await clock.sleep(TICK_MS, signal);
    end();
  }

  #take({ open, end }: Request, event: SignedEvent): void {
    const maxPayloadBytes = Math.max(...[...open].map(({ bytes }) => bytes));
    const judged = toChunk(event, { maxPayloadBytes }, this.#options.sha256);
    if (!judged.ok) return;
    const { root, bytes, index } = judged.value;
    for (const each of open) {
      if (each.root !== root || each.bytes !== bytes || each.index !== index) continue;
      open.delete(each);
      each.settle({ chunk: judged.value, event });
    }
    if (open.size === 0) end();
  }
}
