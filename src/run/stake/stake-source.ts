/**
 * Where stake snapshots come from: a file, an event, a chain (a port; docs/stake.md says what each source proves), and the parameters of a
 * run's later ones: same source as the first, at the block of the schedule. A token contract cannot list its holders, so later snapshots of a
 * token reuse the keys of the first one and those of the certified roster.
 */
import { concatBytes, fromHex, utf8 } from '../../base/bytes.ts';
import { canonicalJson, isJsonObject, parseJson } from '../../base/canonical-json.ts';
import { sha256Hex } from '../../base/hash.ts';
import type { WorkerId } from '../ids.ts';
import { MAX_STAKE_ROWS, type StakeSnapshot } from './stake-snapshot.ts';

export interface StakeSource {
  /** For people: `file stakes.json`, `registry 0x… on eip155:1`. */
  readonly name: string;
  /**
   * The snapshot of an epoch. A chain reads it at block base + epoch * period and waits until that block is final; a source
   * without a chain has epoch 0 alone. Throws a `ChainError` when it cannot say, never returns what it could not check.
   */
  snapshot(epoch: number, signal: AbortSignal): Promise<StakeSnapshot>;
}

/** At which blocks a run reads stakes. */
export interface SnapshotSchedule {
  /** Height of epoch 0. */
  readonly base: number;
  /** Blocks from one epoch to the next. */
  readonly period: number;
}

/** The height of an epoch: arithmetic, so that nobody chooses it. */
export function heightOf({ base, period }: SnapshotSchedule, epoch: number): number {
  const height = base + epoch * period;
  if (Number.isSafeInteger(height) && height >= 0) return height;
  throw new RangeError(`epoch ${epoch} has no height`);
}

/** Strategies that ask what each key of a list has. */
const LISTED: readonly string[] = ['erc20', 'erc5805'];

/** Everything a later table says of itself before anybody looks at the chain. */
export interface Successor
  extends Pick<StakeSnapshot, 'chain' | 'strategy' | 'params' | 'unit' | 'height'> {
  /** Whose balances it is of, ascending; undefined where the source itself says who has stake. */
  readonly keys: readonly WorkerId[] | undefined;
}

/** The table at that height, which a round with this roster may name. */
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

/** Whether a document is such a table, as far as it shows without the chain. */
export function isSuccessor(table: StakeSnapshot, expected: Successor): boolean {
  const { keys } = expected;
  const fields = ['chain', 'strategy', 'params', 'unit', 'height'] as const;
  if (fields.some((field) => table[field] !== expected[field])) return false;
  const known = keys && new Set(keys);
  return table.rows.every(({ key }) => known?.has(key) ?? true);
}

/** Names a set of keys, in whatever order they are given. */
export const keyListHash = (keys: readonly WorkerId[]): string =>
  sha256Hex(concatBytes(utf8('nostrain/keys/1'), fromHex([...new Set(keys)].sort().join(''))!));

/** The same parameters, of other keys. */
function withKeys(params: string, keys: readonly WorkerId[]): string {
  const parsed = parseJson(params);
  if (!parsed.ok || !isJsonObject(parsed.value)) return params;
  return canonicalJson({ ...parsed.value, keys: keyListHash(keys) });
}
