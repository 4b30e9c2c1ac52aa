/** What workers say of their training, in runs that name the feature `telemetry`. It is their word alone: nothing is decided by it, and nobody checks it. */
import { safe } from '../base/errors.ts';
import { MOST_DEVICE, MOST_SAMPLE } from './spec/feature-fields.ts';
import type { FeatureValues } from './spec/features.ts';

/** What is known of the shared parameters at the start of a round. */
export interface SharedMeasure {
  readonly validationLoss?: number | undefined;
  readonly bitsPerByte?: number | undefined;
  readonly accuracy?: number | undefined;
  readonly sample?: string | undefined;
}

/** What somebody trains on, as a trainer says it. */
export interface Machine {
  readonly device: string;
  /** What its products are in, where not in f32. */
  readonly half?: string;
}

/** In words: `cuda`, `cuda f16`. */
export const wordMachine = ({ device, half }: Machine): string =>
  half === undefined ? device : `${device} ${half}`;

type Said = FeatureValues<'manifest'>;

/** What a manifest says: the training loss of the worker's own steps, and what it measured before them. */
export const manifestTelemetry = (
  own: number,
  machine: Machine,
  measure: SharedMeasure | undefined,
): Said => ({
  telemetry: { own: millionths(own), ...said(machine, measure) },
  accuracy: { right: millionths(measure?.accuracy) },
});

/** What a heartbeat says. */
export const heartbeatTelemetry = (
  machine: Machine,
  measure: SharedMeasure | undefined,
): FeatureValues<'heartbeat'> => ({
  telemetry: said(machine, measure),
  accuracy: { right: millionths(measure?.accuracy) },
});

const said = (
  machine: Machine,
  { validationLoss, bitsPerByte, sample = '' }: SharedMeasure = {},
) => ({
  device: safe(wordMachine(machine)).slice(0, MOST_DEVICE).toWellFormed(),
  shared: millionths(validationLoss),
  bits: millionths(bitsPerByte),
  sample: safe(sample).slice(0, MOST_SAMPLE).toWellFormed(),
});

/** Null for what is no number, or too large for one. */
function millionths(value = Number.NaN): number | null {
  const scaled = Math.round(value * 1e6) + 0;
  return Number.isSafeInteger(scaled) ? scaled : null;
}
