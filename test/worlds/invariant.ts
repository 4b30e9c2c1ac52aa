/** Interface of what holds in every world. */
import type { Chronicle } from './chronicle.ts';

export interface Invariant {
  readonly name: string;
  /** Holds in certified runs only. */
  readonly isCertified?: boolean;
  /** Returns what contradicts it; an empty list if it holds. */
  check(chronicle: Chronicle): readonly string[];
}
