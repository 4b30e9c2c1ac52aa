/** How large a run's largest event will be, before a run starts: so that a relay too small is found out at once. */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { deriveKey, philox } from '../../base/rng.ts';
import { buildGradient, signedEventBytes } from '../../python/wire/gradients.ts';
import type { PackingName } from '../../run/settings.ts';
import type { Layout } from '../../tensor/params.ts';
import { planChunks } from '../attachments/chunk-events.ts';
import { payloadBytesAtMost } from '../codec/codecs.ts';
import { buildManifest } from './manifests.ts';
import { packingFor } from './packer.ts';
import type { ProfileName } from './profile.ts';

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
  readonly packing: PackingName;
  readonly eventBudget: number;
  /** The most chunks a worker sends. */
  readonly most: number;
  /** Share of the values that is sent, where the packing is `nstr` or a topk one. */
  readonly ratio: number;
}

const NOW = 2_000_000_000;
const ZEROS = '0'.repeat(64);
const OWN = { round: 9999, base: ZEROS, steps: 1000 };
/** What an event of this size needs beside itself in its frame, and what one delta compresses worse than another. */
const SLACK = 1.03;

/** The largest event of a run. */
export function estimateEventSize(run: Measured): EventSize {
  if (run.profile === 'nostrain/0') return measureNstr(run);
  const isNstr = run.packing === 'nstr';
  const payloadBytes = isNstr
    ? measureNstr(run).payloadBytes
    : payloadBytesAtMost(packingFor(run, run), run.most);
  return { payloadBytes, eventBytes: largestOf(run, payloadBytes) };
}

/** Encodes a random delta the shape of a real one (sums of uniform draws). */
function measureNstr({ run, layout, ratio }: Measured): EventSize {
  const values = new Float64Array(layout.size);
  const key = deriveKey('nostrain/event-size');
  for (let i = 0; i < values.length; i += 2) {
    const [a, b, c, d] = philox(key, i, 0, 0, 0);
    values[i] = a - b;
    if (i + 1 < values.length) values[i + 1] = c - d;
  }
  const said = { ...OWN, run, worker: ZEROS, examples: 1000 };
  const { payloadBytes, eventBytes } = buildGradient(said, { layout, values }, { ratio }, NOW);
  return { payloadBytes, eventBytes };
}

/** The manifest with the payload inside, or a chunk of it. */
function largestOf({ run }: Measured, payloadBytes: number): number {
  const payload = new Uint8Array(payloadBytes);
  const lifetime = { createdAt: NOW, expiresAt: 2 * NOW };
  if (payloadBytes > CHUNK_BYTES) return signedEventBytes(planChunks(payload, lifetime).draft(0));
  const named = { codec: 'topk-sign-1000', examples: 1000, prev: ZEROS };
  return buildManifest({ ...OWN, run, roster: ZEROS, ...named }, payload, lifetime).eventBytes;
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
