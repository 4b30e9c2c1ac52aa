/** Stakes of the registry contract: its events, checked against one storage proof of the rolling hash; see docs/stake.md. */
import { ChainError } from '../../base/errors.ts';
import { stakeParams } from '../../run/stake-json.ts';
import type { StakeRow } from '../../run/stake-snapshot.ts';
import { heightOf, type SnapshotSchedule, type StakeSource } from '../../run/stake-source.ts';
import { assertEnough, firstProved } from '../agree.ts';
import type { Endpoint } from '../json-rpc.ts';
import { assertChain, blockId, type ChainAccess, headerAt, waitFinal } from './blocks.ts';
import type { Header } from './header.ts';
import { toData } from './hex.ts';
import { readLogs } from './logs.ts';
import { readStorageProof, slotKey } from './proof.ts';
import { type Accumulator, CHANGED, registryRows } from './registry-table.ts';

export interface RegistryPlace {
  /** 20 bytes. */
  readonly contract: Uint8Array;
  /** Block from which events are read: not after the contract's own. */
  readonly from: number;
}

/** The registry as a source. Needs k endpoints for headers, and one of them that serves all events and a recent proof. */
export function createRegistrySource(
  access: ChainAccess,
  { contract, from }: RegistryPlace,
  schedule: SnapshotSchedule,
): StakeSource {
  assertEnough(access.endpoints);
  const address = toData(contract);
  return {
    name: `registry ${address} on ${access.chain}`,
    async snapshot(epoch, signal) {
      const height = heightOf(schedule, epoch);
      await assertChain(access, signal);
      const final = await waitFinal(access, height, signal);
      const header = await headerAt(access, height, signal);
      // the newest final block: nodes forget the state of older ones, and its proof covers those too
      const anchor = final === height ? header : await headerAt(access, final, signal);
      const rows = await firstProved(
        access.endpoints,
        `the table of registry ${address} at block ${height}`,
        (endpoint) => provedRows(endpoint, { contract, from }, { anchor, height }, signal),
        'name an endpoint with --rpc that serves eth_getProof at the newest final block and all events',
      );
      return {
        ...{ chain: access.chain, strategy: 'registry' },
        params: stakeParams({ contract: address, from }),
        ...{ height, blockHash: header.hash, unit: 'wei', rows },
      };
    },
  };
}

async function provedRows(
  endpoint: Endpoint,
  { contract, from }: RegistryPlace,
  { anchor, height }: { readonly anchor: Header; readonly height: number },
  signal: AbortSignal,
): Promise<readonly StakeRow[]> {
  const accumulator = await readAccumulator(endpoint, contract, anchor, signal);
  const query = { address: toData(contract), topic: CHANGED, from, to: anchor.number };
  const rows = registryRows(await readLogs(endpoint, query, signal), accumulator, height);
  if (rows.ok) return rows.value;
  throw new ChainError('chain/unproved', `${endpoint.name}: ${rows.issue.message}`);
}

async function readAccumulator(
  endpoint: Endpoint,
  contract: Uint8Array,
  anchor: Header,
  signal: AbortSignal,
): Promise<Accumulator> {
  const keys = [slotKey(0n), slotKey(1n)];
  const params = [toData(contract), keys.map(toData), blockId(anchor)];
  const answer = await endpoint.call('eth_getProof', params, signal);
  const values = readStorageProof(answer, anchor.stateRoot, contract, keys);
  if (!values.ok)
    throw new ChainError('chain/unproved', `${endpoint.name}: ${values.issue.message}`);
  const [rollingHash, sequence] = values.value;
  return { rollingHash: rollingHash!, sequence: sequence! };
}
