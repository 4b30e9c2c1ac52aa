/** Who offers room for chunks, as it says itself and as attestors confirm it: what placement draws from and the directory carries. */
import type { WorkerId } from './ids.ts';

/** What of a holder an attestor may confirm. */
export type Attribute = 'region' | 'tier';

export const attributes: readonly Attribute[] = ['region', 'tier'];

export interface Holder {
  readonly key: WorkerId;
  /** Where it is. */
  readonly region: string;
  /** Its trust tier. */
  readonly tier: string;
  /** Its share of what is placed, beside the others'; 0 takes nothing more. */
  readonly weight: number;
  /** Classes of objects it takes; empty is all. */
  readonly classes: readonly string[];
  /** By which attestor its region and its tier, exactly as it says them, are confirmed; the rest is its own word. */
  readonly attested: Readonly<Partial<Record<Attribute, WorkerId>>>;
  /** Objects that it still has room for; left out where it has them already, or nobody says. */
  readonly room?: number | undefined;
}

export const MOST_WEIGHT = 1_000_000;
/** Regions, tiers and classes: short enough for a tag, and nothing that a terminal or a path could take amiss. */
export const isPlaceName = (text: unknown): text is string =>
  typeof text === 'string' && /^[a-z0-9][a-z0-9._-]{0,31}$/.test(text);
