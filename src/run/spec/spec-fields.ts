/** Readers for what only a run spec holds: keys, hashes, labels, stakes. Each takes the forms people write and gives the one that is hashed. */
import { decode } from 'nostr-tools/nip19';
import { isHex32 } from '../../base/bytes.ts';
import { type Field, reading } from '../field.ts';
import type { Digest, WorkerId } from '../ids.ts';

/** Seats, founders and invited keys are at most so many. */
/** Keys in one list of a spec. */
export const MOST_KEYS = 1024;
const MOST_LABEL = 64;
const MOST_STAKE = 2n ** 128n - 1n;
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Surrogate}]/u;

/** Any table of fields. */
export type Group = Readonly<Record<string, Field<unknown>>>;

/** What a table of fields reads. */
export type Values<G extends Group> = { readonly [K in keyof G]: ReturnType<G[K]['read']> };

/** A public key in hex, of hex or npub1…; undefined for anything else. */
export function readKey(value: unknown): WorkerId | undefined {
  if (typeof value !== 'string') return undefined;
  if (isHex32(value)) return value;
  if (!value.startsWith('npub1')) return undefined;
  try {
    const decoded = decode(value);
    return decoded.type === 'npub' ? decoded.data : undefined;
  } catch {
    return undefined;
  }
}

/** One public key. */
export const key = (flag: string, help: string): Field<WorkerId> =>
  reading(flag, help, { accepted: 'a public key: 64 hex digits or npub1…', take: readKey });

/** Public keys, each once, ascending. */
export const keys = (flag: string, help: string): Field<readonly WorkerId[]> =>
  reading(flag, help, {
    accepted: `a list of 1 to ${MOST_KEYS} public keys, each once: 64 hex digits or npub1…`,
    take: (value) => {
      if (!Array.isArray(value) || value.length < 1 || value.length > MOST_KEYS) return undefined;
      const read = value.map(readKey).filter((each) => each !== undefined);
      const isGood = read.length === value.length && new Set(read).size === read.length;
      return isGood ? read.sort() : undefined;
    },
  });

/** Public keys of workers, or none: a JSON list, or written `npub1…,npub1…`. Ascending. */
export const workerKeys = (flag: string, help: string): Field<readonly WorkerId[]> =>
  reading(flag, help, {
    accepted: 'public keys, each once: 64 hex digits or npub1…, separated by commas',
    take: (value) => {
      const list: unknown = typeof value === 'string' ? value.split(',').filter(Boolean) : value;
      if (!Array.isArray(list) || list.length > MOST_KEYS) return undefined;
      const read = list.map(readKey).filter((each) => each !== undefined);
      const isGood = read.length === list.length && new Set(read).size === read.length;
      return isGood ? read.sort() : undefined;
    },
  });

/** 32 bytes in hex. */
export const hash = (flag: string, help: string): Field<Digest> =>
  reading(flag, help, {
    accepted: '64 lowercase hex digits',
    take: (value) => (typeof value === 'string' && isHex32(value) ? value : undefined),
  });

const MOST_RELAYS = 8;
const RELAY = /^wss?:\/\/[!-?A-~]{1,248}$/;

/** Addresses of relays, each once, ascending; none at all too. */
export const relayUrls = (flag: string, help: string): Field<readonly string[]> =>
  reading(flag, help, {
    accepted: `a list of at most ${MOST_RELAYS} wss:// or ws:// addresses, each once, without user and password`,
    take: (value) => {
      if (!Array.isArray(value) || value.length > MOST_RELAYS) return undefined;
      const list: readonly unknown[] = value;
      const isUrl = (each: unknown): each is string => typeof each === 'string' && RELAY.test(each);
      const urls = list.filter(isUrl);
      const isGood = urls.length === list.length && new Set(urls).size === urls.length;
      return isGood ? [...urls].sort() : undefined;
    },
  });

/** Text that is safe on one line of any screen. */
export const label = (flag: string, help: string): Field<string> =>
  reading(flag, help, {
    accepted: `1 to ${MOST_LABEL} characters on one line, no blanks around them`,
    take: (value) => {
      if (typeof value !== 'string' || value === '' || value.trim() !== value) return undefined;
      return value.length <= MOST_LABEL && !UNSAFE.test(value) ? value : undefined;
    },
  });

/** Text of one form. */
export const form = (
  flag: string,
  help: string,
  { accepted, is }: { readonly accepted: string; readonly is: RegExp },
): Field<string> =>
  reading(flag, help, {
    accepted,
    take: (value) => (typeof value === 'string' && is.test(value) ? value : undefined),
  });

/** A stake: a whole number as text, since it may be beyond what a double holds. */
export const stake = (flag: string, help: string): Field<string> =>
  reading(flag, help, {
    accepted: 'a whole number in decimal, as text, up to 2^128 - 1',
    take: (value) => {
      const text = Number.isSafeInteger(value) ? String(value) : value;
      if (typeof text !== 'string' || !/^(?:0|[1-9][0-9]{0,38})$/.test(text)) return undefined;
      return BigInt(text) <= MOST_STAKE ? text : undefined;
    },
  });
