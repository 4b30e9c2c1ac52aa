/**
 * Validators that merge: a round strategy that favours progress over certainty. They score contributions, merge the
 * best, average their merges, and step when a phase ends with those they have.
 *
 * @module nostrain/merging/parts
 */
export {
  agreeOn,
  Gate,
  nextMove,
  type Phases,
  phasesOf,
  roundAt,
  selectBest,
  type Timing,
} from './decide.ts';
export type { MergingOptions } from './exchange.ts';
export { type LinkOptions, ValidatorLink } from './link.ts';
export { createMerging, type MergingGroup } from './strategy.ts';
