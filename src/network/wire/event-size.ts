/** How large a run's largest event will be, before a run starts: so that a relay too small is found out at once. */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { deriveKey, philox } from '../../base/rng.ts';
import type { Layout } from '../../tensor/params.ts';
import { planChunks } from './chunks.ts';
import { buildGradient, type OwnGradient, signedEventBytes } from './gradients.ts';
import { buildManifest } from './manifests.ts';
import type { ProfileName } from './wire.ts';

export interface EventSize {
  /** The raw payload, before base64. */
  readonly payloadBytes: number;
  /** JSON of the largest event, once signed. */
  readonly eventBytes: number;
}

export interface Measured {
  readonly profile: ProfileName;
  readonly run: string;
  readonly layout: Layout;
  /** Share of the values that is sent. */
  readonly ratio: number;
}

const NOW = 2_000_000_000;
/** What an event of this size needs beside itself in its frame, and what one delta compresses worse than another. */
const SLACK = 1.03;

/** Encodes a random delta the shape of a real one (sums of uniform draws) and measures the largest event it makes. */
export function estimateEventSize({ profile, run, layout, ratio }: Measured): EventSize {
  const values = new Float64Array(layout.size);
  const key = deriveKey('nostrain/event-size');
  for (let i = 0; i < values.length; i += 2) {
    const [a, b, c, d] = philox(key, i, 0, 0, 0);
    values[i] = a - b;
    if (i + 1 < values.length) values[i + 1] = c - d;
  }
  const zeros = '0'.repeat(64);
  const own = { run, round: 9999, worker: zeros, base: zeros, steps: 1000, examples: 1000 };
  const built = buildGradient(own, { layout, values }, { ratio }, NOW);
  const { payloadBytes, eventBytes } = built;
  return profile === 'nostrain/0'
    ? { payloadBytes, eventBytes }
    : { payloadBytes, eventBytes: largestOf(own, payloadBytes) };
}

/** The manifest with the payload inside, or a chunk of it. */
function largestOf(own: OwnGradient, payloadBytes: number): number {
  const payload = new Uint8Array(payloadBytes);
  const lifetime = { createdAt: NOW, expiresAt: 2 * NOW };
  const said = { ...own, codec: 'nstr', examples: own.examples ?? 0, prev: own.base };
  if (payloadBytes <= CHUNK_BYTES) return buildManifest(said, payload, lifetime).eventBytes;
  return signedEventBytes(planChunks(payload, lifetime).draft(0));
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
