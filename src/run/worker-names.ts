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
