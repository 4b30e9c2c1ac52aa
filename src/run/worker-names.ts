/** Names of workers for users: the npub of their key, and a short form of it. */
import { npubEncode } from 'nostr-tools/nip19';
import { isHex32 } from '../base/bytes.ts';
import { safeLine } from '../base/errors.ts';
import type { WorkerId } from './ids.ts';

const SHORT_LENGTH = 12;

/** Returns the npub of a worker; the Python reference also has names that are no keys. */
export const fullName = (worker: WorkerId): string =>
  isHex32(worker) ? npubEncode(worker) : safeLine(worker);

/** Returns the start of a worker's npub, enough to tell workers apart. */
export const shortName = (worker: WorkerId): string => fullName(worker).slice(0, SHORT_LENGTH);

/**
 * Returns a worker as people see it: its name, and always the start of its key, since names are not unique. A name that
 * looks like a key is not shown.
 */
export const called = (worker: WorkerId, name: string | undefined): string =>
  name === undefined || /npub1/i.test(name)
    ? shortName(worker)
    : `${safeLine(name)} (${shortName(worker)})`;

/** The start of an npub in a text; one in parentheses already follows a name. */
const SHORT = new RegExp(`(?<!\\()npub1[a-z0-9]{${SHORT_LENGTH - 5}}(?![a-z0-9])`, 'g');

/** Returns a text with the name of each worker in front of the start of its key. */
export const withNames = (text: string, names: ReadonlyMap<WorkerId, string>): string => {
  if (names.size === 0) return text;
  const known = new Map(
    [...names].map(([worker, name]) => [shortName(worker), called(worker, name)]),
  );
  return text.replace(SHORT, (short) => known.get(short) ?? short);
};
