/**
 * Asks one relay for chunk events by their keys, up to 64 in a request. Authors take turns, so one who names many
 * payloads that nobody has does not hold up the others. Every event proves itself, so no relay is trusted.
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

/** Connected relays, and what asking them for payloads takes. */
export interface RelayAccess {
  readonly relays: RelaySet;
  readonly clock: Clock;
  readonly sha256: Sha256;
}

/** The same until a signal ends it. */
export interface RelaySession extends RelayAccess {
  readonly signal: AbortSignal;
}

/** A chunk to ask a relay for. */
export interface ChunkRequest extends PayloadRoot {
  readonly index: number;
  /** Whose turn it takes: the author of the event that names the payload. */
  readonly owner: WorkerId;
  /** Only events that this key signed; undefined for those of anybody. */
  readonly author?: WorkerId | undefined;
}

/** A chunk and the event that brought it. */
export interface ReceivedChunk {
  readonly chunk: VerifiedChunk;
  readonly event: SignedEvent;
}

/** Two requests of 64 chunks are 8 MiB under way at each relay. */
const REQUESTS_AT_ONCE = 2;
/** Values in one list of a filter that every relay accepts. */
const MOST_PER_REQUEST = 64;
/** Chunks that are worth requesting of one relay at once. */
export const MOST_CHUNKS_AT_ONCE = REQUESTS_AT_ONCE * MOST_PER_REQUEST;
/** A relay that has not said it is through with a request after this is taken to have nothing more. */
const REQUEST_MS = 20_000;
const TICK_MS = 250;

interface Waiting extends ChunkRequest {
  settle(chunk: ReceivedChunk | undefined): void;
}

/** A request under way: what of it has not come, and how it ends. */
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
      // their turn is over: what they want beside it waits behind the others
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
