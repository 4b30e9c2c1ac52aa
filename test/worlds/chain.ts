/** A simulated chain: its blocks are beacons, and its balances are stakes. Every other worker can read it. */
import { type Clock, sha256Hex, utf8 } from 'nostrain/base';
import type { RefreshPort } from 'nostrain/certified';
import {
  type Digest,
  type RunSpec,
  type StakeSnapshot,
  snapshotId,
  stakeOf,
  stakeRows,
} from 'nostrain/run';
import { keyOf } from '../support/swarm.ts';
import type { Chronicle } from './chronicle.ts';

/** Keys with a balance; more than a world has workers. */
const KEYS = 48;
const BASE_HEIGHT = 1000;
/** Blocks from one table of stakes to the next. */
export const STAKE_PERIOD = 30;

/** Returns the table of an epoch. A stake is at most a tenth above another. */
function tableOf(epoch: number): StakeSnapshot {
  const height = BASE_HEIGHT + epoch * STAKE_PERIOD;
  const stakes = Array.from(
    { length: KEYS },
    (_, i) => [keyOf(i), BigInt(100 + ((7 * i + 3 * epoch) % 11))] as const,
  );
  return {
    ...{ chain: 'eip155:1', strategy: 'registry', params: '{"contract":"0x00","from":1}' },
    ...{ height, blockHash: sha256Hex(utf8(`block ${height}`)), unit: 'wei' },
    rows: stakeRows(stakes),
  };
}

/** Id of the table that runs start with. */
export const firstTable = (): Digest => snapshotId(tableOf(0));

const valueAfter = ({ beacon }: RunSpec, time: number): Digest =>
  sha256Hex(utf8(`block after ${time + (beacon.kind === 'none' ? 0 : beacon.lagSeconds)}`));

export class SimulatedChain {
  readonly #spec: RunSpec;
  readonly #clock: Clock;
  /** Tables that workers published, by id. */
  readonly #published: Map<Digest, StakeSnapshot>;

  constructor(spec: RunSpec, clock: Clock) {
    this.#spec = spec;
    this.#clock = clock;
    this.#published = new Map([[firstTable(), tableOf(0)]]);
  }

  /** Returns the value after an outcome of this time (Unix seconds). Rejects before that block. */
  async beaconAfter(time: number): Promise<Digest> {
    const { beacon } = this.#spec;
    const dueMs = 1000 * (time + (beacon.kind === 'none' ? 0 : beacon.lagSeconds));
    if (this.#clock.now() < dueMs) throw new Error('the block of this time is still to come');
    return valueAfter(this.#spec, time);
  }

  /** Returns how a worker gets tables: from the chain if its number is even, else from workers that publish them. */
  stakesFor(worker: number): RefreshPort {
    const published = this.#published;
    return {
      ...(worker % 2 === 0 && { derive: async (epoch: number) => tableOf(epoch) }),
      async find(id) {
        const found = published.get(id);
        if (!found) throw new Error(`no worker has published table ${id}`);
        return found;
      },
      publish: async (snapshot) => void published.set(snapshotId(snapshot), snapshot),
    };
  }
}

/** Returns what a replay needs from the chain: beacon values by time of the outcome before, and tables by id. */
export function chainRecords({ spec, outcomes, world }: Chronicle) {
  const tables = Array.from({ length: world.rounds + 1 }, (_, epoch) => tableOf(epoch));
  const times = [...outcomes.values()].map(({ time }) => time);
  return {
    ...(spec.beacon.kind !== 'none' && {
      beacons: new Map(times.map((time) => [time, valueAfter(spec, time)])),
    }),
    ...(spec.stake.source !== 'none' && {
      tables: new Map(tables.map((table) => [snapshotId(table), stakeOf(table)])),
    }),
  };
}
