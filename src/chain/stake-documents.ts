/** Stake documents: lists that people write, and the sources from which a snapshot document is derived again. */
import { decode } from 'nostr-tools/nip19';
import { isHex32 } from '../base/bytes.ts';
import { isJsonObject, type Json, parseJson } from '../base/canonical-json.ts';
import { ChainError, ConfigError, ok, type Result, refuse } from '../base/errors.ts';
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
import { createRegistrySource, createTokenSource } from './evm/stake-sources.ts';

function readKey(text: string): WorkerId | undefined {
  if (isHex32(text)) return text;
  try {
    const decoded = decode(text);
    return decoded.type === 'npub' ? decoded.data : undefined;
  } catch {
    return undefined;
  }
}

/** Lines of text that say something: blanks around them and what follows a # are dropped. */
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

/** A snapshot of a list: `npub1… 100` per line; nobody twice. It is of no chain, so nobody can re-derive it. */
export function parseStakeList(text: string, unit: string): Result<StakeSnapshot> {
  const stakes = new Map<WorkerId, bigint>();
  for (const [line, [word = '', amount = '', ...more]] of linesOf(text)) {
    const at = `line ${line}`;
    const key = readKey(word);
    if (key === undefined) return refuse('bad-list', at, `${word} is no npub and no hex key`);
    if (!/^\d{1,39}$/.test(amount) || BigInt(amount) > MAX_STAKE || more.length > 0) {
      return refuse('bad-list', at, 'after the key comes one whole number below 2^128');
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
  /** How the chain is reached; its chain must be the document's. */
  readonly access: Omit<ChainAccess, 'chain'>;
  /** Whose balances a token snapshot is of. */
  readonly keys?: readonly WorkerId[] | undefined;
  /** At which blocks; default the document's own, as epoch 0. */
  readonly schedule?: SnapshotSchedule;
}

/** Throws `stake/strategy` where a document is of no chain, `stake/params` where it does not say what is needed. */
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
      `nothing can be asked about a snapshot by ${strategy}`,
      { hint: 'compare its id with the one in the run spec' },
    );
  }
  if (keys === undefined)
    throw new ConfigError('stake/keys', 'whose balances these are is not given', { hint: KEYS });
  if (keyListHash(keys) !== params.keys)
    throw new ConfigError('stake/keys', 'these are other keys than those of the document', {
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

const KEYS = 'give the list the document was made with: --keys FILE';

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
  new ConfigError('stake/params', `the parameters of the document say no ${name} that can be used`);

/** Looks for a snapshot among the events of relays; whoever has relays brings this. */
export type FindSnapshot = (id: Digest, signal: AbortSignal) => Promise<Result<StakeSnapshot>>;

/** The snapshot of an id from whatever events carry it. */
export const createEventSource = (id: Digest, find: FindSnapshot): StakeSource => ({
  name: `event of snapshot ${id}`,
  async snapshot(epoch, signal) {
    if (epoch !== 0) {
      const message = `event of snapshot ${id} has no epoch ${epoch}: only a chain goes on`;
      throw new ChainError('chain/epoch', message);
    }
    const found = await find(id, signal);
    if (found.ok) return found.value;
    throw new ChainError(
      'chain/no-event',
      `no event carries snapshot ${id}: ${found.issue.message}`,
      { hint: 'ask other relays, or whoever made the run for the file' },
    );
  },
});
