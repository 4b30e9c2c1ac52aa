/**
 * Run spec: everything that all workers of a run must do alike, in one document. Its canonical bytes are JSON with sorted keys
 * and no spaces; the run id is their SHA-256. So one changed limit is another run, and nobody can change a run.
 */
import { utf8 } from '../../base/bytes.ts';
import { canonicalJson, type Json } from '../../base/canonical-json.ts';
import { sha256Hex } from '../../base/hash.ts';
import type { ChunkedFiles } from '../chunked-files.ts';
import type { Digest } from '../ids.ts';
import type { SpecInput } from '../input.ts';
import { type PlacementPolicy, writePlacement } from '../placement-policy.ts';
import { type SharedSettings, writeSettings } from '../settings.ts';
import { type FeatureName, type FeatureTable, features, ownedSpecFields } from './features.ts';
import type { Evaluation, GroupValues, PlainValues, VariantValues } from './spec-table.ts';
import type { Start } from './start.ts';

/** A checked run spec, as `parseRunSpec` or `makeSpec` gives it; `runIdOf` is its id. */
export interface RunSpec extends PlainValues, GroupValues, VariantValues {
  readonly version: 2;
  /** Ascending. What each owns is in `features.ts`; a field of one that is not named has the value its absence means. */
  readonly features: readonly FeatureName[];
  readonly training: SharedSettings;
  /** A text on which everybody evaluates; null where it follows from the data, or each worker has its own. */
  readonly evaluation: Evaluation | null;
  /** Who keeps which chunks of checkpoints; null where nobody is asked to. */
  readonly placement: PlacementPolicy | null;
  /** The published model that is trained, or whose adapters are; null where a model starts from the seed. */
  readonly start: Start | null;
  /** Where the text of the run and the files of its base are in chunks; null where nobody says. */
  readonly files: ChunkedFiles | null;
  /** What of series or pictures the model reads; null where it reads texts or rows. */
  readonly input: SpecInput | null;
}

/** The canonical text: RFC 8785. */
export function canonicalSpec(spec: RunSpec, table: FeatureTable = features): string {
  const names: readonly string[] = spec.features;
  const silent = ownedSpecFields(table).filter(({ feature }) => !names.includes(feature));
  const { training, placement } = spec;
  const written = {
    ...spec,
    training: writeSettings(training),
    placement: placement && writePlacement(placement),
  };
  const said = Object.entries(written).filter(([name]) =>
    silent.every((each) => each.name !== name),
  );
  return canonicalJson(toJson(Object.fromEntries(said)));
}

/** SHA-256 of the canonical text in UTF-8. */
export const runIdOf = (spec: RunSpec): Digest => sha256Hex(utf8(canonicalSpec(spec)));

function toJson(value: unknown): Json {
  if (typeof value === 'number' || typeof value === 'string') return value;
  if (typeof value === 'boolean' || value === null) return value;
  if (Array.isArray(value)) return value.map(toJson);
  if (typeof value !== 'object') throw new TypeError(`no JSON form of ${typeof value}`);
  return Object.fromEntries(Object.entries(value).map(([name, held]) => [name, toJson(held)]));
}
