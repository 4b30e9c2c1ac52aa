/** Predicts the sizes of events of profile nostrain/0, for `nostrain plan` and for relays with limits. */
import { gradient } from '../../../kinds/gradient.ts';
import { deriveKey, philox, unit } from '../../base/rng.ts';
import { signedEventBytes } from '../../network/event.ts';
import {
  type CostInput,
  type EventSize,
  filler,
  longest,
  longestHeartbeat,
  type SingleEventSizes,
} from '../../network/wire/cost.ts';
import type { Settings } from '../../run/settings.ts';
import type { Layout } from '../../tensor/params.ts';
import { buildCheckpoint, checkpointFits, MAX_CHECKPOINT_BYTES } from './checkpoints.ts';
import { buildGradient, buildHeartbeat } from './messages.ts';
import { plainRecord, roundRecord } from './records.ts';

/** Sizes of a gradient event (33333) with its payload and of a heartbeat (33334). */
export const gradientEvents: SingleEventSizes = { gradientBytes, heartbeatBytes };

function gradientBytes({ run, payloadBytes }: CostInput): number {
  const { hex, round, codec, seconds } = longest;
  const draft = gradient.build(
    {
      run,
      round,
      worker: hex,
      model: hex,
      steps: round,
      examples: round,
      compression: codec,
      params: round,
      values: 9_999_999,
      selected: 9_999_999,
      payload: filler(payloadBytes),
      scope: true,
    },
    seconds,
  );
  return signedEventBytes(draft);
}

function heartbeatBytes(input: CostInput): number {
  return signedEventBytes(buildHeartbeat(input.run, longestHeartbeat(input)));
}

/** Share by which other deltas may compress worse than the random one. */
const SPARE = 0.03;

/** Encodes a random delta that resembles a real one (differences of uniform draws) and measures its event. */
export function measureGradient(run: string, layout: Layout, ratio: number): EventSize {
  const values = new Float64Array(layout.size);
  const key = deriveKey('nostrain/event-size');
  for (let i = 0; i < values.length; i += 2) {
    const [a, b, c, d] = philox(key, i, 0, 0, 0);
    values[i] = a - b;
    if (i + 1 < values.length) values[i + 1] = c - d;
  }
  const identity = { run, round: longest.round, worker: longest.hex, base: longest.hex };
  const fields = { ...identity, steps: 1000, examples: 1000 };
  const built = buildGradient(fields, { layout, values }, { ratio }, longest.seconds);
  return { ...built, spareBytes: SPARE * built.eventBytes };
}

/** Returns the bytes of the checkpoint event after the first round; undefined if the state does not fit one event. */
export function measureCheckpoint(layout: Layout, settings: Settings): number | undefined {
  const { run, model, relay: relays } = settings;
  const key = deriveKey('nostrain/plan');
  const count = Math.min(layout.size, MAX_CHECKPOINT_BYTES);
  const draws = Array.from({ length: count }, (_, i) => unit(philox(key, i, 0, 0, 0)[0]) - 0.5);
  if (count < layout.size) return undefined;
  const state = { layout, values: Float64Array.from(draws) };
  const losses = { before: draws[0]!, afterInner: draws[0]!, afterOuter: draws[0]! };
  const digests = { digestBefore: longest.hex, digestAfter: longest.hex };
  const round = { round: 0, losses, reason: 'strict', collectedWorkers: [longest.hex] };
  const record = roundRecord(plainRecord({ ...round, ...digests }, relays));
  const checkpoint = {
    run,
    worker: longest.hex,
    round: 0,
    nextRound: 1,
    roundsCompleted: 1,
    slot: 0,
    relays,
    state,
    momentum: state,
    runtime: `${model}-regression`,
    rounds: [record],
    lateGradients: [],
    lateReconciliations: [],
    lateGradientSince: longest.seconds,
    updatedAt: longest.seconds,
  };
  if (!checkpointFits(checkpoint, MAX_CHECKPOINT_BYTES)) return undefined;
  return signedEventBytes(buildCheckpoint(checkpoint, longest.seconds));
}
