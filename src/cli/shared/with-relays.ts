/**
 * Relays and runs for commands: like src/node, with notices on stderr about slow relays and relays that are not dialed.
 */
import { ConfigError, RelayError } from '../../base/errors.ts';
import type { RelaySession } from '../../network/attachments/relay-chunks.ts';
import type { SignedEvent } from '../../network/event.ts';
import {
  findRun as findRunPlain,
  type LocateOptions,
  locateRun as locateRunPlain,
  type ResolvedRun,
  type RunLocation,
} from '../../node/join/find-run.ts';
import { type RelayReach, withRelays as withRelaysPlain } from '../../node/net/relays.ts';
import { type ConnectionFlags, connectionOf } from '../../terminal/connection.ts';
import { writeNote } from '../../terminal/output.ts';

const onNotice = writeNote;

/** Runs the work with these relays; connects before it and closes after it. */
export const withRelays = <T>(
  urls: readonly string[],
  reach: RelayReach,
  work: (relaySession: RelaySession) => Promise<T>,
): Promise<T> => withRelaysPlain(urls, { onNotice, ...reach }, work);

/**
 * Reads a spec file, or fetches the run from relays. Throws if there is no such run or it does not match the address.
 */
export const findRun = (
  source: string,
  flags: ConnectionFlags & LocateFlags,
  reach: Omit<RelayReach, 'connection'>,
): Promise<ResolvedRun> => {
  const { relay: relays, allowPrivateRelays } = flags;
  const connection = connectionOf(flags);
  return findRunPlain(source, { onNotice, ...reach, connection, relays, allowPrivateRelays });
};

interface LocateFlags {
  readonly relay?: readonly string[] | undefined;
  readonly allowPrivateRelays?: boolean | undefined;
}

/** Runs the work with the relays of a found run. Throws `flag/relay` if none is known. */
export const withRelaysOf = <T>(
  { relays, connection }: Pick<ResolvedRun, 'relays' | 'connection'>,
  reach: Omit<RelayReach, 'connection'>,
  work: (relaySession: RelaySession) => Promise<T>,
): Promise<T> => {
  if (relays.length > 0) return withRelays(relays, { ...reach, connection }, work);
  throw new ConfigError('flag/relay', 'the spec file names no relay', {
    hint: 'name the relays of its workers with --relay URL',
  });
};

/** Resolves an id, an address, or the name of a run on this machine. */
export const locateRun = (source: string, options: LocateOptions): Promise<RunLocation> =>
  locateRunPlain(source, { onNotice, ...options });

/** Publishes an event and returns the relays that accept it. Throws a RelayError (`relay/refused`) if none does. */
export async function publishEvent(
  event: SignedEvent,
  what: string,
  { relays, signal }: Pick<RelaySession, 'relays' | 'signal'>,
): Promise<readonly string[]> {
  const outcomes = await relays.publish(event, { signal });
  const accepting = outcomes.filter(({ status }) => status === 'accepted');
  if (accepting.length > 0) return accepting.map(({ relay }) => relay);
  const words = outcomes.map(({ relay, status }) => `${relay}: ${status}`).join('; ');
  throw new RelayError('relay/refused', `no relay accepted the ${what}: ${words}`, {
    hint: 'try again later, or use other relays with --relay URL',
  });
}
