/** Estimates what a round costs on the wire, and its largest event, by building events with stand-in values. */
import { CHUNK_BYTES, chunk } from '../../../kinds/chunk.ts';
import { INSIDE_BYTES, manifest } from '../../../kinds/manifest.ts';
import type { Heartbeat } from '../../run/contribution.ts';
import type { ShardCounts } from '../../run/field.ts';
import type { PackingName } from '../../run/settings.ts';
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { chunkCount, planChunks } from '../chunks/payload.ts';
import { payloadBytes } from '../codec/codecs.ts';
import { signedEventBytes } from '../event.ts';
import { insideOf } from './dense-text.ts';
import { buildManifest, buildPresence } from './native-profile.ts';
import { packingFor } from './packer.ts';

/** Event sizes of a profile that sends each payload whole in one event. */
export interface SingleEventSizes {
  gradientBytes(input: CostInput): number;
  heartbeatBytes(input: CostInput): number;
}

export interface CostInput {
  /** Set for a profile that sends payloads whole; otherwise a payload goes out as a manifest and chunks. */
  readonly whole?: SingleEventSizes | undefined;
  readonly run: string;
  readonly payloadBytes: number;
  /** How a payload in chunks is distributed over relays. */
  readonly stripe: ShardCounts;
  readonly workers: number;
  /** Relay addresses. If there are fewer relays than shards, one relay per shard is assumed. */
  readonly relays: readonly string[];
  readonly roundSeconds: number;
  readonly heartbeatSeconds: number;
  /** Size of the state as an event, if it is small enough to be published after each round. */
  readonly checkpointBytes?: number | undefined;
}

export interface Load {
  /** A mean if it includes heartbeats, so it may be fractional. */
  readonly events: number;
  readonly bytes: number;
}

export interface RoundCost {
  /** `inside`: the payload is in the manifest (or gradient) event. */
  readonly form: 'inside' | 'chunks' | 'shards';
  readonly commit: Load;
  /** Load of one relay: the whole payload, or one shard of it. */
  readonly chunks: Load;
  /** At most one per interval; a relay without a rate limit gets one more per round. */
  readonly heartbeats: Load;
  readonly checkpoint: Load;
  /** What one worker sends to each relay. */
  readonly toEachRelay: Load;
  readonly sent: Load;
  /** What one worker receives from the others: chunks once, other events from every relay. */
  readonly received: Load;
  readonly largestChunkBytes: number;
  /** Events to each relay in a round, without heartbeats. */
  readonly fixedEvents: number;
}

const ZEROS = '0'.repeat(64);
const TIME = 2_000_000_000;
const ROUND = 9999;
/** Longest codec name that both kinds allow. */
const CODEC = 'topk-0.1000-int8-zlib';
/** Maximum workers in a presence event (37811). */
const MOST_COHORT = 512;
const MOST_NAMED = 64;

/** Longest values of event fields, for measuring an event before it exists. */
export const longest = { hex: ZEROS, seconds: TIME, round: ROUND, codec: CODEC } as const;

export const filler = (bytes: number): string => {
  const rest = bytes % 3;
  const tail = rest === 0 ? '' : rest === 1 ? 'AA==' : 'AAA=';
  return 'AAAA'.repeat(Math.floor(bytes / 3)) + tail;
};

const load = (events: number, bytes: number): Load => ({ events, bytes });
const times = ({ events, bytes }: Load, factor: number): Load =>
  load(events * factor, bytes * factor);
const total = (...loads: readonly Load[]): Load =>
  loads.reduce((sum, each) => load(sum.events + each.events, sum.bytes + each.bytes), load(0, 0));
const NOTHING = load(0, 0);

export function roundCost(input: CostInput): RoundCost {
  const { payloadBytes, whole, checkpointBytes, workers, stripe } = input;
  const isInside = whole !== undefined || payloadBytes <= INSIDE_BYTES;
  const isErasureCoded = !isInside && stripe.of > 1;
  const relays = Math.max(1, input.relays.length, isErasureCoded ? stripe.of : 1);
  const commit = load(1, whole?.gradientBytes(input) ?? manifestBytes(input));
  const part = isErasureCoded ? Math.ceil(payloadBytes / stripe.need) : payloadBytes;
  const chunks = isInside ? NOTHING : chunksOf(part);
  const count = input.roundSeconds / input.heartbeatSeconds;
  const heartbeats = load(count, count * (whole?.heartbeatBytes(input) ?? presenceBytes(input)));
  const checkpoint = checkpointBytes === undefined ? NOTHING : load(1, checkpointBytes);
  const toEachRelay = total(commit, chunks, heartbeats, checkpoint);
  const pulled = times(chunks, isErasureCoded ? stripe.need : 1);
  const fromEach = total(times(total(commit, heartbeats), relays), pulled);
  return {
    form: isInside ? 'inside' : isErasureCoded ? 'shards' : 'chunks',
    commit,
    chunks,
    heartbeats,
    checkpoint,
    toEachRelay,
    sent: times(toEachRelay, relays),
    received: times(fromEach, workers - 1),
    largestChunkBytes: isInside ? 0 : chunkBytes(part, Math.max(0, chunks.events - 2)),
    fixedEvents: toEachRelay.events - count,
  };
}

/** Returns the load of all chunks of `bytes` bytes, with paths and indices of maximum length. */
function chunksOf(bytes: number): Load {
  const count = chunkCount(bytes);
  const last = chunkBytes(bytes, count - 1);
  return load(count, last + (count > 1 ? (count - 1) * chunkBytes(bytes, count - 2) : 0));
}

function chunkBytes(bytes: number, index: number): number {
  const count = chunkCount(bytes);
  const depth = Math.ceil(Math.log2(count));
  const size = Math.min(CHUNK_BYTES, bytes - index * CHUNK_BYTES);
  const path = depth === 0 ? undefined : keys(depth);
  const fields = { root: ZEROS, index, count, bytes, path };
  return signedEventBytes(chunk.build({ ...fields, expiration: TIME, data: filler(size) }, TIME));
}

/** Returns distinct stand-ins for keys and hashes. */
const keys = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => i.toString(16).padStart(64, '0'));

function manifestBytes({ run, payloadBytes, stripe }: CostInput): number {
  const isInside = payloadBytes <= INSIDE_BYTES;
  const isErasureCoded = !isInside && stripe.of > 1;
  const draft = manifest.build(
    {
      run,
      round: ROUND,
      base: ZEROS,
      codec: CODEC,
      hash: ZEROS,
      bytes: payloadBytes,
      root: ZEROS,
      examples: ROUND,
      steps: ROUND,
      prev: ZEROS,
      scope: [run, `${run}/${ROUND}`],
      x: ZEROS,
      ...insideOf(new Uint8Array(payloadBytes)),
      need: isErasureCoded ? stripe.need : undefined,
      shards: isErasureCoded ? keys(stripe.of) : undefined,
      expiration: TIME,
    },
    TIME,
  );
  return signedEventBytes(draft);
}

const presenceBytes = (input: CostInput): number =>
  signedEventBytes(buildPresence(input.run, longestHeartbeat(input)));

/** Returns the longest heartbeat: it names the workers of the last round, so it grows with them. */
export function longestHeartbeat({ relays, workers, heartbeatSeconds }: CostInput): Heartbeat {
  return {
    worker: ZEROS,
    round: ROUND,
    intervalSeconds: heartbeatSeconds,
    createdAt: TIME,
    digest: ZEROS,
    examples: undefined,
    leaving: false,
    capabilities: ['gradient-event'],
    relays: [...new Set(relays)].slice(0, MOST_NAMED),
    cohort: keys(Math.min(workers, MOST_COHORT)),
  };
}

/** Assumed rate limit of a public relay per IP address: events at once, then per minute. */
export const PUBLIC_BUDGET = { atOnce: 5, perMinute: 5 } as const;

export interface FloorInput {
  readonly fixedEvents: number;
  readonly heartbeatSeconds: number;
  readonly workersPerIp: number;
  readonly perMinute: number;
}

/** Seconds between two events of one worker; also the longest time an event waits in the queue. */
export const secondsBetweenEvents = ({
  perMinute,
  workersPerIp,
}: Pick<FloorInput, 'perMinute' | 'workersPerIp'>): number => (60 / perMinute) * workersPerIp;

/**
 * Returns the seconds that a round must last for the relay to accept all its events; Infinity if heartbeats alone
 * exceed the rate.
 */
export function floorSeconds(input: FloorInput): number {
  const { fixedEvents, heartbeatSeconds } = input;
  const intervalSeconds = secondsBetweenEvents(input);
  if (intervalSeconds >= heartbeatSeconds) return Number.POSITIVE_INFINITY;
  return (intervalSeconds * fixedEvents * heartbeatSeconds) / (heartbeatSeconds - intervalSeconds);
}

/** Rounds seconds up, ignoring errors of floating-point arithmetic. */
export const wholeSeconds = (seconds: number): number => Math.ceil(seconds - 1e-6);

export interface EventSize {
  readonly payloadBytes: number;
  readonly eventBytes: number;
  /** Bytes by which a delta that compresses worse may make it longer. */
  readonly spareBytes?: number;
}

export interface Measured {
  readonly run: string;
  readonly packing: PackingName;
  readonly eventBudget: number;
  readonly size: number;
  readonly most: number;
}

const SAMPLE = { round: 9999, base: ZEROS, steps: 1000 };
/** Bytes of the message around an event, and of members that features of a run add. */
const FRAME_BYTES = 256;

/** Returns the largest event of a run: the manifest with the payload inside, or a chunk. */
export function estimateEventSize(run: Measured): EventSize {
  const bytes = payloadBytes(packingFor(run, run), run.most, Math.min(run.size, CHUNK_LENGTH));
  return { payloadBytes: bytes, eventBytes: largestOf(run, bytes) };
}

function largestOf({ run }: Measured, payloadBytes: number): number {
  const payload = new Uint8Array(payloadBytes);
  const lifetime = { createdAt: TIME, expiresAt: 2 * TIME };
  if (payloadBytes > INSIDE_BYTES) return signedEventBytes(planChunks(payload, lifetime).draft(0));
  const named = { codec: 'trellis-1000', examples: 1000, prev: ZEROS };
  return buildManifest({ ...SAMPLE, run, roster: ZEROS, ...named }, payload, lifetime).eventBytes;
}

/** Largest message and content that a relay's description allows; undefined if it does not state them. */
export interface StatedLimits {
  readonly maxMessageLength?: number;
  readonly maxContentLength?: number;
}

export function brokenLimit(
  { eventBytes, spareBytes = 0 }: EventSize,
  limits: StatedLimits,
): number | undefined {
  const needed = eventBytes + spareBytes + FRAME_BYTES;
  return [limits.maxMessageLength, limits.maxContentLength].find(
    (limit) => limit !== undefined && limit > 0 && limit < needed,
  );
}
