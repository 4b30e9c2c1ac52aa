/** Stake tables for a worker on this machine: from a document it was given, from relays, and the next ones from their chain. */
import type { RefreshPort } from '../../certified/refresh.ts';
import { deriveNext } from '../../certified/refresh.ts';
import { createEventSource } from '../../chain/event-source.ts';
import type { ChainAccess } from '../../chain/evm/blocks.ts';
import { sourceOf } from '../../chain/rederive.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { RunSpec } from '../../run/run-spec.ts';
import { parseStakeJson } from '../../run/stake-json.ts';
import { type StakeSnapshot, snapshotId, stakeOf } from '../../run/stake-snapshot.ts';
import { orRefuse, readText } from './files.ts';
import { findOver, publishOver } from './stake-events.ts';

export interface StakeOptions {
  /** A table that somebody handed over; others are asked of relays. */
  readonly given?: StakeSnapshot | undefined;
  /** How this worker reaches the chain of the stakes; absent where it does not. */
  readonly chain?: Omit<ChainAccess, 'chain'> | undefined;
}

/** The document of `--stake FILE`. */
export const readStakeFile = async (
  file: string | undefined,
): Promise<StakeSnapshot | undefined> =>
  file === undefined ? undefined : orRefuse(file, parseStakeJson(await readText(file)));

/** Stakes by key, by the id of the table. */
export const tablesOf = (
  given: StakeSnapshot | undefined,
): ReadonlyMap<Digest, ReadonlyMap<WorkerId, bigint>> =>
  new Map(given ? [[snapshotId(given), stakeOf(given)]] : []);

export function createRefreshPort(
  spec: RunSpec,
  { given, chain: access }: StakeOptions,
  relays: readonly string[],
  signal: AbortSignal,
): RefreshPort {
  const find = async (id: Digest): Promise<StakeSnapshot> =>
    given !== undefined && snapshotId(given) === id
      ? given
      : createEventSource(id, findOver(relays)).snapshot(0, signal);
  const port: RefreshPort = {
    find,
    publish: (snapshot) => publishOver(relays, snapshot, signal),
  };
  if (access === undefined) return port;
  const derive = deriveNext(spec, find, (document, { epoch, ...how }) =>
    sourceOf(document, { access, ...how }).snapshot(epoch, signal),
  );
  return derive ? { ...port, derive } : port;
}
