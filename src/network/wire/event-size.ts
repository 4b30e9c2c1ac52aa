/** How large a gradient event will be, before a run starts: so that a relay too small is found out at once. */
import { deriveKey, philox } from '../../base/rng.ts';
import type { Layout } from '../../tensor/params.ts';
import { buildGradient } from './gradients.ts';

export interface EventSize {
  /** The raw payload, before base64. */
  readonly payloadBytes: number;
  /** The event's JSON, once signed. */
  readonly eventBytes: number;
}

/** What an event of this size needs beside itself in its frame, and what one delta compresses worse than another. */
const SLACK = 1.03;

/** Encodes a random delta the shape of a real one (sums of uniform draws) and measures it. */
export function estimateEventSize(run: string, layout: Layout, ratio: number): EventSize {
  const values = new Float64Array(layout.size);
  const key = deriveKey('nostrain/event-size');
  for (let i = 0; i < values.length; i += 2) {
    const [a, b, c, d] = philox(key, i, 0, 0, 0);
    values[i] = a - b;
    if (i + 1 < values.length) values[i + 1] = c - d;
  }
  const zeros = '0'.repeat(64);
  const own = { run, round: 9999, worker: zeros, base: zeros, steps: 1000, examples: 1000 };
  const { payloadBytes, eventBytes } = buildGradient(
    own,
    { layout, values },
    { ratio },
    2_000_000_000,
  );
  return { payloadBytes, eventBytes };
}

/** The largest message or content a relay says it takes; undefined where it says nothing. */
export interface StatedLimits {
  readonly maxMessageLength?: number;
  readonly maxContentLength?: number;
}

/** The stated limit an event would break, if any. */
export function brokenLimit({ eventBytes }: EventSize, limits: StatedLimits): number | undefined {
  const needed = eventBytes * SLACK;
  return [limits.maxMessageLength, limits.maxContentLength].find(
    (limit) => limit !== undefined && limit > 0 && limit < needed,
  );
}
