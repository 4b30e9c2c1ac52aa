/** How large the payloads of settings will be: a model is laid out, none is trained and no data is read. */
import { largestEvent } from '../../node/data/task.ts';
import type { Settings } from '../../run/settings.ts';
import type { Layout } from '../../tensor/params.ts';
import { protocolOf } from './protocol.ts';

export interface Estimate {
  readonly parameters: number;
  readonly payloadBytes: number;
  /** The state as an event, where the profile sends one after each round. */
  readonly checkpointBytes: number | undefined;
}

/** More values than this take a second or more to encode. */
const SLOW_VALUES = 1_000_000;

/** Works it out, or encodes a random delta where that depends on values; tells when that takes a while. */
export function estimatePayload(
  settings: Settings,
  layout: Layout,
  workers: number,
  onNotice: (words: string) => void,
): Estimate {
  const { sizes } = protocolOf(settings);
  if (sizes && layout.size >= SLOW_VALUES) {
    onNotice(`encoding a synthetic delta of ${layout.size} values to measure the payload`);
  }
  const { payloadBytes } = largestEvent(settings, layout, { sizes, workers });
  return {
    parameters: layout.size,
    payloadBytes,
    checkpointBytes: sizes?.checkpointBytes(layout, settings),
  };
}

/** Bytes of a payload, for a security report. */
export const measuring =
  (onNotice: (words: string) => void) =>
  (settings: Settings, layout: Layout, workers: number): number =>
    estimatePayload(settings, layout, workers, onNotice).payloadBytes;
