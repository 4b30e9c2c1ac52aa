/** A person in a lobby, who follows it over the relays of its line. */
import { type Scope, systemClock } from '../../base/async.ts';
import { RelayError } from '../../base/errors.ts';
import { encodeRunAddress } from '../../certified/wire/runs.ts';
import type { Invitation } from '../../friends/line.ts';
import { lobbyFilters, readLobby } from '../../friends/lobby.ts';
import { OpenLobby } from '../../friends/open-lobby.ts';
import type { Signer } from '../../network/event.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import type { Digest } from '../../run/ids.ts';
import type { RunLocation } from '../join/find-run.ts';
import { type Connection, connectRelays, type RelayReach, withRelays } from '../net/relays.ts';

/** A person in a lobby, with open connections to its relays. */
export interface InLobby {
  readonly invitation: Invitation;
  readonly lobby: OpenLobby;
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly signal: AbortSignal;
}

export interface Entrance extends Pick<InLobby, 'signer' | 'signal'> {
  /** What others call this person. */
  readonly name: string | undefined;
  readonly connection: Connection;
  readonly scope: Scope;
}

/** Connects to the relays of a lobby and follows it until the scope ends. Throws a RelayError if no relay answers. */
export async function enterLobby(
  invitation: Invitation,
  { name, connection, signer, signal, scope }: Entrance,
): Promise<InLobby> {
  const relays = await connectRelays(invitation.relays, connection, signer, signal);
  scope.defer(() => relays.close());
  const lobby = new OpenLobby(invitation, { relays, signer, clock: systemClock, signal }, name);
  scope.defer(() => lobby.close());
  return { invitation, lobby, relays, signer, signal };
}

/** Returns the address by which the people of a lobby join its run. */
export const addressIn = ({ invitation: { host } }: Pick<InLobby, 'invitation'>, run: Digest) =>
  encodeRunAddress({ run, author: host, relays: [] });

/** Returns the error for a line whose relays answer without its lobby. */
export const unknownLobby = (): RelayError =>
  new RelayError('lobby/unknown', 'the relays of this line have no such lobby', {
    hint: 'ask the host for a new line: this one is outdated, or the host has not started yet',
  });

/** Time for the relays to send the lobby. */
const FIND_MS = 10_000;

/**
 * Returns the run that started in a lobby. Throws a RelayError if the relays do not have the lobby (`lobby/unknown`) or
 * the run has not started (`lobby/waiting`).
 */
export const runOfLobby = (
  { host, name, relays: urls }: Invitation,
  reach: RelayReach,
): Promise<RunLocation> =>
  withRelays(urls, reach, async ({ relays, signal }) => {
    const { events } = await relays.query(lobbyFilters({ host, name }), {
      waitMs: FIND_MS,
      signal,
    });
    const lobbies = events
      .map(readLobby)
      .flatMap((lobby) => (lobby.ok && lobby.value.value.host === host ? [lobby.value] : []))
      .filter(({ value }) => value.name === name)
      .sort((a, b) => b.createdAt - a.createdAt);
    const [newest] = lobbies;
    if (newest === undefined) throw unknownLobby();
    const { run } = newest.value;
    if (run !== undefined) return { run, relays: urls, publicOnly: false };
    throw new RelayError('lobby/waiting', `the run of the lobby ${name} has not started`, {
      hint: 'try again after its start, or take part: nostrain join LINE',
    });
  });
