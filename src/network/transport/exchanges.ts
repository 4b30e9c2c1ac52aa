/** Short exchanges with one relay: a query read on page by page (NIP-67), and a reconciliation of ids (NIP-77). */
import { type Clock, within } from '../../base/async.ts';
import type { RelayConnection } from './connection.ts';
import type { EoseHint, EventFrame, Filter, RelayFrame } from './frames.ts';

type Hear = (frame: RelayFrame | undefined) => void;

const QUERY_MS = 60_000;
const RECONCILE_MS = 20_000;

export class Exchanges {
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #open = new Map<string, { readonly connection: RelayConnection; readonly hear: Hear }>();
  #begun = 0;

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock;
    this.#signal = signal;
  }

  read(connection: RelayConnection, frame: RelayFrame): boolean {
    const exchange = 'subscription' in frame ? this.#open.get(frame.subscription) : undefined;
    if (exchange?.connection !== connection) return false;
    exchange.hear(frame);
    return true;
  }

  drop(connection: RelayConnection): void {
    for (const exchange of [...this.#open.values()]) {
      if (exchange.connection === connection) exchange.hear(undefined);
    }
  }

  /** Stored events, each given to `take`, which returns the time of one that counts; undefined when refused. */
  query(
    connection: RelayConnection,
    filters: readonly Filter[],
    take: (frame: EventFrame) => number | undefined,
  ): Promise<Page | undefined> {
    let count = 0;
    let last = 0;
    return this.#hold(connection, QUERY_MS, 'CLOSE', (name, end) => {
      connection.say('REQ', name, ...filters);
      return (frame) => {
        if (frame?.type === 'event') {
          const createdAt = take(frame);
          if (createdAt === undefined) return;
          count++;
          last = createdAt;
        } else end(frame?.type === 'eose' ? { count, last, hint: frame.hint } : undefined);
      };
    });
  }

  /** Ids of events the relay has for the filter and we lack; undefined when it cannot or does not tell. */
  async reconcile(
    connection: RelayConnection,
    filter: Filter,
    known: Iterable<readonly [id: string, createdAt: number]>,
  ): Promise<readonly string[] | undefined> {
    const side = await createReconciliation(known);
    return this.#hold(connection, RECONCILE_MS, 'NEG-CLOSE', (name, end) => {
      connection.say('NEG-OPEN', name, filter, side.opening);
      return (frame) => {
        if (frame?.type !== 'neg-msg') {
          end(undefined);
          return;
        }
        try {
          const next = side.answer(frame.message);
          if (next === null) end([...side.need]);
          else connection.say('NEG-MSG', name, next);
        } catch {
          connection.blame();
          end(undefined);
        }
      };
    });
  }

  async #hold<T>(
    connection: RelayConnection,
    ms: number,
    farewell: 'CLOSE' | 'NEG-CLOSE',
    begin: (name: string, end: (result: T | undefined) => void) => Hear,
  ): Promise<T | undefined> {
    const name = `x${++this.#begun}`;
    try {
      const ended = new Promise<T | undefined>((resolve) => {
        this.#open.set(name, { connection, hear: begin(name, resolve) });
      });
      return await within(ended, ms, this.#clock, this.#signal);
    } catch {
      return undefined; // closed meanwhile
    } finally {
      this.#open.delete(name);
      connection.say(farewell, name);
    }
  }
}

/** A relay that names more ids than this is asked in the ordinary way instead. */
const MAX_NEED = 8192;
const MAX_ROUNDS = 100;
/** The codec counts seconds in 32 bits. */
const LATEST = 2 ** 31 - 1;

/** One side of a set reconciliation (NIP-77): which events a relay has that we lack. */
async function createReconciliation(known: Iterable<readonly [id: string, createdAt: number]>) {
  // this codec has no entry of its own, and the whole package is much to load for something rarely needed
  const { Negentropy, NegentropyStorageVector } = (await import('nostr-tools')).nip77;
  const storage = new NegentropyStorageVector();
  for (const [id, createdAt] of known) {
    if (createdAt <= LATEST) storage.insert(createdAt, id);
  }
  storage.seal();
  const side = new Negentropy(storage);
  const need = new Set<string>();
  let rounds = 0;
  return {
    opening: side.initiate(),
    need,
    /** What to say next, or null at the end. Throws when the message makes no sense or the relay claims too much. */
    answer(message: string): string | null {
      if (++rounds > MAX_ROUNDS) throw new RangeError('no end after so many rounds');
      return side.reconcile(message, undefined, (id) => {
        need.add(id);
        if (need.size > MAX_NEED) throw new RangeError(`more than ${MAX_NEED} ids`);
      });
    },
  };
}

/** What a relay sent before one EOSE. */
export interface Page {
  readonly count: number;
  /** The time named by the one that came last: where the relay stopped. */
  readonly last: number;
  readonly hint: EoseHint | undefined;
}

/** Relays that stop early without a word stop after 100 events or more. */
const ASSUMED_LIMIT = 100;
const MAX_PAGES = 200;

/** Whether asking on can bring anything. A filter with ids or a limit has its own end. */
export function mayHaveMore(filter: Filter, { count, hint }: Page): boolean {
  if (count === 0 || filter.ids || filter.limit !== undefined) return false;
  return hint === undefined ? count >= ASSUMED_LIMIT : hint === 'more';
}

/** Reads on after a first page, with `until` inclusive; true when everything came for certain. */
export async function readOn(
  filter: Filter,
  first: Page,
  ask: (filter: Filter) => Promise<Page | undefined>,
): Promise<boolean> {
  let page: Page | undefined = first;
  let until = Number.POSITIVE_INFINITY;
  let isWhole = true;
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    if (!mayHaveMore(filter, page)) return isWhole;
    if (page.last < until) until = page.last;
    else {
      until--;
      isWhole = false; // the page was all of one second, which may hold more
    }
    if (until < (filter.since ?? 0)) return isWhole;
    page = await ask({ ...filter, until });
    if (!page) return false;
  }
  return false;
}
