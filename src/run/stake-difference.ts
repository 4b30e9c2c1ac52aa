/** By what two snapshots differ, for whoever must get the same one and did not. */
import type { StakeSnapshot } from './stake-snapshot.ts';

export interface StakeDifference {
  /** `height`, `rows.<key>`. */
  readonly field: string;
  readonly one: string;
  readonly other: string;
}

const FIELDS = ['chain', 'strategy', 'params', 'height', 'blockHash', 'unit'] as const;

/** The first field that differs, in the order they are hashed, or undefined where the snapshots are one. */
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
