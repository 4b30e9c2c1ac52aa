/**
 * Stake snapshot: the table of stakes by key at one block, in canonical bytes; its id is their SHA-256. How the stakes
 * are obtained and proved is up to the source; see docs/stake.md.
 */
import { concatBytes, fromHex, isHex32, toHex, utf8 } from '../../base/bytes.ts';
import {
  canonicalize,
  canonicalJson,
  isJsonObject,
  type Json,
  parseJson,
} from '../../base/canonical-json.ts';
import { ok, type Result, refuse, safeJson } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import type { Digest, WorkerId } from '../ids.ts';

export interface StakeRow {
  readonly key: WorkerId;
  /** From 1 to 2^128 - 1, in the snapshot's unit. */
  readonly stake: bigint;
}

/** Stakes by key at one block of a chain, or from a file. */
export interface StakeSnapshot {
  /** CAIP-2 chain id, such as `eip155:1`; `nostrain:file` for stakes that are not from a chain. */
  readonly chain: string;
  /** How stakes are obtained: `file`, `registry`, `erc20`, `erc5805`, `psyche`. */
  readonly strategy: string;
  /** Canonical JSON text of the parameters that the strategy needs to derive the same stakes again. */
  readonly params: string;
  readonly height: number;
  readonly blockHash: string;
  /** Unit of the stakes, such as `wei`. */
  readonly unit: string;
  /** Strictly ascending by key. */
  readonly rows: readonly StakeRow[];
}

/** First bytes of every snapshot; the version is its last part. */
const TAG = utf8('nostrain/stake/1');
/** Maximum number of rows: 128 Ki, which is 6 MiB. */
export const MAX_STAKE_ROWS = 131_072;
const MAX_PARAMS_BYTES = 4096;
export const MAX_STAKE = 2n ** 128n - 1n;
const ROW_BYTES = 48;
/** Maximum size of the canonical bytes; larger input is refused before it is parsed. */
export const MAX_SNAPSHOT_BYTES = 8192 + MAX_STAKE_ROWS * ROW_BYTES;

const CHAIN = /^[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}$/;
const WORD = /^[a-z0-9][a-z0-9-]{0,31}$/;
const UNIT = /^[\x21-\x7e]{1,32}$/;
const PRINTABLE = /^[\x20-\x7e]*$/;

const isCanonicalObject = (text: string): boolean => {
  if (!PRINTABLE.test(text) || !text.startsWith('{')) return false;
  const canonical = canonicalize(text);
  return canonical.ok && canonical.value === text;
};

/** Returns why a snapshot is invalid; undefined if it is valid. Every field has exactly one accepted form. */
export function snapshotIssue(
  snapshot: StakeSnapshot,
): { at: string; message: string } | undefined {
  const { chain, strategy, params, height, blockHash, unit, rows } = snapshot;
  const at = (field: string, message: string) => ({ at: field, message: `${field} ${message}` });
  if (!CHAIN.test(chain)) return at('chain', 'is not a CAIP-2 chain like eip155:1');
  if (!WORD.test(strategy)) return at('strategy', 'is not 1..32 of a-z, 0-9 and -');
  if (params.length > MAX_PARAMS_BYTES) return at('params', `is over ${MAX_PARAMS_BYTES} bytes`);
  if (!isCanonicalObject(params)) return at('params', 'is not a canonical JSON object in ASCII');
  if (!Number.isSafeInteger(height) || height < 0) return at('height', 'is not a block number');
  if (!isHex32(blockHash)) return at('blockHash', 'is not 64 lowercase hex digits');
  if (!UNIT.test(unit)) return at('unit', 'is not 1..32 printable characters without spaces');
  if (rows.length > MAX_STAKE_ROWS) return at('rows', `are more than ${MAX_STAKE_ROWS}`);
  for (const [i, { key, stake }] of rows.entries()) {
    if (!isHex32(key)) return at(`rows.${i}.key`, 'is not 64 lowercase hex digits');
    if (stake < 1n || stake > MAX_STAKE) return at(`rows.${i}.stake`, 'is not from 1 to 2^128 - 1');
    if (i > 0 && key <= rows[i - 1]!.key) return at(`rows.${i}.key`, 'is not above the one before');
  }
  return undefined;
}

/** Returns the canonical bytes. Throws a RangeError if the snapshot is invalid. */
export function snapshotBytes(snapshot: StakeSnapshot): Uint8Array {
  const issue = snapshotIssue(snapshot);
  if (issue !== undefined) throw new RangeError(issue.message);
  const { chain, strategy, params, height, blockHash, unit, rows } = snapshot;
  const table = new Uint8Array(4 + rows.length * ROW_BYTES);
  const view = new DataView(table.buffer);
  view.setUint32(0, rows.length);
  rows.forEach(({ key, stake }, i) => {
    const at = 4 + i * ROW_BYTES;
    table.set(fromHex(key)!, at);
    view.setBigUint64(at + 32, stake >> 64n);
    view.setBigUint64(at + 40, stake & 0xffff_ffff_ffff_ffffn);
  });
  const words = [chain, strategy, params].map(prefixed);
  return concatBytes(TAG, ...words, u64(height), fromHex(blockHash)!, prefixed(unit), table);
}

/** Returns SHA-256 of the canonical bytes, by which a run spec and an outcome refer to the snapshot. */
export const snapshotId = (snapshot: StakeSnapshot): Digest => sha256Hex(snapshotBytes(snapshot));

/** Parses untrusted canonical bytes. Never throws, and refuses any other encoding. */
export function decodeSnapshot(bytes: Uint8Array): Result<StakeSnapshot> {
  const broken = (message: string) => refuse('bad-snapshot', 'snapshot', message);
  if (bytes.length > MAX_SNAPSHOT_BYTES) return broken(`longer than ${MAX_SNAPSHOT_BYTES} bytes`);
  if (!TAG.every((byte, i) => bytes[i] === byte))
    return broken('does not start as a snapshot of version 1');
  const cursor: Cursor = { bytes, at: TAG.length };
  const [chain, strategy, params] = [readText(cursor), readText(cursor), readText(cursor)];
  const height = take(cursor, 8);
  const blockHash = take(cursor, 32);
  const unit = readText(cursor);
  const count = take(cursor, 4);
  if (chain === undefined || strategy === undefined || params === undefined || unit === undefined) {
    return broken('a text ends too early');
  }
  if (height === undefined || blockHash === undefined || count === undefined) {
    return broken('ends before its rows');
  }
  const rowCount = viewOf(count).getUint32(0);
  if (bytes.length - cursor.at !== rowCount * ROW_BYTES)
    return broken(`has not exactly ${rowCount} rows`);
  const snapshot: StakeSnapshot = {
    chain,
    strategy,
    params,
    unit,
    height: Number(viewOf(height).getBigUint64(0)),
    blockHash: toHex(blockHash),
    rows: Array.from({ length: rowCount }, () => readRow(cursor)),
  };
  const issue = snapshotIssue(snapshot);
  return issue === undefined ? ok(snapshot) : refuse('bad-snapshot', issue.at, issue.message);
}

/** Returns stake by key. */
export const stakeOf = (snapshot: StakeSnapshot): ReadonlyMap<WorkerId, bigint> =>
  new Map(snapshot.rows.map(({ key, stake }) => [key, stake]));

/** Returns the sum of all stakes. */
export const totalStake = (snapshot: StakeSnapshot): bigint =>
  snapshot.rows.reduce((sum, { stake }) => sum + stake, 0n);

/** Returns rows from stakes in any order: ascending by key, without zero stakes. */
export const stakeRows = (stakes: Iterable<readonly [WorkerId, bigint]>): readonly StakeRow[] =>
  [...stakes]
    .filter(([, stake]) => stake > 0n)
    .map(([key, stake]) => ({ key, stake }))
    .sort((a, b) => (a.key < b.key ? -1 : 1));

interface Cursor {
  readonly bytes: Uint8Array;
  at: number;
}

function take(cursor: Cursor, length: number): Uint8Array | undefined {
  const end = cursor.at + length;
  if (end > cursor.bytes.length) return undefined;
  const part = cursor.bytes.subarray(cursor.at, end);
  cursor.at = end;
  return part;
}

/** Reads a text with its length in front. Non-ASCII bytes become characters that no field accepts. */
function readText(cursor: Cursor): string | undefined {
  const length = take(cursor, 4);
  if (length === undefined) return undefined;
  const size = viewOf(length).getUint32(0);
  const bytes = size > MAX_PARAMS_BYTES ? undefined : take(cursor, size);
  return bytes && String.fromCharCode(...bytes);
}

function readRow(cursor: Cursor): StakeRow {
  const bytes = take(cursor, ROW_BYTES)!;
  const view = viewOf(bytes);
  return {
    key: toHex(bytes.subarray(0, 32)),
    stake: (view.getBigUint64(32) << 64n) | view.getBigUint64(40),
  };
}

const viewOf = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

function prefixed(text: string): Uint8Array {
  const bytes = utf8(text);
  const length = new Uint8Array(4);
  viewOf(length).setUint32(0, bytes.length);
  return concatBytes(length, bytes);
}

function u64(value: number): Uint8Array {
  const out = new Uint8Array(8);
  viewOf(out).setBigUint64(0, BigInt(value));
  return out;
}

/** The first field in which two snapshots differ, with both values. */
export interface StakeDifference {
  /** Path such as `height` or `rows.<key>`. */
  readonly field: string;
  readonly one: string;
  readonly other: string;
}

const FIELDS = ['chain', 'strategy', 'params', 'height', 'blockHash', 'unit'] as const;

/** Returns the first difference between two snapshots, in hashing order; undefined if they are equal. */
export function stakeDifference(
  one: StakeSnapshot,
  other: StakeSnapshot,
): StakeDifference | undefined {
  const field = FIELDS.find((name) => one[name] !== other[name]);
  if (field !== undefined) return { field, one: String(one[field]), other: String(other[field]) };
  for (let i = 0; i < Math.max(one.rows.length, other.rows.length); i++) {
    const [a, b] = [one.rows[i], other.rows[i]];
    if (a?.key === b?.key && a?.stake === b?.stake) continue;
    // of two keys the lower one is missing on the other side
    const key = a === undefined || (b !== undefined && b.key < a.key) ? b!.key : a.key;
    const stakeOn = (row: typeof a) => (row?.key === key ? String(row.stake) : 'nothing');
    return { field: `rows.${key}`, one: stakeOn(a), other: stakeOn(b) };
  }
  return undefined;
}

export interface StakeSource {
  /** Name for messages, such as `file stakes.json` or `registry 0x… on eip155:1`. */
  readonly name: string;
  /**
   * Returns the snapshot of an epoch. A chain reads it at block base + epoch * period and waits until that block is
   * final; a source without a chain only has epoch 0. Throws a ChainError if the snapshot is not available, and never
   * returns unverified stakes.
   */
  snapshot(epoch: number, signal: AbortSignal): Promise<StakeSnapshot>;
}

/** The blocks at which a run reads stakes. */
export interface SnapshotSchedule {
  /** Height of epoch 0. */
  readonly base: number;
  /** Blocks from one epoch to the next. */
  readonly period: number;
}

/** Returns the height of an epoch by arithmetic, so that no participant can choose it. */
export function heightOf({ base, period }: SnapshotSchedule, epoch: number): number {
  const height = base + epoch * period;
  if (Number.isSafeInteger(height) && height >= 0) return height;
  throw new RangeError(`epoch ${epoch} has no height`);
}

/** Strategies that read the stakes of a list of keys. */
const LISTED: readonly string[] = ['erc20', 'erc5805'];

/** The fields of a later snapshot that are known without access to the chain. */
export interface Successor
  extends Pick<StakeSnapshot, 'chain' | 'strategy' | 'params' | 'unit' | 'height'> {
  /** Keys whose balances it holds, ascending; undefined if the source itself determines the keys. */
  readonly keys: readonly WorkerId[] | undefined;
}

/** Returns the snapshot at that height which a round with this roster may refer to. */
export function successorOf(
  first: StakeSnapshot,
  height: number,
  roster: readonly WorkerId[],
): Successor {
  const { chain, strategy, params, unit } = first;
  if (!LISTED.includes(strategy)) return { chain, strategy, params, unit, height, keys: undefined };
  const all = new Set([...roster, ...first.rows.map(({ key }) => key)]);
  const keys = [...all].slice(0, MAX_STAKE_ROWS).sort();
  return { chain, strategy, unit, height, keys, params: withKeys(params, keys) };
}

/** Reports whether a snapshot matches the expected one, as far as that can be checked without the chain. */
export function isSuccessor(table: StakeSnapshot, expected: Successor): boolean {
  const { keys } = expected;
  const fields = ['chain', 'strategy', 'params', 'unit', 'height'] as const;
  if (fields.some((field) => table[field] !== expected[field])) return false;
  const known = keys && new Set(keys);
  return table.rows.every(({ key }) => known?.has(key) ?? true);
}

/** Returns a hash of a set of keys, independent of their order. */
export const keyListHash = (keys: readonly WorkerId[]): string =>
  sha256Hex(concatBytes(utf8('nostrain/keys/1'), fromHex([...new Set(keys)].sort().join(''))!));

/** Returns the same parameters for other keys. */
function withKeys(params: string, keys: readonly WorkerId[]): string {
  const parsed = parseJson(params);
  if (!parsed.ok || !isJsonObject(parsed.value)) return params;
  return canonicalJson({ ...parsed.value, keys: keyListHash(keys) });
}

/** Maximum size of a snapshot file, with an allowance for spaces. */
const MAX_STAKE_JSON = 64 * 1024 * 1024;
const MEMBERS = 'blockHash chain height id params rows strategy total unit'.split(' ');

/** Returns the document with an indent of two spaces and one row per line. */
export function formatStakeJson(snapshot: StakeSnapshot): string {
  const { chain, strategy, params, height, blockHash, unit, rows } = snapshot;
  const text = safeJson;
  const lines = rows.map(({ key, stake }) => `    { "key": "${key}", "stake": "${stake}" }`);
  return `${[
    '{',
    `  "id": ${text(snapshotId(snapshot))},`,
    `  "chain": ${text(chain)},`,
    `  "strategy": ${text(strategy)},`,
    `  "params": ${params},`,
    `  "height": ${height},`,
    `  "blockHash": ${text(blockHash)},`,
    `  "unit": ${text(unit)},`,
    `  "total": ${text(String(totalStake(snapshot)))},`,
    lines.length === 0 ? '  "rows": []' : `  "rows": [\n${lines.join(',\n')}\n  ]`,
    '}',
  ].join('\n')}\n`;
}

/** Parses an untrusted document: checks every member, and that id and total match the rows. */
export function parseStakeJson(text: string): Result<StakeSnapshot> {
  const broken = (at: string, message: string) => refuse('bad-snapshot', at, `${at} ${message}`);
  if (text.length > MAX_STAKE_JSON) return broken('the document', 'is too long');
  const parsed = parseJson(text);
  if (!parsed.ok || !isJsonObject(parsed.value)) return broken('the document', 'is not JSON');
  const json = parsed.value;
  const odd = Object.keys(json).find((key) => !MEMBERS.includes(key));
  if (odd !== undefined) return broken(odd, 'is not a member of a stake snapshot');
  const missing = MEMBERS.find((key) => !(key in json));
  if (missing !== undefined) return broken(missing, 'is missing');
  const { id, chain, strategy, params, height, blockHash, unit, total, rows } = json;
  if (typeof height !== 'number') return broken('height', 'is not a whole number');
  if (!isJsonObject(params)) return broken('params', 'is not a JSON object');
  if (!Array.isArray(rows) || rows.length > MAX_STAKE_ROWS) {
    return broken('rows', `is not a list of at most ${MAX_STAKE_ROWS}`);
  }
  const table: StakeRow[] = [];
  for (const [i, row] of rows.entries()) {
    const read = rowIn(row);
    if (read === undefined)
      return broken(`rows.${i}`, 'is not { "key": hex, "stake": decimal text }');
    table.push(read);
  }
  const snapshot: StakeSnapshot = {
    chain: asText(chain),
    strategy: asText(strategy),
    params: canonicalJson(params),
    height,
    blockHash: asText(blockHash),
    unit: asText(unit),
    rows: table,
  };
  const issue = snapshotIssue(snapshot);
  if (issue !== undefined) return refuse('bad-snapshot', issue.at, issue.message);
  const sum = String(totalStake(snapshot));
  if (total !== sum) return broken('total', `is not ${sum}, which the rows sum up to`);
  const real = snapshotId(snapshot);
  return id === real ? ok(snapshot) : broken('id', `is not ${real}, to which the document hashes`);
}

/** Returns the text, or an empty text, which no field accepts. */
const asText = (value: Json | undefined): string => (typeof value === 'string' ? value : '');

/** Returns parameters as canonical JSON text. */
export const stakeParams = (params: Readonly<Record<string, string | number>>): string =>
  canonicalJson(params);

/** Reads a row: decimal text without sign or leading zeros. */
function rowIn(row: Json): StakeRow | undefined {
  if (!isJsonObject(row) || Object.keys(row).length !== 2) return undefined;
  const { key, stake } = row;
  if (typeof key !== 'string' || typeof stake !== 'string') return undefined;
  return /^[1-9]\d{0,38}$/.test(stake) ? { key, stake: BigInt(stake) } : undefined;
}
