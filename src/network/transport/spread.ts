/**
 * Shares relays out among workers: each reads from all of them and publishes to some, found by rendezvous hashing over its key, so that a reader
 * is brought every event so many times, and not once by each relay there is. Who publishes where need not be told, since everybody reads everywhere.
 */
import { utf8 } from '../../base/bytes.ts';
import { sha256Hex } from '../../base/hash.ts';
import type { RelaySet } from './relay-set.ts';

/** The relays that this key publishes to, in the order in which they are given. One that comes or goes moves only what it has. */
export function relaysOfKey(
  relays: readonly string[],
  publicKey: string,
  copies: number,
): readonly string[] {
  if (copies === 0 || copies >= relays.length) return relays;
  const scored = relays.map((relay) => ({
    relay,
    score: sha256Hex(utf8(`nostrain/relay/1 ${publicKey} ${relay}`)),
  }));
  const best = scored.sort((a, b) => (a.score < b.score ? 1 : -1)).slice(0, copies);
  const own = new Set(best.map(({ relay }) => relay));
  return relays.filter((relay) => own.has(relay));
}

/**
 * The same relays, of which this key publishes to `copies` (0: to all) where nothing else is asked; they are the ones that its `relays` names.
 * All are subscribed to and asked.
 */
export function spreadOver(all: RelaySet, publicKey: string, copies: number): RelaySet {
  const own = relaysOfKey(all.relays, publicKey, copies);
  if (own.length === all.relays.length) return all;
  return {
    relays: own,
    publish: (event, options) => all.publish(event, { only: own, ...options }),
    send: (event, options) => all.send(event, { only: own, ...options }),
    subscribe: (filters, handlers, options) => all.subscribe(filters, handlers, options),
    query: (filters, options) => all.query(filters, options),
    status: () => all.status(),
    workFor: (kind) => all.workFor(kind),
    ready: (signal) => all.ready(signal),
    close: () => all.close(),
  };
}
