/** Using a registry from an account that the endpoint itself signs for, as local chains do: deploy, bond, exit, withdraw. */

import { fromHex } from '../../base/bytes.ts';
import type { Clock } from '../../base/clock.ts';
import { ChainError } from '../../base/errors.ts';
import type { WorkerId } from '../../run/ids.ts';
import { callData, encodeWords } from '../evm/abi.ts';
import { dataOf, numberOf, toData } from '../evm/hex.ts';
import type { Endpoint } from '../json-rpc.ts';
import { slashingRegistry } from './slashing-registry.ts';
import { stakeRegistry } from './stake-registry.ts';

export interface Sender {
  readonly endpoint: Endpoint;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export interface Transaction {
  /** An account the endpoint holds the key of. */
  readonly from: string;
  readonly to?: string;
  readonly data?: string;
  readonly value?: bigint;
}

export interface Receipt {
  readonly block: number;
  readonly gas: number;
  readonly contract: string | undefined;
}

const RECEIPT_MS = 30_000;
const POLL_MS = 20;

/** Sends and waits for the receipt; throws `chain/reverted` when the transaction failed. */
export async function sendTransaction(
  { endpoint, clock, signal }: Sender,
  { from, to, data, value }: Transaction,
): Promise<Receipt> {
  const request = {
    from,
    to,
    data,
    value: value === undefined ? undefined : `0x${value.toString(16)}`,
  };
  const hash = await endpoint.call('eth_sendTransaction', [request], signal);
  for (const deadline = clock.now() + RECEIPT_MS; ; await clock.sleep(POLL_MS, signal)) {
    const receipt = await endpoint.call('eth_getTransactionReceipt', [hash], signal);
    if (receipt !== null) return readReceipt(receipt);
    if (clock.now() > deadline)
      throw new ChainError('chain/pending', `${String(hash)} is in no block`);
  }
}

function readReceipt(receipt: unknown): Receipt {
  const said = receipt as Readonly<Record<string, unknown>>;
  const block = numberOf(said.blockNumber);
  if (block === undefined) throw new ChainError('chain/answer', 'a receipt without a block');
  if (said.status !== '0x1') throw new ChainError('chain/reverted', 'the transaction was reverted');
  const contract = dataOf(said.contractAddress, 20);
  const gas = numberOf(said.gasUsed) ?? 0;
  return { block, gas, contract: contract && toData(contract) };
}

/** Accounts the endpoint signs for. */
export async function unlockedAccounts({ endpoint, signal }: Sender): Promise<readonly string[]> {
  const list = await endpoint.call('eth_accounts', [], signal);
  return Array.isArray(list) ? list.map(String) : [];
}

export interface DeployedRegistry {
  readonly contract: Uint8Array;
  /** The block that created it. */
  readonly block: number;
}

/** What a proven fault costs, in thousandths. */
export interface Slashing {
  /** Of all coin behind the key. */
  readonly slashedPermille: number;
  /** Of that, what whoever proves it gets; the rest is burned. */
  readonly reporterPermille: number;
}

/** A new registry; one that punishes proven faults where `slashing` says how. */
export async function deployRegistry(
  sender: Sender,
  from: string,
  unbondingSeconds: bigint,
  slashing?: Slashing,
): Promise<DeployedRegistry> {
  const { bytecode } = slashing === undefined ? stakeRegistry : slashingRegistry;
  const shares = slashing ? [slashing.slashedPermille, slashing.reporterPermille].map(BigInt) : [];
  const data = bytecode + toData(encodeWords(unbondingSeconds, ...shares)).slice(2);
  const { contract, block } = await sendTransaction(sender, { from, data });
  return { contract: dataOf(contract, 20)!, block };
}

/** The transaction that bonds `value` wei for a key. */
export const bondFor = (
  { contract }: DeployedRegistry,
  from: string,
  key: WorkerId,
  value: bigint,
): Transaction => ({ from, to: toData(contract), data: keyCall('bondFor(bytes32)', key), value });

/** The transaction that takes all that `from` bonded for a key out of its stake. */
export const requestExit = (
  { contract }: DeployedRegistry,
  from: string,
  key: WorkerId,
): Transaction => ({
  from,
  to: toData(contract),
  data: keyCall('requestExit(bytes32)', key),
});

/** The transaction that pays out what has unlocked. */
export const withdraw = (
  { contract }: DeployedRegistry,
  from: string,
  key: WorkerId,
): Transaction => ({
  from,
  to: toData(contract),
  data: keyCall('withdraw(bytes32)', key),
});

const keyCall = (signature: string, key: WorkerId): string => callData(signature, fromHex(key)!);
