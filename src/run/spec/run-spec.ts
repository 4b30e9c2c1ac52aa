/**
 * Run spec: everything that all workers of a run must do alike, in one document. Its canonical bytes are JSON with
 * sorted keys and no spaces; the run id is their SHA-256. So one changed limit is another run, and nobody can change
 * a run.
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
  /** Ascending. `features.ts` has what each owns; fields of a feature that is not named have their absent value. */
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

const DAY = 86_400;
/** After the end of the run. */
const ARCHIVE_SECONDS = 30 * DAY;
/** Own events are dated so much beyond, since clocks differ and rounds take longer. */
const MARGIN_SECONDS = 60 * DAY;
/** A plan of a century of rounds binds nobody. */
const MOST_SECONDS = 3650 * DAY;
/** Views that a round may take in the plan. */
const VIEWS = 4;

/** So many rounds at the longest that they are planned to take. */
function plannedSeconds({ timing }: RunSpec, rounds: number): number {
  const roundMs = timing.graceMaxMs + VIEWS * timing.viewMs;
  return Math.min(MOST_SECONDS, Math.ceil((rounds * roundMs) / 1000));
}

/** What an event of this round must last, from its date or the outcome before, whichever is later. */
export const leastSeconds = (spec: RunSpec, round: number): number =>
  plannedSeconds(spec, Math.max(0, spec.training.rounds - round)) + ARCHIVE_SECONDS;

/** What relays are asked for when an event is signed: enough in every round of the run. */
export const keptSeconds = (spec: RunSpec): number => leastSeconds(spec, 0) + MARGIN_SECONDS;
