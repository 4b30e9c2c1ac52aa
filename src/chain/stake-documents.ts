/** Stake lists written by hand, and the sources from which a stake snapshot is derived again. */
import { isJsonObject, type Json, parseJson } from '../base/canonical-json.ts';
import { ChainError, ConfigError, ok, type Result, refuse } from '../base/errors.ts';
import { readKey } from '../run/field.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import {
  keyListHash,
  MAX_STAKE,
  type SnapshotSchedule,
  type StakeSnapshot,
  type StakeSource,
  stakeRows,
} from '../run/stake/stake-snapshot.ts';
import type { ChainAccess } from './evm/blocks.ts';
import { dataOf } from './evm/encoding.ts';
import { createRegistrySource } from './evm/stake-sources.ts';
import { createTokenSource } from './evm/token-source.ts';

/** Returns the lines with content: blanks and comments after # are removed. */
const linesOf = (text: string): readonly (readonly [line: number, words: readonly string[]])[] =>
  text.split('\n').flatMap((line, i) => {
    const words = line
      .replace(/#.*/, '')
      .split(/[\s,;]+/)
      .filter((word) => word !== '');
    return words.length === 0 ? [] : [[i + 1, words] as const];
  });

export function parseKeyList(text: string): Result<readonly WorkerId[]> {
  const keys: WorkerId[] = [];
  for (const [line, [word = '', ...more]] of linesOf(text)) {
    const key = readKey(word);
    if (key === undefined || more.length > 0)
      return refuse('bad-list', `line ${line}`, 'not one npub or hex key');
    keys.push(key);
  }
  return keys.length > 0 ? ok(keys) : refuse('bad-list', 'the list', 'no key in it');
}

/**
 * Parses a list with `npub1… 100` per line, each key once. The snapshot is not from a chain, so it cannot be derived
 * again.
 */
export function parseStakeList(text: string, unit: string): Result<StakeSnapshot> {
  const stakes = new Map<WorkerId, bigint>();
  for (const [line, [word = '', amount = '', ...more]] of linesOf(text)) {
    const at = `line ${line}`;
    const key = readKey(word);
    if (key === undefined)
      return refuse('bad-list', at, `${word} is neither an npub nor a hex key`);
    if (!/^\d{1,39}$/.test(amount) || BigInt(amount) > MAX_STAKE || more.length > 0) {
      return refuse('bad-list', at, 'the key must be followed by one whole number below 2^128');
    }
    if (stakes.has(key)) return refuse('bad-list', at, `${word} is in the list twice`);
    stakes.set(key, BigInt(amount));
  }
  return ok({
    chain: 'nostrain:file',
    strategy: 'file',
    params: '{}',
    height: 0,
    blockHash: '00'.repeat(32),
    unit,
    rows: stakeRows(stakes),
  });
}

export interface RederiveOptions {
  /** How to reach the chain, which must be that of the document. */
  readonly access: Omit<ChainAccess, 'chain'>;
  /** Keys whose balances a token snapshot holds. */
  readonly keys?: readonly WorkerId[] | undefined;
  /** Block schedule; default the height of the document as epoch 0. */
  readonly schedule?: SnapshotSchedule;
}

/**
 * Returns the source of a snapshot. Throws `stake/strategy` if it is not from a chain, `stake/params` if its parameters
 * are incomplete.
 */
export function sourceOf(snapshot: StakeSnapshot, options: RederiveOptions): StakeSource {
  const { strategy, chain, height } = snapshot;
  const { keys, schedule = { base: height, period: 0 } } = options;
  const access = { ...options.access, chain };
  const params = paramsOf(snapshot);
  if (strategy === 'registry') {
    const contract = { contract: address(params, 'contract'), from: whole(params, 'from') };
    return createRegistrySource(access, contract, schedule);
  }
  if (strategy !== 'erc20' && strategy !== 'erc5805') {
    throw new ConfigError(
      'stake/strategy',
      `a snapshot with strategy ${strategy} cannot be derived again`,
      { hint: 'compare its id with the one in the run spec' },
    );
  }
  if (keys === undefined)
    throw new ConfigError('stake/keys', 'the keys of these balances are not given', { hint: KEYS });
  if (keyListHash(keys) !== params.keys)
    throw new ConfigError('stake/keys', 'the keys differ from those of the document', {
      hint: KEYS,
    });
  const balanceSlot = params.balanceSlot === undefined ? undefined : whole(params, 'balanceSlot');
  const contract = {
    standard: strategy,
    token: address(params, 'token'),
    balanceSlot,
    keys,
  } as const;
  return createTokenSource(access, contract, schedule);
}

const KEYS = 'give the key list of the document with --keys FILE';

type Params = Readonly<Record<string, Json>>;

function paramsOf({ params }: StakeSnapshot): Params {
  const parsed = parseJson(params);
  if (parsed.ok && isJsonObject(parsed.value)) return parsed.value;
  throw wrong('params');
}

function address(params: Params, name: string): Uint8Array {
  const bytes = dataOf(params[name], 20);
  if (bytes !== undefined) return bytes;
  throw wrong(name);
}

function whole(params: Params, name: string): number {
  const value = params[name];
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw wrong(name);
}

const wrong = (name: string): ConfigError =>
  new ConfigError('stake/params', `the parameters of the document have no valid ${name}`);

/** Looks up a snapshot by its id among the events of relays. */
export type FindSnapshot = (id: Digest, signal: AbortSignal) => Promise<Result<StakeSnapshot>>;

/** Returns a stake source for the snapshot with an id, whichever events carry it. */
export const createEventSource = (id: Digest, find: FindSnapshot): StakeSource => ({
  name: `event of snapshot ${id}`,
  async snapshot(epoch, signal) {
    if (epoch !== 0) {
      const message = `snapshot ${id} has no epoch ${epoch}: only a chain has later epochs`;
      throw new ChainError('chain/epoch', message);
    }
    const lookup = await find(id, signal);
    if (lookup.ok) return lookup.value;
    throw new ChainError(
      'chain/no-event',
      `no event carries snapshot ${id}: ${lookup.issue.message}`,
      { hint: 'use other relays, or ask the author of the run for the file' },
    );
  },
});
