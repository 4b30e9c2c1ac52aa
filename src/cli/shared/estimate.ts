/** How large the payloads of settings will be: a model is laid out, none is trained and no data is read. */
import { deriveKey, philox, unit } from '../../base/rng.ts';
import { layoutOf } from '../../model/from-settings.ts';
import { estimateEventSize } from '../../network/wire/event-size.ts';
import { buildCheckpoint, checkpointFits } from '../../python/wire/checkpoints.ts';
import { signedEventBytes } from '../../python/wire/gradients.ts';
import { plainRecord, roundRecord } from '../../python/wire/round-record.ts';
import type { Settings } from '../../run/settings.ts';
import type { Layout } from '../../tensor/params.ts';
import { measuredOf } from '../../terminal/prepare.ts';

export interface Estimate {
  readonly parameters: number;
  readonly payloadBytes: number;
  /** The state as an event, where the profile sends one after each round. */
  readonly checkpointBytes: number | undefined;
}

const ZEROS = '0'.repeat(64);
const NOW = 2_000_000_000;
/** More values than this take a second or more to encode. */
const SLOW_VALUES = 1_000_000;
/** What a worker publishes at most, as `nostrain/0` does. */
const MAX_CHECKPOINT_BYTES = 65_536;

/** Works it out, or encodes a random delta where that depends on values; tells when that takes a while. */
export function estimatePayload(
  settings: Settings,
  workers: number,
  onNotice: (words: string) => void,
): Estimate {
  const { profile, packing } = settings;
  const layout = layoutOf(settings);
  if (packing === 'nstr' && layout.size >= SLOW_VALUES) {
    onNotice(`encoding a made-up delta of ${layout.size} values to measure the payload`);
  }
  const { payloadBytes } = estimateEventSize(measuredOf(settings, layout, workers));
  return {
    parameters: layout.size,
    payloadBytes,
    checkpointBytes: profile === 'nostrain/0' ? checkpointBytes(layout, settings) : undefined,
  };
}

/** Bytes of a payload, for a security report. */
export const measuring =
  (onNotice: (words: string) => void) =>
  (settings: Settings, workers: number): number =>
    estimatePayload(settings, workers, onNotice).payloadBytes;

/** The state event after the first round; it grows by its history. Undefined where a state is too large for one. */
function checkpointBytes(layout: Layout, settings: Settings): number | undefined {
  const { run, model, relay: relays } = settings;
  const key = deriveKey('nostrain/plan');
  const count = Math.min(layout.size, MAX_CHECKPOINT_BYTES);
  const draws = Array.from({ length: count }, (_, i) => unit(philox(key, i, 0, 0, 0)[0]) - 0.5);
  if (count < layout.size) return undefined;
  const state = { layout, values: Float64Array.from(draws) };
  const losses = { before: draws[0]!, afterInner: draws[0]!, afterOuter: draws[0]! };
  const round = { round: 0, digestBefore: ZEROS, digestAfter: ZEROS, losses, reason: 'strict' };
  const record = roundRecord(plainRecord({ ...round, collectedWorkers: [ZEROS] }, relays));
  const checkpoint = {
    ...{ run, worker: ZEROS, round: 0, nextRound: 1, roundsCompleted: 1, slot: 0, relays },
    ...{ state, momentum: state, runtime: `${model}-regression`, rounds: [record] },
    ...{ lateGradients: [], lateReconciliations: [], lateGradientSince: NOW, updatedAt: NOW },
  };
  if (!checkpointFits(checkpoint, MAX_CHECKPOINT_BYTES)) return undefined;
  return signedEventBytes(buildCheckpoint(checkpoint, NOW));
}
