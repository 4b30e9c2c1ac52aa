/** Where stake snapshots come from: a file, an event, a chain. A port; what each source proves is said in docs/stake.md. */
import type { StakeSnapshot } from './stake-snapshot.ts';

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
