/** How large a run's largest event will be, before a run starts: so that a relay too small is found out at once. */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import type { PackingName } from '../../run/settings.ts';
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { planChunks } from '../chunks/payload.ts';
import { chunkBytesAtMost, isChunkPacking, payloadBytesAtMost } from '../codec/codecs.ts';
import { PAYLOAD_HEADER_BYTES } from '../codec/payload-header.ts';
import { signedEventBytes } from '../event.ts';
import { buildManifest } from './manifests.ts';
import { packingFor } from './packer.ts';

export interface EventSize {
  /** The raw payload, before base64. */
  readonly payloadBytes: number;
  /** JSON of the largest event, once signed. */
  readonly eventBytes: number;
}

export interface Measured {
  readonly run: string;
  readonly packing: PackingName;
  readonly eventBudget: number;
  /** Parameters of the model. */
  readonly size: number;
  /** The most chunks a worker sends. */
  readonly most: number;
  /** Share of the values that is sent, where the packing is a topk one. */
  readonly ratio: number;
}

const NOW = 2_000_000_000;
const ZEROS = '0'.repeat(64);
const OWN = { round: 9999, base: ZEROS, steps: 1000 };
/** What an event of this size needs beside itself in its frame, and what one delta compresses worse than another. */
const SLACK = 1.03;

/** The largest event of a run: the manifest with the payload inside, or a chunk of it. */
export function estimateEventSize(run: Measured): EventSize {
  const packing = packingFor(run, run);
  const payloadBytes =
    run.size < CHUNK_LENGTH && isChunkPacking(packing)
      ? PAYLOAD_HEADER_BYTES + chunkBytesAtMost(packing, run.size)
      : payloadBytesAtMost(packing, run.most);
  return { payloadBytes, eventBytes: largestOf(run, payloadBytes) };
}

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
