/**
 * Stakes of a Psyche run from its coordinator account on Solana, version 1 (offsets in docs/stake.md): 1 each, or
 * earned minus slashed points. Solana endpoints give no proofs, so an account is read twice without a change in
 * between, and k endpoints must return the same rows.
 */

import { fromBase64, toHex } from '../../base/bytes.ts';
import { ChainError, ok, type Result, refuse } from '../../base/errors.ts';
import type { WorkerId } from '../../run/ids.ts';
import {
  heightOf,
  MAX_STAKE,
  type SnapshotSchedule,
  type StakeRow,
  type StakeSource,
  stakeParams,
  stakeRows,
} from '../../run/stake/stake-snapshot.ts';
import { agree, assertEnough, type Endpoint } from '../endpoints.ts';
import type { ChainAccess } from '../evm/blocks.ts';
import { linkedKeys, linksHash, type SignedLink } from './links.ts';

const PROGRAM = '4SHugWqSXwKE5fqDchkJcPEqnoZE22VYKtSTVm7axbT7';
const NO_BLOCK = '00'.repeat(32);
const READINGS = 4;

export interface PsycheRun {
  /** Base58 address of the coordinator account. */
  readonly account: string;
  readonly run: string;
  /** Equal stakes, or the points earned minus those slashed. */
  readonly weights: 'equal' | 'earned';
  readonly links: readonly SignedLink[];
  /** Unix seconds at which links must be valid. */
  readonly cutoff: number;
}

/** Returns a Psyche run as a stake source; its heights are the epochs of the run. */
export function createPsycheSource(
  access: ChainAccess,
  target: PsycheRun,
  schedule: SnapshotSchedule,
): StakeSource {
  assertEnough(access.endpoints);
  const { account, run, weights, links, cutoff } = target;
  const { chain } = access;
  const linked = linkedKeys(links, { chain, run, cutoff });
  const params = stakeParams({ account, run, weights, cutoff, links: linksHash(linked) });
  return {
    name: `Psyche run ${run} on ${chain}`,
    async snapshot(epoch, signal) {
      const height = heightOf(schedule, epoch);
      const rows = await rowsAt(access, target, { linked, height }, signal);
      const unit = weights === 'equal' ? 'client' : 'point';
      return { chain, strategy: 'psyche', params, height, blockHash: NO_BLOCK, unit, rows };
    },
  };
}

interface StakeQuery {
  readonly linked: ReadonlyMap<string, WorkerId>;
  readonly height: number;
}

async function rowsAt(
  { endpoints, clock, waitMs, pollMs }: ChainAccess,
  target: PsycheRun,
  { linked, height }: StakeQuery,
  signal: AbortSignal,
): Promise<readonly StakeRow[]> {
  const deadline = clock.now() + waitMs;
  for (;;) {
    const { epoch, rows } = await agree(
      endpoints,
      `the clients of ${target.run}`,
      async (endpoint) => {
        const coordinator = await readTwice(endpoint, target, signal);
        return { epoch: coordinator.epoch, rows: rowsOf(coordinator, target.weights, linked) };
      },
      (reading) =>
        `epoch ${reading.epoch}: ${reading.rows.map(({ key, stake }) => `${key} ${stake}`).join()}`,
    );
    if (epoch === height) return rows;
    const now = `${target.run} is in epoch ${epoch}`;
    if (epoch > height) {
      throw new ChainError(
        'chain/past',
        `${now}; the clients of epoch ${height} can no longer be read`,
        { hint: 'get the snapshot from a member that made it in that epoch' },
      );
    }
    if (clock.now() + pollMs > deadline)
      throw new ChainError('chain/not-final', `${now}, not yet in ${height}`);
    await clock.sleep(pollMs, signal);
  }
}

function rowsOf(
  { clients }: Coordinator,
  weights: PsycheRun['weights'],
  linked: ReadonlyMap<string, WorkerId>,
): readonly StakeRow[] {
  const stakes = new Map<WorkerId, bigint>();
  for (const { signer, earned, slashed } of clients) {
    const key = linked.get(signer);
    if (key === undefined) continue;
    const left = earned > slashed ? earned - slashed : 0n;
    const sum = (stakes.get(key) ?? 0n) + (weights === 'equal' ? 1n : left);
    stakes.set(key, sum > MAX_STAKE ? MAX_STAKE : sum);
  }
  return stakeRows(stakes);
}

/** Reads until two consecutive readings have the same nonce, so that the result is not a mix of two writes. */
async function readTwice(
  endpoint: Endpoint,
  { account, run }: PsycheRun,
  signal: AbortSignal,
): Promise<Coordinator> {
  let before: Coordinator | undefined;
  for (let i = 0; i < READINGS; i++) {
    const now = await readOnce(endpoint, account, signal);
    if (now.runId !== run) {
      throw new ChainError(
        'chain/answer',
        `${endpoint.name}: the account belongs to run ${now.runId}, not ${run}`,
      );
    }
    if (before?.nonce === now.nonce) return now;
    before = now;
  }
  throw new ChainError(
    'chain/answer',
    `${endpoint.name}: the account changes faster than it can be read`,
  );
}

async function readOnce(
  endpoint: Endpoint,
  account: string,
  signal: AbortSignal,
): Promise<Coordinator> {
  const broken = (what: string) => new ChainError('chain/answer', `${endpoint.name}: ${what}`);
  const options = { encoding: 'base64', commitment: 'finalized' };
  const answer = await endpoint.call('getAccountInfo', [account, options], signal);
  const { value } = (answer ?? {}) as { value?: { owner?: unknown; data?: unknown } | null };
  if (value?.owner !== PROGRAM) throw broken(`${account} is not an account of the Psyche program`);
  const text: unknown = Array.isArray(value.data) ? value.data[0] : undefined;
  // check the length before decoding
  const fits = typeof text === 'string' && text.length === 4 * Math.ceil(ACCOUNT_BYTES / 3);
  const bytes = fits ? fromBase64(text) : undefined;
  if (bytes === undefined) throw broken(`the account is not ${ACCOUNT_BYTES} bytes of base64`);
  const read = readCoordinator(bytes);
  if (!read.ok) throw broken(read.issue.message);
  return read.value;
}

export interface CoordinatorClient {
  /** Ed25519 key of the client's Solana account, hex. */
  readonly signer: string;
  readonly earned: bigint;
  readonly slashed: bigint;
}

export interface Coordinator {
  readonly runId: string;
  readonly state: number;
  readonly epoch: number;
  readonly step: number;
  /** Increases with every change of the account. */
  readonly nonce: bigint;
  /** Active clients: those whose `active` equals the account's `next_active`. */
  readonly clients: readonly CoordinatorClient[];
}

const ACCOUNT_BYTES = 119_160;
const DISCRIMINATOR = 'ef21b1372c9b562b';
const VERSION = 1n;
const AT = {
  version: 8,
  runId: 376,
  state: 408,
  epoch: 1032,
  step: 1036,
  clients: 94_424,
  length: 119_000,
  nextActive: 119_008,
  nonce: 119_152,
};
const MOST_CLIENTS = 256;
const CLIENT_BYTES = 96;
const LAST_STATE = 7;

/** Parses the bytes of the account; any other version, length or program is refused. */
export function readCoordinator(bytes: Uint8Array): Result<Coordinator> {
  const broken = (message: string) => refuse('bad-account', 'account', message);
  if (bytes.length !== ACCOUNT_BYTES) return broken(`${bytes.length} bytes, not ${ACCOUNT_BYTES}`);
  if (toHex(bytes.subarray(0, 8)) !== DISCRIMINATOR) return broken('not a coordinator account');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const u64 = (at: number) => view.getBigUint64(at, true);
  if (u64(AT.version) !== VERSION) return broken(`unknown version ${u64(AT.version)}, expected 1`);
  const runId = paddedText(bytes.subarray(AT.runId, AT.runId + 32));
  if (runId === undefined) return broken('the run id is not text');
  const state = bytes[AT.state]!;
  if (state > LAST_STATE) return broken(`run state ${state} is unknown`);
  const length = u64(AT.length);
  if (length > BigInt(MOST_CLIENTS))
    return broken(`${length} clients, the maximum is ${MOST_CLIENTS}`);
  const clients: CoordinatorClient[] = [];
  for (let i = 0; i < Number(length); i++) {
    const at = AT.clients + i * CLIENT_BYTES;
    if (u64(at + 88) !== u64(AT.nextActive)) continue;
    const signer = toHex(bytes.subarray(at, at + 32));
    clients.push({ signer, earned: u64(at + 72), slashed: u64(at + 80) });
  }
  if (new Set(clients.map(({ signer }) => signer)).size < clients.length) {
    return broken('a client is listed twice');
  }
  return ok({
    runId,
    state,
    clients,
    nonce: u64(AT.nonce),
    epoch: view.getUint16(AT.epoch, true),
    step: view.getUint32(AT.step, true),
  });
}

/** Returns printable ASCII followed only by zeros; undefined for anything else. */
function paddedText(bytes: Uint8Array): string | undefined {
  const text = String.fromCharCode(...bytes).replace(/\0+$/, '');
  return /^[\x21-\x7e]+$/.test(text) ? text : undefined;
}
