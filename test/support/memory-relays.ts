/**
 * One relay in memory that any number of workers reach through relay sets: it stores every event, replaces addressable
 * ones, deletes at the request of authors (NIP-09, NIP-62), and answers without delay.
 */

import { systemClock } from 'nostrain/base';
import {
  type Filter,
  matchesFilter,
  type PublishOutcome,
  type RelaySet,
  type SignedEvent,
} from 'nostrain/network';
import { isEphemeral, slotOf } from '../../relay/event.ts';
import { queryRelays } from '../../src/network/transport/query.ts';

export interface MemoryRelay {
  readonly events: SignedEvent[];
  /** Whether this worker hears of an event; default all. */
  connect(hears?: (event: SignedEvent) => boolean): RelaySet;
  /** Stores it and sends it on. */
  put(event: SignedEvent): void;
}

const DELETION = 5;
const VANISH = 62;

interface Listener {
  readonly filters: readonly Filter[];
  onEvent(event: SignedEvent): void;
}

export interface MemoryRelayOptions {
  /** It refuses an event whose JSON is longer; default it takes all. */
  readonly maxEventBytes?: number;
}

export function createMemoryRelay(url: string, options: MemoryRelayOptions = {}): MemoryRelay {
  const { maxEventBytes = Number.POSITIVE_INFINITY } = options;
  const events: SignedEvent[] = [];
  const listeners = new Set<Listener>();
  const wants = ({ filters }: Listener, event: SignedEvent) =>
    filters.some((filter) => matchesFilter(filter, event));
  const deleted = new Set<string>();
  const remove = (isMeant: (event: SignedEvent) => boolean) => {
    for (const event of events.filter(isMeant)) {
      deleted.add(event.id);
      events.splice(events.indexOf(event), 1);
    }
  };
  function put(event: SignedEvent): void {
    if (deleted.has(event.id) || events.some(({ id }) => id === event.id)) return;
    const isOwn = ({ pubkey }: SignedEvent) => pubkey === event.pubkey;
    if (event.kind === VANISH) remove((each) => isOwn(each) && each.created_at <= event.created_at);
    if (event.kind === DELETION) {
      const ids = event.tags.flatMap(([name, value]) => (name === 'e' ? [value] : []));
      remove((each) => isOwn(each) && ids.includes(each.id));
    }
    const slot = slotOf(event);
    const held = slot === undefined ? -1 : events.findIndex((one) => slotOf(one) === slot);
    if (held >= 0) events.splice(held, 1);
    if (!isEphemeral(event.kind)) events.push(event);
    for (const listener of [...listeners]) if (wants(listener, event)) listener.onEvent(event);
  }
  const take = (event: SignedEvent): PublishOutcome => {
    const isSmall =
      maxEventBytes === Number.POSITIVE_INFINITY || JSON.stringify(event).length <= maxEventBytes;
    if (isSmall) put(event);
    return isSmall ? accepted(url) : { ...accepted(url), ...TOO_LARGE };
  };
  return {
    events,
    put,
    connect: (hears = () => true) => {
      const relays: RelaySet = {
        ...{ relays: [url], readRelays: [url] },
        publish: (event) => Promise.resolve([take(event)]),
        send: (event) => [Promise.resolve(take(event))],
        subscribe(filters, handlers) {
          const handed = new Set<SignedEvent>();
          const onEvent = (event: SignedEvent) => {
            if (handed.has(event) || !hears(event)) return;
            if (handlers.onEvent(event, url) !== false) handed.add(event);
          };
          const listener = { filters, onEvent };
          listeners.add(listener);
          let caughtUp = false;
          const renew = () => {
            const stored = events.filter((event) => wants(listener, event));
            queueMicrotask(() => {
              for (const event of stored) onEvent(event);
              caughtUp = true;
              handlers.onCaughtUp?.(url);
            });
          };
          renew();
          return {
            get caughtUp() {
              return caughtUp;
            },
            renew,
            close: () => void listeners.delete(listener),
          };
        },
        // as far as the worker's wire looks at it
        status: () => [{ relay: url, state: 'open', bytesIn: 0, bytesOut: 0, limits: {} }] as never,
        workFor: () => 0,
        ready: async () => undefined,
        query: (filters, options) => queryRelays(filters, options, relays, systemClock),
        close: async () => undefined,
      };
      return relays;
    },
  };
}

const TOO_LARGE = { status: 'refused', refuses: 'size', message: 'invalid: too large' } as const;

const accepted = (relay: string): PublishOutcome => ({
  relay,
  status: 'accepted',
  message: '',
  attempts: 1,
  delaysMs: [],
});
