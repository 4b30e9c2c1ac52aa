/**
 * Cuts a payload into chunks of 44 KiB (the last one has the rest) under one Merkle root, turns chunks into events of
 * kind 7811 and back, and puts payloads together again. The length alone fixes the chunks, and each one proves itself
 * against the root, so it does not matter who signed or served it. Fetches and publishes nothing itself.
 */
import { CHUNK_BYTES, chunk, MAX_CHUNKS } from '../../../kinds/chunk.ts';
import { concatBytes, fromBase64, fromHex, toBase64, toHex } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { sha256 } from '../../base/hash.ts';
import {
  HASH_BYTES,
  LEAF,
  type MerkleTree,
  merklePath,
  merkleTree,
  NODE,
  pathLength,
  rootFrom,
} from '../../base/merkle.ts';
import type { Digest } from '../../run/ids.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import { accept, type Judged, reject } from '../wire/judged.ts';
import { type ErasureCode, encodeGroup, restoreGroup, shardBytes } from './reed-solomon.ts';

/** Names a payload: these bytes and no others have this root. */
export interface PayloadRoot {
  readonly root: Digest;
  /** Length of the whole payload; the number of chunks follows. */
  readonly bytes: number;
}

/** A chunk and its position, unverified. */
export interface Chunk extends PayloadRoot {
  readonly index: number;
  readonly data: Uint8Array;
  /** Sibling hashes from the leaf to the top, 32 bytes each. */
  readonly path: readonly Uint8Array[];
}

declare const verified: unique symbol;

/** A chunk whose path leads to its root; only `verifyChunk` makes one. */
export interface VerifiedChunk extends Chunk {
  readonly [verified]: true;
}

/** All hashes of one payload. */
export type ChunkTree = PayloadRoot & MerkleTree;

/** Hashes a payload. */
export function chunkTree(payload: Uint8Array, hash: Sha256 = sha256): ChunkTree {
  return { ...merkleTree(splitChunks(payload), hash), bytes: payload.length };
}

/** Returns the chunk if its path leads to its root. Checks lengths before it hashes anything. */
export function verifyChunk(chunk: Chunk, hash: Sha256 = sha256): Result<VerifiedChunk> {
  const { root, bytes, index, data, path } = chunk;
  if (!isChunkIndex(index, bytes)) {
    return refuse(
      'wrong-index',
      'index',
      `no chunk ${index} exists in a payload of ${bytes} bytes`,
    );
  }
  const length = chunkLength(index, bytes);
  if (data.length !== length) {
    return refuse('wrong-length', 'data', `${data.length} bytes instead of ${length}`);
  }
  const count = chunkCount(bytes);
  const needed = pathLength(index, count);
  if (path.length !== needed || path.some((each) => each.length !== HASH_BYTES)) {
    return refuse('wrong-path', 'path', `${path.length} hashes instead of ${needed}`);
  }
  return rootFrom(data, index, path, { count, bytes }, hash) === root
    ? ok(chunk as VerifiedChunk)
    : refuse('wrong-root', 'root', `chunk ${index} is not of ${root}`);
}

/** Reports whether these bytes are that whole payload. */
export const isPayload = (
  payload: Uint8Array,
  { root, bytes }: PayloadRoot,
  hash: Sha256 = sha256,
): boolean => payload.length === bytes && chunkTree(payload, hash).root === root;

const isCount = (value: number, most: number): boolean =>
  Number.isSafeInteger(value) && value >= 1 && value <= most;

/** Reports whether a payload of that length is possible and has a chunk of that index. */
export const isChunkIndex = (index: number, bytes: number): boolean =>
  isCount(bytes, CHUNK_BYTES * MAX_CHUNKS) && isCount(index + 1, Math.ceil(bytes / CHUNK_BYTES));

/** Returns the number of chunks of a payload. Throws a RangeError unless it has at least one byte. */
export function chunkCount(bytes: number): number {
  if (!isChunkIndex(0, bytes)) throw new RangeError(`a payload of ${bytes} bytes`);
  return Math.ceil(bytes / CHUNK_BYTES);
}

/** Returns the length of chunk `index` of a payload; no other length is valid. */
export function chunkLength(index: number, bytes: number): number {
  if (!isChunkIndex(index, bytes)) throw new RangeError(`chunk ${index} of ${bytes} bytes`);
  return Math.min(CHUNK_BYTES, bytes - index * CHUNK_BYTES);
}

/** Returns views of the chunks in order. */
export function splitChunks(payload: Uint8Array): readonly Uint8Array[] {
  return Array.from({ length: chunkCount(payload.length) }, (_, index) =>
    payload.subarray(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES),
  );
}

/** When an event is made, and when relays may forget it; unix seconds. */
export interface Lifetime {
  readonly createdAt: number;
  readonly expiresAt: number;
}

/** A payload ready to be published. */
export interface ChunkPlan extends PayloadRoot {
  readonly count: number;
  /** Returns the unsigned event of one chunk, always the same one. */
  draft(index: number): EventDraft;
}

/** Plans the chunk events of a payload. Drafts read the payload again later: leave it unchanged. */
export function planChunks(
  payload: Uint8Array,
  lifetime: Lifetime,
  hash: Sha256 = sha256,
): ChunkPlan {
  expirationOf(lifetime);
  const tree = chunkTree(payload, hash);
  const { root, bytes, count } = tree;
  const chunks = splitChunks(payload);
  const draft = (index: number) => draftChunk(tree, index, chunks[index]!, lifetime);
  return { root, bytes, count, draft };
}

/** Returns the unsigned event of one chunk. */
export function draftChunk(
  tree: ChunkTree,
  index: number,
  data: Uint8Array,
  lifetime: Lifetime,
): EventDraft {
  const { root, bytes, count } = tree;
  const path = merklePath(tree, index).map(toHex);
  const fields = { root, index, count, bytes, path: path.length > 0 ? path : undefined };
  const expiration = expirationOf(lifetime);
  return chunk.build({ ...fields, expiration, data: toBase64(data) }, lifetime.createdAt);
}

/** Returns the `expiration` of a lifetime. Throws a RangeError if it is over before it begins. */
export function expirationOf({ createdAt, expiresAt }: Lifetime): number {
  if (!(expiresAt > createdAt)) throw new RangeError(`made at ${createdAt}, over at ${expiresAt}`);
  return expiresAt;
}

const LONGEST_CONTENT = 4 * Math.ceil(CHUNK_BYTES / 3);

/** Returns the verified chunk of an event, or why it is refused. Checks sizes before it decodes or hashes anything. */
export function toChunk(
  event: SignedEvent,
  { maxPayloadBytes }: { readonly maxPayloadBytes: number },
  hash: Sha256 = sha256,
): Judged<VerifiedChunk> {
  if (event.content.length > LONGEST_CONTENT) {
    return reject(event, 'too-large', `a chunk of ${event.content.length} characters`);
  }
  const parsed = chunk.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const { root, bytes, index, path = [], data } = parsed.value;
  if (bytes > maxPayloadBytes) {
    return reject(event, 'too-large', `of a payload of ${bytes} bytes, over ${maxPayloadBytes}`);
  }
  const decoded = fromBase64(data);
  if (decoded === undefined) return reject(event, 'malformed', 'not canonical base64');
  const hashes = path.map((each) => fromHex(each)!);
  const proven = verifyChunk({ root, bytes, index, data: decoded, path: hashes }, hash);
  return proven.ok ? accept(proven.value) : reject(event, 'malformed', proven.issue.message);
}

/** Returns the `c` tag under which a chunk is requested: short enough for every relay to index. */
export const chunkKey = (root: Digest, index: number): string => `${root.slice(0, 16)}/${index}`;

/** Reports whether a chunk has to be sent: chunks of zeros are not, except the first, whose path proves the others. */
export const isSent = (chunk: Uint8Array, index: number): boolean =>
  index === 0 || chunk.some((byte) => byte !== 0);

/**
 * Hashes of zeros at any node of the tree over a payload. Chunks of zeros, such as momentum before the first step, are
 * not sent: a neighbour's Merkle path proves them, if a hash on it is the one of zeros.
 */
export class ZeroTree {
  readonly #bytes: number;
  readonly #count: number;
  readonly #sha256: Sha256;
  readonly #nodes = new Map<string, Uint8Array>();

  constructor(bytes: number, hash: Sha256) {
    this.#bytes = bytes;
    this.#count = chunkCount(bytes);
    this.#sha256 = hash;
  }

  /** Returns the indices of the chunks that this one's path proves to be zeros. */
  beside({ index, path }: Pick<VerifiedChunk, 'index' | 'path'>): readonly number[] {
    const zeros: number[] = [];
    let used = 0;
    for (let height = 0; this.#width(height) > 1; height++) {
      const position = (index >>> height) ^ 1;
      if (position >= this.#width(height)) continue;
      if (toHex(path[used++]!) !== toHex(this.#node(height, position))) continue;
      const from = position * 2 ** height;
      const to = Math.min(this.#count, from + 2 ** height);
      for (let i = from; i < to; i++) zeros.push(i);
    }
    return zeros;
  }

  #width(height: number): number {
    return Math.ceil(this.#count / 2 ** height);
  }

  #node(height: number, position: number): Uint8Array {
    // nodes of one height are equal, but for the one over the last chunk, which may be shorter
    const hasLast = (position + 1) * 2 ** height >= this.#count;
    const name = hasLast ? `${height}/${position}` : String(height);
    const node = this.#nodes.get(name) ?? this.#hash(height, position);
    this.#nodes.set(name, node);
    return node;
  }

  #hash(height: number, position: number): Uint8Array {
    if (height === 0) {
      const zeros = new Uint8Array(chunkLength(position, this.#bytes));
      return this.#sha256(concatBytes(LEAF, zeros));
    }
    const left = this.#node(height - 1, 2 * position);
    if (2 * position + 1 >= this.#width(height - 1)) return left;
    return this.#sha256(concatBytes(NODE, left, this.#node(height - 1, 2 * position + 1)));
  }
}

export type Assembled =
  | { readonly ok: true; readonly bytes: Uint8Array }
  /** Indices of the chunks that are missing, ascending. */
  | { readonly ok: false; readonly missing: readonly number[] };

/** A payload that is put together from verified chunks, in any order. */
export interface Assembly extends PayloadRoot {
  readonly count: number;
  /** Number of received chunks. */
  readonly received: number;
  has(index: number): boolean;
  /** Adds a chunk; the value is false if it was added before. Refuses chunks of other payloads. */
  add(chunk: VerifiedChunk): Result<boolean>;
  /** Returns the payload, or what is missing. */
  result(): Assembled;
}

export interface AssemblyOptions {
  /** Maximum size; larger payloads are refused. */
  readonly maxBytes: number;
  /** Default pure JavaScript. */
  readonly sha256?: Sha256 | undefined;
}

const NO_BYTES = new Uint8Array();

/** Starts an empty assembly; refuses a payload larger than `maxBytes`. It needs no more memory than has arrived. */
export function createAssembly(
  { root, bytes }: PayloadRoot,
  { maxBytes, sha256: hash = sha256 }: AssemblyOptions,
): Result<Assembly> {
  if (bytes > maxBytes) {
    return refuse('too-large', 'bytes', `a payload of ${bytes} bytes, over ${maxBytes}`);
  }
  const count = chunkCount(bytes);
  const chunks = new Map<number, Uint8Array>();
  const zeros = new ZeroTree(bytes, hash);
  return ok({
    root,
    bytes,
    count,
    get received() {
      return chunks.size;
    },
    has: (index) => chunks.has(index),
    add: (chunk) => {
      if (chunk.root !== root || chunk.bytes !== bytes) {
        return refuse('other-payload', 'root', `a chunk of ${chunk.root}, not of ${root}`);
      }
      if (chunks.has(chunk.index)) return ok(false);
      chunks.set(chunk.index, chunk.data.slice());
      // zeros need no memory
      for (const index of zeros.beside(chunk)) {
        if (!chunks.has(index)) chunks.set(index, NO_BYTES);
      }
      return ok(true);
    },
    result: () => {
      const missing = [...Array(count).keys()].filter((index) => !chunks.has(index));
      if (missing.length > 0) return { ok: false, missing };
      const whole = new Uint8Array(bytes);
      for (const [index, data] of chunks) whole.set(data, index * CHUNK_BYTES);
      return { ok: true, bytes: whole };
    },
  });
}

/** A payload and, if it is erasure-coded, its shards. */
export interface ErasureCoded extends PayloadRoot {
  /** How many shards restore it. */
  readonly need?: number | undefined;
  /** Roots of all shards, data first. */
  readonly shards?: readonly Digest[] | undefined;
}

/** Returns the parts to publish: the shards, or the payload alone if it is not erasure-coded. */
export const cutParts = (
  payload: Uint8Array,
  erasure: ErasureCode | undefined,
): readonly Uint8Array[] => (erasure ? encodeGroup(payload, erasure) : [payload]);

/** Returns the parts to fetch; any `need` of them are enough. */
export function partsOf(payload: ErasureCoded): {
  readonly need: number;
  readonly roots: readonly PayloadRoot[];
} {
  const erasure = erasureOf(payload);
  const { root, bytes, shards } = payload;
  if (!erasure || !shards) return { need: 1, roots: [{ root, bytes }] };
  const length = shardBytes(erasure, bytes);
  return { need: erasure.data, roots: shards.map((shard) => ({ root: shard, bytes: length })) };
}

/** Restores the payload from its parts, `undefined` where one is missing; undefined if there are too few. */
export function joinParts(
  parts: readonly (Uint8Array | undefined)[],
  payload: ErasureCoded,
): Uint8Array | undefined {
  const erasure = erasureOf(payload);
  if (!erasure) return parts[0];
  const restored = restoreGroup(parts, erasure, payload.bytes);
  return restored.ok ? restored.bytes : undefined;
}

/** Returns the erasure code of a payload, or undefined if it has none. */
export function erasureOf({ need, shards }: ErasureCoded): ErasureCode | undefined {
  if (need === undefined || shards === undefined) return undefined;
  return { data: need, parity: shards.length - need };
}

/** Assembles a payload; undefined if a chunk is missing, or if it has more than `maxBytes`. */
export type ChunkHeap = (payload: ErasureCoded) => Uint8Array | undefined;

/** Collects the chunks among verified events that belong to payloads of at most `maxBytes`. */
export function heapChunks(events: Iterable<SignedEvent>, maxBytes: number): ChunkHeap {
  const chunks = new Map<Digest, VerifiedChunk[]>();
  for (const event of events) {
    const judged = toChunk(event, { maxPayloadBytes: maxBytes });
    if (!judged.ok) continue;
    const sameRoot = chunks.get(judged.value.root);
    if (sameRoot === undefined) chunks.set(judged.value.root, [judged.value]);
    else sameRoot.push(judged.value);
  }
  return (payload) => {
    if (payload.bytes > maxBytes) return undefined;
    const parts = partsOf(payload).roots.map((part) => {
      const assembly = createAssembly(part, { maxBytes });
      if (!assembly.ok) return undefined;
      for (const chunk of chunks.get(part.root) ?? []) assembly.value.add(chunk);
      const result = assembly.value.result();
      return result.ok ? result.bytes : undefined;
    });
    return joinParts(parts, payload);
  };
}
