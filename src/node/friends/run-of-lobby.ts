/** Finds the run that started in a lobby, for programs that only read it. */
import { RelayError } from '../../base/errors.ts';
import type { Invitation } from '../../friends/line.ts';
import { lobbyFilters, readLobby } from '../../friends/lobby.ts';
import type { RunLocation } from '../join/find-run.ts';
import { type RelayReach, withRelays } from '../net/relays.ts';
import { unknownLobby } from './in-lobby.ts';

/** Time for the relays to send the lobby. */
const FIND_MS = 10_000;

/**
 * Returns the run of a lobby. Throws a RelayError if its relays lack the lobby (`lobby/unknown`) or the run has not
 * started (`lobby/waiting`).
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
