/**
 * Packs a worker's delta into a `nostrain/1` payload (docs/payload.md) within a byte budget, and decodes those of other
 * workers.
 */

import { DENSE_BLOCK, DENSE_BYTES } from '../../../kinds/_dense.ts';
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { INSIDE_BYTES } from '../../../kinds/manifest.ts';
import { fromHex, utf8 } from '../../base/bytes.ts';
import { ConfigError, ok, type Result, refuse } from '../../base/errors.ts';
import type { ChunkAssignment } from '../../run/contribution.ts';
import { reportedTier, trainedSlices } from '../../run/helpers.ts';
import type { WorkerId } from '../../run/ids.ts';
import { removedPackings } from '../../run/removed.ts';
import {
  CHUNK_LENGTH,
  chunkCount,
  type PartialVector,
  prefixOfPartial,
} from '../../tensor/partial-vector.ts';
import {
  codecs,
  MOST_CODE_BYTES,
  PAYLOAD_HEADER_BYTES,
  type Packing,
  type PayloadScope,
  payloadBytesAtMost,
  SCALE_BYTES,
} from '../codec/codecs.ts';
import { decodePayload, encodePayload } from '../codec/payload.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { WireOptions } from './wire.ts';

/** Context in which a payload is packed or decoded. */
export interface PayloadContext {
  readonly round: number;
  readonly worker: WorkerId;
  readonly assignment: ChunkAssignment;
  /** Slices that the worker's manifest lists, in a run with tiers; absent for this worker's own payloads. */
  readonly widths?: Parameters<typeof reportedTier>[0];
  /**
   * Number of slices, from the first on, that started from the same state as this worker's; the others are ignored.
   */
  readonly agreed?: number | undefined;
}

/** Packs deltas into payloads, and opens those of others. */
export type Packer = ReturnType<typeof createPacker>;

export type PackerOptions = Pick<WireOptions, Taken> & { readonly sha256: Sha256 };
type Taken = 'run' | 'layout' | 'sliceEnds' | 'helpers' | 'packing' | 'eventBudget' | 'ratio';

const ONE_EVENT = 65_536;
/** Bytes of a manifest around its payload, with names of any length. */
const ENVELOPE_BYTES = 2048;
/** Bytes around dense text without the name of the run, which occurs three times: manifest, tags, signature, frame. */
const [DENSE_ENVELOPE_BYTES, NAMES] = [1310, 3];
/**
 * Share of the event bytes that is payload: base64 makes three bytes four, and each chunk of 44 KiB has its own event.
 */
const CHUNKED_SHARE = 0.735;
const NO_ROSTER = '0'.repeat(64);

/** Creates a packer. Each worker may choose its packing; the chunks that it sends follow from the roster. */
export function createPacker(options: PackerOptions) {
  const { run, layout, sha256, sliceEnds = [layout.size], helpers } = options;
  const runDigest = sha256(utf8(run));
  const size = sliceEnds.at(-1)!;
  const sliceOf = (chunk: number) => sliceEnds.findIndex((end) => chunk < chunkCount(end));
  const scopeOf = ({ round, worker, assignment, widths }: PayloadContext): PayloadScope => {
    const end = widths === undefined ? layout.size : sliceEnds[widths.rings.length - 1]!;
    const tier = reportedTier(widths);
    const sliceCount = sliceEnds.indexOf(end) + 1;
    const trained =
      helpers &&
      trainedSlices(helpers, { tier: tier ?? helpers.tier, sliceCount: sliceCount, round });
    const isSent = (chunk: number) => !trained || trained.includes(sliceOf(chunk));
    const chunks = assignment.chunksOf(worker);
    return {
      run: runDigest,
      round,
      size,
      sender: fromHex(worker)!,
      roster: fromHex(assignment.digest ?? NO_ROSTER)!,
      chunks:
        end === size && !trained
          ? chunks
          : chunks.filter((chunk) => chunk < chunkCount(end) && isSent(chunk)),
    };
  };
  const within = (delta: PartialVector, { agreed }: PayloadContext): PartialVector => {
    const until = agreed === undefined ? layout.size : sliceEnds[agreed - 1]!;
    const isWhole = layout.size === size && until === size;
    return isWhole ? delta : prefixOfPartial(delta, layout.size, until);
  };
  return {
    pack(delta: Float64Array, context: PayloadContext) {
      const scope = scopeOf(context);
      const most = Math.min(context.assignment.most, Math.max(1, chunkCount(layout.size)));
      const packing = packingFor(options, { most });
      const { payload, sent } = encodePayload(delta, packing, scope);
      return { payload, sent: within(sent, context), codec: nameOf(packing) };
    },
    /** Decodes a payload from another worker; refuses one that does not match its codec and context. */
    open(payload: Uint8Array, codec: string, context: PayloadContext): Result<PartialVector> {
      if (!isKnown(codec)) return refuse('unknown-codec', 'codec', unknownCodec(codec));
      const decoded = decodePayload(payload, scopeOf(context));
      if (!decoded.ok) return decoded;
      const { packing, delta } = decoded.value;
      const name = nameOf(packing);
      if (name === codec) return ok(within(delta, context));
      return refuse('bad-payload', 'codec', `packed as ${name}, the manifest says ${codec}`);
    },
    /** Encodes a delta with the packing of another payload; undefined if that payload is invalid. */
    packLike(
      payload: Uint8Array,
      delta: Float64Array,
      context: PayloadContext,
    ): Uint8Array | undefined {
      const decoded = decodePayload(payload, scopeOf(context));
      if (!decoded.ok) return undefined;
      return encodePayload(delta, decoded.value.packing, scopeOf(context)).payload;
    },
  };
}

/**
 * Returns the packing for workers that send at most this many chunks. Throws a ConfigError if none fits the budget.
 */
export function packingFor(
  {
    run,
    packing = 'int8',
    ratio,
    eventBudget = ONE_EVENT,
  }: Pick<PackerOptions, 'run' | 'packing' | 'ratio' | 'eventBudget'>,
  { most }: Pick<ChunkAssignment, 'most'>,
): Packing {
  if (removedPackings.has(packing)) {
    throw new ConfigError('codec/removed', unknownCodec(packing), {
      hint: 'create a new run with `nostrain run create`, which sends deltas otherwise',
    });
  }
  if (packing === 'auto') return choosePacking(rawBudget(eventBudget), most);
  if (packing === 'trellis') return trellisWithin(trellisBudget(run, eventBudget), most);
  const isDense = codecs[packing].sends === 'all';
  const kept = Math.min(CHUNK_LENGTH - 1, Math.max(1, Math.round(ratio * CHUNK_LENGTH)));
  return { codec: packing, kept: isDense ? 0 : kept };
}

/** Returns the trellis code with the most bits that fit. Throws a ConfigError if not one byte a chunk fits. */
function trellisWithin(maxBytes: number, chunks: number): Packing {
  const perChunk = Math.floor((maxBytes - PAYLOAD_HEADER_BYTES) / chunks) - SCALE_BYTES;
  if (perChunk >= 1) return { codec: 'trellis', kept: Math.min(MOST_CODE_BYTES, perChunk) };
  throw new ConfigError('codec/budget', `${maxBytes} bytes are too few for ${chunks} chunks`, {
    hint: 'allow more bytes (--set eventBudget), or send a part in each round (--set fragments)',
  });
}

/**
 * Returns the payload bytes that fit in this many bytes of events: one manifest with the payload inside, or chunks.
 */
function rawBudget(eventBudget: number): number {
  if (eventBudget > ONE_EVENT) return Math.floor((eventBudget - ENVELOPE_BYTES) * CHUNKED_SHARE);
  return Math.min(CHUNK_BYTES, payloadBudget(eventBudget, ENVELOPE_BYTES));
}

/** Returns the payload bytes that fit in this many bytes of events, for a run of this name. */
function trellisBudget(run: string, eventBudget: number): number {
  if (eventBudget > ONE_EVENT) return rawBudget(eventBudget);
  const letters =
    eventBudget - DENSE_ENVELOPE_BYTES - NAMES * utf8(JSON.stringify(JSON.stringify(run))).length;
  const dense = DENSE_BYTES * Math.floor(letters / DENSE_BLOCK);
  return dense > CHUNK_BYTES ? Math.min(INSIDE_BYTES, dense) : rawBudget(eventBudget);
}

/** Returns the codec name without the number of kept values at the end of top-k names. */
const baseName = (name: string): string => name.replace(/-\d+$/, '');

const isKnown = (name: string): boolean => Object.hasOwn(codecs, baseName(name));

const unknownCodec = (name: string): string =>
  removedPackings.has(baseName(name))
    ? `${name} was removed; nostrain 0.1.0 still replays runs with it`
    : `${name} is not a packing`;

const nameOf = ({ codec, kept }: Packing): string => (kept === 0 ? codec : `${codec}-${kept}`);

/** Codecs that send every value, by increasing error. */
const DENSE = ['int8', 'int4', 'q2', 'ternary'] as const;
/**
 * Maximum top-k count, two fifths of a chunk: beyond it, a single level for all values costs more than further values
 * gain.
 */
const MOST_KEPT = 1638;

/**
 * Returns the packing with the smallest error within `maxBytes`: a dense one, else `topk-sign`. Throws a ConfigError if
 * not one value fits.
 */
export function choosePacking(maxBytes: number, chunks: number): Packing {
  const fits = (packing: Packing) => payloadBytesAtMost(packing, chunks) <= maxBytes;
  for (const codec of DENSE) {
    const packing = { codec, kept: 0 };
    if (fits(packing)) return packing;
  }
  let [kept, beyond] = [0, MOST_KEPT + 1];
  while (beyond - kept > 1) {
    const middle = (kept + beyond) >>> 1;
    if (fits({ codec: 'topk-sign', kept: middle })) kept = middle;
    else beyond = middle;
  }
  if (kept > 0) return { codec: 'topk-sign', kept };
  const least = payloadBytesAtMost({ codec: 'topk-sign', kept: 1 }, chunks);
  throw new ConfigError('codec/budget', `${maxBytes} bytes cannot hold ${chunks} chunks`, {
    hint: `allow at least ${least} bytes per payload, or let each worker own less`,
  });
}

/** Returns the raw payload bytes that fit in an event of this size, with `envelopeBytes` around the base64. */
export const payloadBudget = (eventBytes: number, envelopeBytes: number): number =>
  Math.max(0, 3 * Math.floor((eventBytes - envelopeBytes) / 4));
