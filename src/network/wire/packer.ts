/**
 * Packs a worker's delta into a `nostrain/1` payload (docs/payload.md) within a byte budget, and decodes those of other
 * workers.
 */

import { DENSE_BLOCK, DENSE_BYTES } from '../../../kinds/_dense.ts';
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { INSIDE_BYTES } from '../../../kinds/manifest.ts';
import { atOnce, inTurns } from '../../base/async.ts';
import { fromHex, utf8 } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { ChunkAssignment } from '../../run/contribution.ts';
import { type SliceFeature, trainedSlices } from '../../run/helpers.ts';
import type { WorkerId } from '../../run/ids.ts';
import { assertPlayable, removedPackings, replayedWith } from '../../run/removed.ts';
import { fullSize, localSlices, slicesOf } from '../../tensor/params.ts';
import { chunkCount, type PartialVector, prefixOfPartial } from '../../tensor/partial-vector.ts';
import { codecs, type Packing, trellisWithin } from '../codec/codecs.ts';
import type { PayloadScope } from '../codec/header.ts';
import {
  decodePayload,
  type EncodedPayload,
  encodePayload,
  encodeSteps,
} from '../codec/payload.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { WireOptions } from './wire.ts';

/** Context in which a payload is packed or decoded. */
export interface PayloadContext {
  readonly round: number;
  readonly worker: WorkerId;
  readonly assignment: ChunkAssignment;
  /** Slices that the worker's manifest lists, in a run with tiers; absent for this worker's own payloads. */
  readonly widths?: SliceFeature | undefined;
  /**
   * Number of slices, from the first on, that started from the same state as this worker's; the others are ignored.
   */
  readonly agreed?: number | undefined;
}

/** Packs deltas into payloads, and opens those of others. */
export type Packer = ReturnType<typeof createPacker>;

export type PackerOptions = Pick<WireOptions, Taken> & { readonly sha256: Sha256 };
type Taken = 'run' | 'layout' | 'helpers' | 'packing' | 'eventBudget';

const ONE_EVENT = 65_536;
/** Bytes of a manifest around its payload, with names of any length. */
const ENVELOPE_BYTES = 2048;
/** Bytes around dense text without the name of the run, which occurs three times: manifest, tags, signature, frame. */
const [DENSE_ENVELOPE_BYTES, NAMES] = [1310, 3];
/**
 * Share of the event bytes that is payload: base64 makes three bytes four, and each chunk of 44 KiB has its own event.
 */
const CHUNKED_SHARE = 0.735;
/** Chunks that are encoded without a pause: about 20 ms of a trellis code. */
const CHUNKS_AT_ONCE = 16;
const NO_ROSTER = '0'.repeat(64);

/** Creates a packer. Each worker may choose its packing; the chunks that it sends follow from the roster. */
export function createPacker(options: PackerOptions) {
  const { run, layout, sha256, helpers } = options;
  const runDigest = sha256(utf8(run));
  const size = fullSize(layout);
  const ends = slicesOf(layout).map(({ to }) => to);
  const sliceOf = (chunk: number) => ends.findIndex((end) => chunk < chunkCount(end));
  const scopeOf = ({ round, worker, assignment, widths }: PayloadContext): PayloadScope => {
    const sliceCount = (widths?.rings ?? localSlices(layout)).length;
    const until = chunkCount(ends[sliceCount - 1]!);
    const tier = widths?.tier ?? helpers?.tier ?? 0;
    const trained = helpers && trainedSlices(helpers, { tier, sliceCount, round });
    const isSent = (chunk: number) =>
      chunk < until && (!trained || trained.includes(sliceOf(chunk)));
    return {
      run: runDigest,
      round,
      size,
      sender: fromHex(worker)!,
      roster: fromHex(assignment.digest ?? NO_ROSTER)!,
      chunks: assignment.chunksOf(worker).filter(isSent),
    };
  };
  const within = (delta: PartialVector, { agreed }: PayloadContext): PartialVector => {
    const until = agreed === undefined ? layout.size : ends[agreed - 1]!;
    const isWhole = layout.size === size && until === size;
    return isWhole ? delta : prefixOfPartial(delta, layout.size, until);
  };
  const packedAs = (delta: Float64Array, context: PayloadContext) => {
    const most = Math.min(context.assignment.most, Math.max(1, chunkCount(layout.size)));
    const packing = packingFor(options, { most });
    const codec = nameOf(packing);
    const finish = ({ payload, sent }: EncodedPayload) => ({
      payload,
      sent: within(sent, context),
      codec,
    });
    return { steps: encodeSteps(delta, packing, scopeOf(context)), finish };
  };
  return {
    /** Encodes a delta at once. */
    pack(delta: Float64Array, context: PayloadContext) {
      const { steps, finish } = packedAs(delta, context);
      return finish(atOnce(steps));
    },
    /** Encodes a delta like `pack`; other work on this thread goes on in between. */
    async packInTurns(delta: Float64Array, context: PayloadContext) {
      const { steps, finish } = packedAs(delta, context);
      return finish(await inTurns(steps, CHUNKS_AT_ONCE));
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
    eventBudget = ONE_EVENT,
  }: Pick<PackerOptions, 'run' | 'packing' | 'eventBudget'>,
  { most }: Pick<ChunkAssignment, 'most'>,
): Packing {
  assertPlayable({ packing });
  if (packing === 'trellis') return trellisWithin(payloadBudget(run, eventBudget), most);
  return { codec: packing, kept: 0 };
}

/**
 * Returns the payload bytes that fit in this many bytes of events, for a run of this name: one manifest with the
 * payload inside, as dense text if base64 is too long, or chunks.
 */
export function payloadBudget(run: string, eventBudget: number): number {
  if (eventBudget > ONE_EVENT) return Math.floor((eventBudget - ENVELOPE_BYTES) * CHUNKED_SHARE);
  const letters =
    eventBudget - DENSE_ENVELOPE_BYTES - NAMES * utf8(JSON.stringify(JSON.stringify(run))).length;
  const dense = DENSE_BYTES * Math.floor(letters / DENSE_BLOCK);
  if (dense > CHUNK_BYTES) return Math.min(INSIDE_BYTES, dense);
  return Math.min(CHUNK_BYTES, 3 * Math.floor((eventBudget - ENVELOPE_BYTES) / 4));
}

/** Returns a codec name without its rate. */
const baseName = (name: string): string => name.replace(/-\d+$/, '');

const isKnown = (name: string): boolean => Object.hasOwn(codecs, baseName(name));

const unknownCodec = (name: string): string =>
  removedPackings.has(baseName(name)) ? replayedWith(name) : `${name} is not a packing`;

const nameOf = ({ codec, kept }: Packing): string => (kept === 0 ? codec : `${codec}-${kept}`);
