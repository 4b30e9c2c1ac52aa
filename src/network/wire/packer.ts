/** How `nostrain/1` turns a delta into the bytes of a payload and back: as the reference does, or chunk by chunk. */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { fromHex, utf8 } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import { decodeNstr, encodeNstr } from '../../python/codec/nstr.ts';
import type { ChunkAssignment } from '../../run/chunk-assignment.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { PackingName } from '../../run/settings.ts';
import type { Layout } from '../../tensor/params.ts';
import { CHUNK_LENGTH, type PartialVector } from '../../tensor/partial-vector.ts';
import { partialOf } from '../../tensor/sparse.ts';
import { choosePacking, payloadBudget } from '../codec/budget.ts';
import { codecs, type Packing } from '../codec/codecs.ts';
import { decodePayload, encodePayload } from '../codec/payload.ts';
import type { PayloadScope } from '../codec/payload-header.ts';
import type { Sha256 } from '../event-crypto.ts';

export interface Packed {
  readonly payload: Uint8Array;
  /** What a manifest calls it. */
  readonly codec: string;
  /** Exactly what receivers decode. */
  readonly sent: PartialVector;
}

/** What a payload belongs to. */
export interface Place {
  readonly round: number;
  readonly worker: WorkerId;
  readonly assignment: ChunkAssignment;
}

export interface Packer {
  pack(delta: Float64Array, place: Place): Packed;
  /** The delta inside a payload from a stranger, or why it is none. */
  open(payload: Uint8Array, codec: string, place: Place): Result<PartialVector>;
}

export interface PackerOptions {
  readonly run: string;
  readonly layout: Layout;
  readonly packing?: PackingName | undefined;
  readonly eventBudget?: number | undefined;
  readonly ratio: number;
  readonly maxContainerBytes: number;
  readonly sha256: Sha256;
}

const NSTR = 'nstr';
const ONE_EVENT = 65_536;
/** Of a manifest beside its payload, with names of any length. */
const ENVELOPE_BYTES = 2048;
/** Base64 turns three bytes into four, and every chunk of 44 KiB has an event of its own around it. */
const CHUNKED_SHARE = 0.735;
const NO_ROSTER = '0'.repeat(64);

export const createPacker = (options: PackerOptions): Packer =>
  (options.packing ?? NSTR) === NSTR ? nstrPacker(options) : chunkPacker(options);

/** The block of the Python reference, saying Δ = before - after of all parameters. */
const nstrPacker = ({ layout, ratio, maxContainerBytes }: PackerOptions): Packer => ({
  pack(delta) {
    const { container, sent } = encodeNstr({ layout, values: delta }, { ratio });
    return { payload: container, codec: NSTR, sent: partialOf(sent) };
  },
  open(payload, codec) {
    if (codec !== NSTR) return unknown(codec, NSTR);
    const decoded = decodeNstr(payload, { layout, maxContainerBytes });
    return decoded.ok ? ok(partialOf(decoded.value.delta)) : decoded;
  },
});

/** The payload of docs/payload.md. Every worker may choose its packing; the assignment are the same for all. */
function chunkPacker(options: PackerOptions): Packer {
  const { run, layout, sha256 } = options;
  const runDigest = sha256(utf8(run));
  const scopeOf = ({ round, worker, assignment }: Place): PayloadScope => ({
    run: runDigest,
    round,
    size: layout.size,
    roster: fromHex(assignment.digest ?? NO_ROSTER)!,
    chunks: assignment.chunksOf(worker),
  });
  return {
    pack(delta, place) {
      const packing = packingFor(options, place.assignment);
      return { ...encodePayload(delta, packing, scopeOf(place)), codec: nameOf(packing) };
    },
    open(payload, codec, place) {
      if (codec === NSTR) return unknown(codec, 'the packings of docs/payload.md');
      const decoded = decodePayload(payload, scopeOf(place));
      if (!decoded.ok) return decoded;
      const { packing, delta } = decoded.value;
      const name = nameOf(packing);
      if (name === codec) return ok(delta);
      return refuse('bad-payload', 'codec', `packed as ${name}, the manifest says ${codec}`);
    },
  };
}

const unknown = (codec: string, known: string) =>
  refuse('unknown-codec', 'codec', `packed as ${codec}, this run takes ${known}`);

/** The packing of a run whose workers send that many chunks. Throws a `ConfigError` where none fits the budget. */
export function packingFor(
  {
    packing = 'auto',
    ratio,
    eventBudget = ONE_EVENT,
  }: Pick<PackerOptions, 'packing' | 'ratio' | 'eventBudget'>,
  { most }: Pick<ChunkAssignment, 'most'>,
): Packing {
  if (packing === 'auto' || packing === NSTR) return choosePacking(rawBudget(eventBudget), most);
  const isDense = codecs[packing].sends === 'all';
  const kept = Math.min(CHUNK_LENGTH - 1, Math.max(1, Math.round(ratio * CHUNK_LENGTH)));
  return { codec: packing, kept: isDense ? 0 : kept };
}

/** Bytes of payload in so many bytes of events: one manifest with everything inside, or chunks and a manifest. */
function rawBudget(eventBudget: number): number {
  if (eventBudget > ONE_EVENT) return Math.floor((eventBudget - ENVELOPE_BYTES) * CHUNKED_SHARE);
  return Math.min(CHUNK_BYTES, payloadBudget(eventBudget, ENVELOPE_BYTES));
}

const nameOf = ({ codec, kept }: Packing): string => (kept === 0 ? codec : `${codec}-${kept}`);
