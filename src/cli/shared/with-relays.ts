/** Relays and runs as commands find them: what is waited for and what is not dialled is noted on stderr. */
import type { RelaySession } from '../../network/attachments/relay-chunks.ts';
import {
  type FindOptions,
  findRun as findRunHere,
  type LocateOptions,
  locateRun as locateRunHere,
  type ResolvedRun,
  type RunLocation,
} from '../../node/join/find-run.ts';
import { type RelayReach, withRelays as withRelaysHere } from '../../node/net/relays.ts';
import { writeNote } from '../../terminal/output.ts';

const onNotice = writeNote;

/** Does the work with these relays; they are connected before it and closed after it. */
export const withRelays = <T>(
  urls: readonly string[],
  reach: RelayReach,
  work: (relaySession: RelaySession) => Promise<T>,
): Promise<T> => withRelaysHere(urls, { onNotice, ...reach }, work);

/** Reads a file, or asks relays; throws if there is no such run or it is not what the address says. */
export const findRun = (source: string, options: FindOptions): Promise<ResolvedRun> =>
  findRunHere(source, { onNotice, ...options });

/** The run of an id, an address or a name on this machine. */
export const locateRun = (source: string, options: LocateOptions): Promise<RunLocation> =>
  locateRunHere(source, { onNotice, ...options });
