/** Readers of the addresses, machines and recipients that a spec lists. */
import { form, list, type Reader } from '../field.ts';

/** An https address. */
export const address = (): Reader<string> =>
  form('an https address of at most 256 characters', /^https:\/\/[!-~]{1,248}$/);

const urls = (schemes: string, rest: string, pattern: RegExp) =>
  list(`a list of at most 8 ${schemes} addresses, each once, without ${rest}`, [0, 8], (item) =>
    typeof item === 'string' && pattern.test(item) ? item : undefined,
  );

/** Addresses of HTTP servers; may be empty. */
export const addresses = (): Reader<readonly string[]> =>
  urls('https:// or http://', 'user and query', /^https?:\/\/[!-"$->A-~]{1,248}$/);

/** Addresses of relays; may be empty. */
export const relayUrls = (): Reader<readonly string[]> =>
  urls('wss:// or ws://', 'user and password', /^wss?:\/\/[!-?A-~]{1,248}$/);

/** Most vendors and measurements of machines that a run accepts. */
const MOST_MACHINES = 64;

/** Several of a few words; may be empty. */
export const choices = <T extends string>(words: readonly T[]): Reader<readonly T[]> =>
  list(`a list of ${words.join(', ')}, each at most once`, [0, words.length], (item) =>
    words.find((word) => word === item),
  ) as Reader<readonly T[]>;

/** Measurements of code in hex; may be empty. */
export const measurements = (): Reader<readonly string[]> =>
  list(
    `a list of at most ${MOST_MACHINES} measurements of 64 to 288 hex digits`,
    [0, MOST_MACHINES],
    (item) => (typeof item === 'string' && /^(?:[0-9a-f]{32}){2,9}$/.test(item) ? item : undefined),
  );

/** Largest number of recipients of sealed data: with more, a spec would not fit in an event. */
const MOST_RECIPIENTS = 256;
const RECIPIENT = /^[0-9a-f]{64}:[0-9a-f]{64}$/;

/** Recipients of sealed data, each a Nostr key and an X25519 key in hex. */
export const recipients = (): Reader<readonly string[]> =>
  list(
    `a list of 1 to ${MOST_RECIPIENTS} pairs KEY:X25519 of 64 lowercase hex digits each`,
    [1, MOST_RECIPIENTS],
    (item) => (typeof item === 'string' && RECIPIENT.test(item) ? item : undefined),
  );
