/**
 * Shares relays out among workers: each sends to all of them and reads from some, found by rendezvous hashing over its key, so that a reader is
 * brought every event so many times, and not once by each relay there is. Who reads where need not be told, since everybody sends everywhere.
 */
import { utf8 } from '../../base/bytes.ts';
import { sha256Hex } from '../../base/hash.ts';

/** The relays that this key reads from, in the order in which they are given. One that comes or goes moves only what it has. */
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
