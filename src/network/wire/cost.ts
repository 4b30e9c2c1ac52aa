/**
 * What one round of one worker costs on the wire, in events and bytes, before anything is sent: sizes are those of real
 * events built from stand-in values. Bytes are those of the events' JSON, as relays count them.
 */
import { CHUNK_BYTES, chunk } from '../../../kinds/chunk.ts';
import { gradient } from '../../../kinds/gradient.ts';
import { heartbeat } from '../../../kinds/heartbeat.ts';
import { manifest } from '../../../kinds/manifest.ts';
import { presence } from '../../../kinds/presence.ts';
import { chunkCount } from '../chunks/split.ts';
import { signedEventBytes } from './gradients.ts';

export interface CostInput {
  /** `nostrain/1`: manifest and chunks; `nostrain/0`: one gradient event. */
  readonly profile: 'nostrain/1' | 'nostrain/0';
  readonly run: string;
  /** How the payload is packed, as the event says it. */
  readonly codec: string;
  readonly payloadBytes: number;
  /** Any `need` of `shards` parts restore the payload, and each relay gets one part. */
  readonly stripe?: { readonly need: number; readonly shards: number } | undefined;
  readonly workers: number;
  /** URLs the worker names in its heartbeats; every relay gets what is not striped. */
  readonly relays: readonly string[];
  readonly roundSeconds: number;
  readonly heartbeatSeconds: number;
  /** Size of the state as an event, where it is small enough to be published after each round. */
  readonly checkpointBytes?: number | undefined;
}

export interface Load {
  /** A mean where heartbeats are in it, so not always whole. */
  readonly events: number;
  readonly bytes: number;
}

export interface RoundCost {
  /** `inside`: the payload rides in the manifest (or gradient) event. */
  readonly form: 'inside' | 'chunks' | 'shards';
  /** The event that commits to the payload. */
  readonly commit: Load;
  /** Of one relay: the whole payload, or one shard of it. */
  readonly chunks: Load;
  readonly heartbeats: Load;
  readonly checkpoint: Load;
  /** What one worker sends to one relay. */
  readonly toEachRelay: Load;
  /** What one worker sends to all relays together. */
  readonly sent: Load;
  /** From the other workers: chunks once, all else from every relay. */
  readonly received: Load;
  readonly largestEventBytes: number;
  /** What one worker sends to one relay in a round of no length: all but the heartbeats in between. */
  readonly fixedEvents: number;
}

const ZEROS = '0'.repeat(64);
const TIME = 2_000_000_000;
const ROUND = 9999;

/** Base64 of that many bytes. */
const filler = (bytes: number): string => {
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

/** The cost of a round of one worker. */
export function roundCost(input: CostInput): RoundCost {
  const { payloadBytes, profile, checkpointBytes, workers } = input;
  const relays = Math.max(1, input.relays.length);
  const isInside = profile === 'nostrain/0' || payloadBytes <= CHUNK_BYTES;
  const stripe = isInside ? undefined : input.stripe;
  const commit = load(1, profile === 'nostrain/0' ? gradientBytes(input) : manifestBytes(input));
  const part = stripe === undefined ? payloadBytes : Math.ceil(payloadBytes / stripe.need);
  const chunks = isInside ? NOTHING : chunksOf(part);
  const beat = heartbeatBytes(input);
  const beats = 1 + input.roundSeconds / input.heartbeatSeconds;
  const heartbeats = load(beats, beats * beat);
  const checkpoint = checkpointBytes === undefined ? NOTHING : load(1, checkpointBytes);
  const toEachRelay = total(commit, chunks, heartbeats, checkpoint);
  const pulled = times(chunks, stripe?.need ?? 1);
  const fromEach = total(times(total(commit, heartbeats), relays), pulled);
  return {
    form: isInside ? 'inside' : stripe === undefined ? 'chunks' : 'shards',
    commit,
    chunks,
    heartbeats,
    checkpoint,
    toEachRelay,
    sent: times(toEachRelay, stripe?.shards ?? relays),
    received: times(fromEach, workers - 1),
    largestEventBytes: Math.max(commit.bytes, beat, checkpoint.bytes, largestChunk(chunks, part)),
    fixedEvents: toEachRelay.events - beats + 1,
  };
}

const largestChunk = (chunks: Load, bytes: number): number =>
  chunks.events === 0 ? 0 : chunkBytes(bytes, chunks.events > 1 ? chunks.events - 2 : 0);

/** All chunks of that many bytes, at most some bytes too many for each: paths and indices are taken at their longest. */
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
  const place = { root: ZEROS, index, count, bytes, path };
  return signedEventBytes(chunk.build({ ...place, expiration: TIME, data: filler(size) }, TIME));
}

/** Distinct stand-ins for keys and hashes. */
const keys = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => i.toString(16).padStart(64, '0'));

function manifestBytes({ run, codec, payloadBytes, stripe }: CostInput): number {
  const isInside = payloadBytes <= CHUNK_BYTES;
  const striped = isInside || stripe === undefined ? undefined : stripe;
  const draft = manifest.build(
    {
      ...{ run, round: ROUND, base: ZEROS, codec, hash: ZEROS, bytes: payloadBytes },
      ...{ root: ZEROS, examples: ROUND, steps: ROUND, prev: ZEROS },
      scope: [run, `${run}/${ROUND}`],
      x: ZEROS,
      payload: isInside ? filler(payloadBytes) : undefined,
      need: striped?.need,
      shards: striped && keys(striped.shards),
      expiration: TIME,
    },
    TIME,
  );
  return signedEventBytes(draft);
}

function gradientBytes({ run, codec, payloadBytes }: CostInput): number {
  const draft = gradient.build(
    {
      ...{ run, round: ROUND, worker: ZEROS, model: ZEROS, steps: ROUND, examples: ROUND },
      ...{ compression: codec, params: ROUND, values: 9_999_999, selected: 9_999_999 },
      payload: filler(payloadBytes),
      scope: true,
    },
    TIME,
  );
  return signedEventBytes(draft);
}

/** A heartbeat names the workers of the last round, so it grows with them. */
function heartbeatBytes(input: CostInput): number {
  const { run, relays, workers, profile, heartbeatSeconds: interval } = input;
  const cohort = keys(Math.min(workers, 512));
  const own = { run, round: ROUND, interval, cohort, capabilities: ['gradient-event'] };
  const named = relays.length > 0 ? [...new Set(relays)].slice(0, 64) : undefined;
  if (profile === 'nostrain/0') {
    const said = { ...own, worker: ZEROS, model: ZEROS, relays: named, scope: true } as const;
    return signedEventBytes(heartbeat.build(said, TIME));
  }
  const tags = { slot: run, scope: [run], expiration: TIME };
  const draft = presence.build({ ...own, ...tags, base: ZEROS, relays: named }, TIME);
  return signedEventBytes(draft);
}

/** What public relays are taken to let one IP publish until one has been measured: so many at once, then so many a minute. */
export const PUBLIC_BUDGET = { atOnce: 5, perMinute: 5 } as const;

export interface FloorInput {
  readonly fixedEvents: number;
  readonly heartbeatSeconds: number;
  readonly workersPerIp: number;
  /** Events the relay takes from one IP. */
  readonly perMinute: number;
}

/** Seconds a round must last so that the relay takes all its events; Infinity where heartbeats alone are too many. */
export function floorSeconds(input: FloorInput): number {
  const pace = (60 / input.perMinute) * input.workersPerIp;
  const left = 1 - pace / input.heartbeatSeconds;
  return left <= 0 ? Number.POSITIVE_INFINITY : (pace * input.fixedEvents) / left;
}
