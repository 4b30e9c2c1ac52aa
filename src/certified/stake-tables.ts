/** Tables of stakes for a worker of a run: from the file it was given, from relays, and the next ones from their chain. */
import { readFile } from 'node:fs/promises';
import type { ChainAccess } from '../chain/evm/blocks.ts';
import { createEventSource, createFileSource } from '../chain/fixed-sources.ts';
import { sourceOf } from '../chain/rederive.ts';
import { findOver, publishOver } from '../cli/stake/events.ts';
import type { Digest } from '../run/ids.ts';
import type { RunSpec } from '../run/run-spec.ts';
import { type StakeSnapshot, snapshotId } from '../run/stake-snapshot.ts';
import { heightOf } from '../run/stake-source.ts';
import { successorOf } from '../run/stake-successor.ts';
import type { RefreshPort } from './refresh.ts';

export interface StakeOptions {
  /** File of a stake snapshot; what is not in it is asked of relays. */
  readonly stakeFile?: string | undefined;
  /** How this worker reaches the chain of the stakes; absent where it does not. */
  readonly chain?: Omit<ChainAccess, 'chain'> | undefined;
}

export function createRefreshPort(
  { stake }: RunSpec,
  { stakeFile, chain }: StakeOptions,
  relays: readonly string[],
  signal: AbortSignal,
): RefreshPort {
  const find = (id: Digest) => snapshotOf(id, stakeFile, relays, signal);
  const port: RefreshPort = {
    find,
    publish: (snapshot) => publishOver(relays, snapshot, signal),
  };
  if (stake.source !== 'evm' || stake.every === 0 || chain === undefined) return port;
  const { snapshot: first, period } = stake;
  let founding: StakeSnapshot | undefined;
  return {
    ...port,
    async derive(epoch, roster) {
      founding ??= await find(first);
      const schedule = { base: founding.height, period };
      const { keys, params } = successorOf(founding, heightOf(schedule, epoch), roster);
      const source = sourceOf({ ...founding, params }, { access: chain, keys, schedule });
      return source.snapshot(epoch, signal);
    },
  };
}

/** The document of that id, whoever has it: its bytes are its name. */
async function snapshotOf(
  id: Digest,
  file: string | undefined,
  relays: readonly string[],
  signal: AbortSignal,
): Promise<StakeSnapshot> {
  if (file !== undefined) {
    const given = await createFileSource(file, await readFile(file, 'utf8')).snapshot(0, signal);
    if (snapshotId(given) === id) return given;
  }
  return createEventSource(id, findOver(relays)).snapshot(0, signal);
}
