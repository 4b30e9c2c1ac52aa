/** Estimates the payload size of given settings: lays out the model, without training and without data. */
import { largestEvent } from '../../node/data/task.ts';
import type { Settings } from '../../run/settings.ts';
import type { Layout } from '../../tensor/params.ts';
import { writeNote } from '../../terminal/output.ts';
import { protocolOf } from './protocol.ts';

export interface Estimate {
  readonly parameters: number;
  readonly payloadBytes: number;
  /** Size of the state event, if the profile sends one after each round. */
  readonly checkpointBytes: number | undefined;
}

/** Encoding more values than this takes a second or more. */
const SLOW_VALUES = 1_000_000;

/**
 * Computes the payload size, or encodes a random delta if the size depends on values; prints a notice if that is slow.
 */
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

/** Returns the payload size in bytes, for a security report. */
export const measurePayload = (settings: Settings, layout: Layout, workers: number): number =>
  estimatePayload(settings, layout, workers, writeNote).payloadBytes;
