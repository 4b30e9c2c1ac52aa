/** Short exchanges with one relay beside the subscriptions: a query of what it stores, a reconciliation of ids. */
import type { Clock } from '../../base/clock.ts';
import { within } from './deadline.ts';
import type { Filter } from './filter.ts';
import type { EventFrame, RelayFrame } from './frames.ts';
import type { Link } from './link.ts';
import type { Page } from './paging.ts';
import { createReconciliation } from './reconciliation.ts';

type Hear = (frame: RelayFrame | undefined) => void;

/** A relay that is slower than this with one answer has not answered. */
const QUERY_MS = 60_000;
const RECONCILE_MS = 20_000;

export class Exchanges {
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #open = new Map<string, { readonly link: Link; readonly hear: Hear }>();
  #begun = 0;

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock;
    this.#signal = signal;
  }

  /** True when the frame belonged to an exchange with this relay. */
  read(link: Link, frame: RelayFrame): boolean {
    const exchange = 'subscription' in frame ? this.#open.get(frame.subscription) : undefined;
    if (exchange?.link !== link) return false;
    exchange.hear(frame);
    return true;
  }

  /** The connection is gone: nothing more will be answered. */
  drop(link: Link): void {
    for (const exchange of [...this.#open.values()]) {
      if (exchange.link === link) exchange.hear(undefined);
    }
  }

  /** Stored events, each given to `take`, which returns the time of one that counts; undefined when refused or silent. */
  query(
    link: Link,
    filters: readonly Filter[],
    take: (frame: EventFrame) => number | undefined,
  ): Promise<Page | undefined> {
    let count = 0;
    let last = 0;
    return this.#hold(link, QUERY_MS, 'CLOSE', (name, end) => {
      link.say('REQ', name, ...filters);
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
    link: Link,
    filter: Filter,
    known: Iterable<readonly [id: string, createdAt: number]>,
  ): Promise<readonly string[] | undefined> {
    const side = await createReconciliation(known);
    return this.#hold(link, RECONCILE_MS, 'NEG-CLOSE', (name, end) => {
      link.say('NEG-OPEN', name, filter, side.opening);
      return (frame) => {
        if (frame?.type !== 'neg-msg') {
          end(undefined);
          return;
        }
        try {
          const next = side.answer(frame.message);
          if (next === null) end([...side.need]);
          else link.say('NEG-MSG', name, next);
        } catch {
          link.blame();
          end(undefined);
        }
      };
    });
  }

  /** Runs one exchange until it ends, `ms` pass or the set is closed. */
  async #hold<T>(
    link: Link,
    ms: number,
    farewell: 'CLOSE' | 'NEG-CLOSE',
    begin: (name: string, end: (result: T | undefined) => void) => Hear,
  ): Promise<T | undefined> {
    const name = `x${++this.#begun}`;
    try {
      const ended = new Promise<T | undefined>((resolve) => {
        this.#open.set(name, { link, hear: begin(name, resolve) });
      });
      return await within(ended, ms, this.#clock, this.#signal);
    } catch {
      return undefined; // closed meanwhile
    } finally {
      this.#open.delete(name);
      link.say(farewell, name);
    }
  }
}
