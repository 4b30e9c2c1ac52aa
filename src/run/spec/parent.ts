/** The section `parent` of a run spec: the certified state of another run from which a fork starts. */
import type { Untyped } from '../../base/shape.ts';
import { hash, key, row, type Values, whole } from '../field.ts';
import { relayUrls } from './list-fields.ts';
import { readGroup } from './spec-readers.ts';

/** Lineage of a fork. The roots name the state; relays are hints. */
export type Parent = Values<typeof parentFields>;

/** Maximum number of rounds, as in `training.rounds`. */
const MOST_ROUNDS = 1_000_000;

/** Fields of the section. */
const parentFields = {
  run: row('id of the run that this one continues', hash()),
  author: row('author of its spec', key()),
  relays: row('relays that had its events; hints', relayUrls()),
  rounds: row('number of its rounds that led to the state', whole(1, MOST_ROUNDS)),
  outcome: row('digest of the outcome of the last of these rounds', hash()),
  root: row('model root in that outcome', hash()),
  first: row('model root of these parameters without momentum: that of round 0 here', hash()),
} as const;

/** Reads the section of a spec; null if it has none. Throws a ConfigError with the path of the invalid value. */
export const readParent = (spec: Untyped): Parent | null =>
  spec.parent === null ? null : readGroup(spec, 'parent', parentFields);
