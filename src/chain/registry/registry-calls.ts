/** Registry transactions from an account that the endpoint signs for: deploy, bond, exit, withdraw, slash. */

import type { Clock } from '../../base/async.ts';
import { fromHex, isHex32, utf8 } from '../../base/bytes.ts';
import {
  canonicalJson,
  isJsonObject,
  type Json,
  type JsonObject,
  jsonIn,
} from '../../base/canonical-json.ts';
import { ChainError } from '../../base/errors.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { Endpoint } from '../endpoints.ts';
import {
  callData,
  type Dynamic,
  dataOf,
  dynamicBytes,
  encodeWords,
  numberOf,
  toData,
} from '../evm/encoding.ts';
import { slashingRegistry } from './slashing-registry.ts';
import { stakeRegistry } from './stake-registry.ts';

export interface Sender {
  readonly endpoint: Endpoint;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export interface Transaction {
  /** An account whose key the endpoint holds. */
  readonly from: string;
  readonly to?: string;
  readonly data?: string;
  readonly value?: bigint | undefined;
}

export interface TransactionReceipt {
  readonly block: number;
  readonly gas: number;
  readonly contract: string | undefined;
}

const RECEIPT_MS = 30_000;
const POLL_MS = 20;

/**
 * Sends a transaction and waits for its receipt. Throws `chain/reverted` if it failed, `chain/pending` after
 * RECEIPT_MS.
 */
export async function sendTransaction(
  { endpoint, clock, signal }: Sender,
  { from, to, data, value }: Transaction,
): Promise<TransactionReceipt> {
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
      throw new ChainError('chain/pending', `${String(hash)} is not in a block yet`);
  }
}

function readReceipt(receipt: unknown): TransactionReceipt {
  const fields = receipt as Readonly<Record<string, unknown>>;
  const block = numberOf(fields.blockNumber);
  if (block === undefined) throw new ChainError('chain/answer', 'the receipt has no block');
  if (fields.status !== '0x1')
    throw new ChainError('chain/reverted', 'the transaction was reverted');
  const contract = dataOf(fields.contractAddress, 20);
  const gas = numberOf(fields.gasUsed) ?? 0;
  return { block, gas, contract: contract && toData(contract) };
}

export async function unlockedAccounts({ endpoint, signal }: Sender): Promise<readonly string[]> {
  const list = await endpoint.call('eth_accounts', [], signal);
  return Array.isArray(list) ? list.map(String) : [];
}

/** A deployed stake registry: its address, and the block of its deployment. */
export interface DeployedRegistry {
  readonly contract: Uint8Array;
  readonly block: number;
}

export interface Slashing {
  /** Share of all stake behind the key, in thousandths. */
  readonly slashedPermille: number;
  /** Share of the slashed stake that goes to the reporter, in thousandths; the rest is burned. */
  readonly reporterPermille: number;
}

/** Deploys a registry; with `slashing`, one that slashes proven faults. */
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

/** Returns a builder of transactions in which `from` calls this registry function for a key; `value` is in wei. */
const keyCall =
  (signature: string) =>
  ({ contract }: DeployedRegistry, from: string, key: WorkerId, value?: bigint): Transaction => ({
    from,
    to: toData(contract),
    data: callData(signature, fromHex(key)!),
    value,
  });

/** Bonds `value` for a key. */
export const bondFor = keyCall('bondFor(bytes32)');
/** Removes everything that `from` bonded for a key from its stake. */
export const requestExit = keyCall('requestExit(bytes32)');
/** Pays out the stake that has unlocked. */
export const withdraw = keyCall('withdraw(bytes32)');

const STATEMENT =
  '(uint8,uint64,uint64,uint64,uint64,bytes32,uint64,uint64,uint64,int64,' +
  'bytes32,bytes32,bytes32,bytes,bytes,bytes,uint256,uint256)';
const SLASH = `slash(bytes32,${STATEMENT},${STATEMENT})`;

/**
 * Message forms of the contract. `texts` lists the members passed as text: before, between and after those it decodes.
 */
const FORMS = {
  prepare: { form: 0n, texts: [[], [], []] },
  commit: { form: 1n, texts: [['features'], ['unlisted'], []] },
  proposal: { form: 2n, texts: [['ballots', 'body', 'bytes'], ['prepares', 'root'], []] },
  ballot: {
    form: 3n,
    texts: [
      ['preparedAttempt', 'preparedDigest', 'preparedProposal', 'preparedView', 'prepares'],
      [],
      [],
    ],
  },
  manifest: {
    form: 4n,
    texts: [
      ['base', 'bytes', 'codec', 'examples', 'features', 'hash', 'need'],
      ['payload', 'prev', 'root', 'roster'],
      ['shards', 'steps'],
    ],
  },
} as const;

type Form = (typeof FORMS)[keyof typeof FORMS];

/**
 * Returns the transaction that proves two contradicting events of one key; undefined if the contract cannot check one
 * of them.
 */
export function slashCall(
  { contract }: Pick<DeployedRegistry, 'contract'>,
  from: string,
  [first, second]: readonly [SignedEvent, SignedEvent],
): Transaction | undefined {
  const [a, b] = [statementOf(first), statementOf(second)];
  const key = fromHex(first.pubkey);
  if (!a || !b || !key || first.pubkey !== second.pubkey) return undefined;
  return { from, to: toData(contract), data: callData(SLASH, key, a, b) };
}

function statementOf({ kind, created_at, tags, content, sig }: SignedEvent): Dynamic | undefined {
  const fields = objectOf(content);
  if (fields === undefined) return undefined;
  const form = formOf(kind, fields);
  if (form === undefined) return undefined;
  const [nonce, work] = tagOf(tags, 'nonce');
  const [inner, middle, end] = form.texts.map((names) => membersOf(fields, names));
  const { run, round, attempt, view, justify = 0, parent, ctx, root, digest = root } = fields;
  const words = [
    form.form,
    count(created_at),
    count(tagOf(tags, 'expiration')[0]),
    count(nonce),
    count(work),
    hex(run),
    count(round),
    count(attempt),
    count(view),
    justify === -1 ? MINUS_ONE : count(justify),
    hex(parent),
    hex(ctx),
    hex(digest),
  ];
  const texts = [inner!, middle!, end!.slice(0, -1)].map((text) => dynamicBytes(utf8(text)));
  const all = [...words, ...texts, fromHex(sig.slice(0, 64)), fromHex(sig.slice(64))];
  const known = all.filter((each) => each !== undefined);
  return known.length === all.length ? { encoded: encodeWords(...known) } : undefined;
}

const MINUS_ONE = 2n ** 256n - 1n;

/** Returns a number that fits the contract's type; 0 if the value is absent. */
const count = (value: Json | undefined = 0): bigint | undefined =>
  /^\d{1,19}$/.test(String(value)) ? BigInt(String(value)) : undefined;

const NOTHING = '00'.repeat(32);

/** Returns 32 bytes; zeros if the value is absent. */
const hex = (value: Json | undefined = NOTHING): Uint8Array | undefined =>
  typeof value === 'string' && isHex32(value) ? fromHex(value) : undefined;

function objectOf(content: string): JsonObject | undefined {
  const json = jsonIn(content) as Json | undefined;
  return isJsonObject(json) ? json : undefined;
}

function formOf(kind: number, { step, type }: JsonObject): Form | undefined {
  if (kind === 7810) return FORMS.manifest;
  if (kind === 7813) return step === 'commit' ? FORMS.commit : FORMS.prepare;
  if (kind === 7814) return FORMS.proposal;
  return kind === 7818 && type === 'ballot' ? FORMS.ballot : undefined;
}

const tagOf = (tags: SignedEvent['tags'], name: string): readonly string[] =>
  tags.find(([each]) => each === name)?.slice(1) ?? [];

/** Returns members as in the serialized event, with escaped quotes; each is followed by a comma. */
function membersOf(fields: JsonObject, names: readonly string[]): string {
  const text = names
    .filter((name) => fields[name] !== undefined)
    .map((name) => `${JSON.stringify(name)}:${canonicalJson(fields[name]!)},`)
    .join('');
  return JSON.stringify(text).slice(1, -1);
}
