/**
 * Run spec: everything that all workers of a run must agree on, in one document. Its canonical bytes are JSON with
 * sorted keys and no spaces, and the run id is their SHA-256: any change makes another run, so a run cannot be changed.
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
import type { Parent } from './parent.ts';
import type { Evaluation, GroupValues, PlainValues, VariantValues } from './spec-table.ts';
import type { Start } from './start.ts';

/** A checked run spec, from `parseRunSpec` or `makeSpec`; `runIdOf` returns its id. */
export interface RunSpec extends PlainValues, GroupValues, VariantValues {
  readonly version: 2;
  /** Ascending. `features.ts` lists the fields of each; fields of an unnamed feature have the value of its absence. */
  readonly features: readonly FeatureName[];
  readonly training: SharedSettings;
  /** Data on which all workers evaluate; null if it follows from the data, or each worker has its own. */
  readonly evaluation: Evaluation | null;
  /** Which holders keep which chunks of checkpoints; null for no placement. */
  readonly placement: PlacementPolicy | null;
  /** The published model that is trained, in full or with adapters; null if the model starts from the seed. */
  readonly start: Start | null;
  /** The state of another run from which this one starts; null if it is no fork. */
  readonly parent: Parent | null;
  /** Chunked files and sources of the text and base of the run; null for none. */
  readonly files: ChunkedFiles | null;
  /** How the model reads series or pictures; null if it reads text or rows. */
  readonly input: SpecInput | null;
}

/** Returns the canonical text: RFC 8785. */
export function canonicalSpec(spec: RunSpec, table: FeatureTable = features): string {
  const names: readonly string[] = spec.features;
  const silent = ownedSpecFields(table).filter(({ feature }) => !names.includes(feature));
  const { training, placement } = spec;
  const written = {
    ...spec,
    training: writeSettings(training),
    placement: placement && writePlacement(placement),
  };
  const present = Object.entries(written).filter(([name]) =>
    silent.every((each) => each.name !== name),
  );
  return canonicalJson(toJson(Object.fromEntries(present)));
}

const runIds = new WeakMap<RunSpec, Digest>();

/** SHA-256 of the canonical text in UTF-8. */
export function runIdOf(spec: RunSpec): Digest {
  const run = runIds.get(spec) ?? sha256Hex(utf8(canonicalSpec(spec)));
  runIds.set(spec, run);
  return run;
}

/** Returns the trust tier in words, labelled if the run accepts simulated machines, which prove nothing. */
export const tierName = ({ tier, machines }: Pick<RunSpec, 'tier' | 'machines'>): string =>
  machines.vendors.includes('simulated') ? `${tier} (SIMULATED machines)` : tier;

function toJson(value: unknown): Json {
  if (typeof value === 'number' || typeof value === 'string') return value;
  if (typeof value === 'boolean' || value === null) return value;
  if (Array.isArray(value)) return value.map(toJson);
  if (typeof value !== 'object') throw new TypeError(`no JSON form of ${typeof value}`);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, toJson(member)]));
}

const DAY = 86_400;
/** Seconds for which events are kept after the end of the run. */
const ARCHIVE_SECONDS = 30 * DAY;
/** Extra lifetime of own events, because clocks differ and rounds may take longer. */
const MARGIN_SECONDS = 60 * DAY;
/** Maximum planned seconds: a spec that plans a century of rounds must not make relays keep events that long. */
const MOST_SECONDS = 3650 * DAY;
/** Views per round in the plan. */
const VIEWS = 4;

/** Returns the maximum duration of this many rounds as planned. */
function plannedSeconds({ timing }: RunSpec, rounds: number): number {
  const roundMs = timing.graceMaxMs + VIEWS * timing.viewMs;
  return Math.min(MOST_SECONDS, Math.ceil((rounds * roundMs) / 1000));
}

/**
 * Returns the minimum lifetime of an event of this round, counted from its date or the previous outcome, whichever is
 * later.
 */
export const leastSeconds = (spec: RunSpec, round: number): number =>
  plannedSeconds(spec, Math.max(0, spec.training.rounds - round)) + ARCHIVE_SECONDS;

/** Returns the lifetime that is requested from relays for each event: enough in every round of the run. */
export const keptSeconds = (spec: RunSpec): number => leastSeconds(spec, 0) + MARGIN_SECONDS;
