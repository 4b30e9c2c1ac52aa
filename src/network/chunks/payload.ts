/**
 * How a payload is cut and named: chunks of 44 KiB, the last one having what is left, so that length alone fixes them and nobody can cut the same
 * bytes another way; and the hash tree over them, by which one chunk can be checked alone, whoever served it.
 */
import { CHUNK_BYTES, chunk, MAX_CHUNKS } from '../../../kinds/chunk.ts';
import { concatBytes, fromBase64, fromHex, toBase64, toHex } from '../../base/bytes.ts';
import { sha256 as pureSha256, sha256 } from '../../base/hash.ts';
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
import { ok, type Result, refuse } from '../../base/result.ts';
import type { Digest } from '../../run/ids.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import { accept, type Judged, reject } from '../wire/judged.ts';
import { joinParts, partsOf, type Striped } from './reed-solomon.ts';

/** Names a payload: whoever has the bytes of this root has that payload. */
export interface PayloadRoot {
  readonly root: Digest;
  /** Of the whole payload; the number of chunks follows. */
  readonly bytes: number;
}

/** A chunk and its place, as somebody claims it. */
export interface Chunk extends PayloadRoot {
  readonly index: number;
  readonly data: Uint8Array;
  /** Hashes from the leaf to the top, 32 bytes each. */
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

/** The neighbours of a chunk's ancestors, from the leaf up. */
export const chunkPath = (tree: ChunkTree, index: number): readonly Uint8Array[] =>
  merklePath(tree, index);

/** The same chunk when its path leads to its root. Lengths are judged before anything is hashed. */
export function verifyChunk(chunk: Chunk, hash: Sha256 = sha256): Result<VerifiedChunk> {
  const { root, bytes, index, data, path } = chunk;
  if (!isPlace(index, bytes)) {
    return refuse('wrong-index', 'index', `no chunk ${index} in a payload of ${bytes} bytes`);
  }
  const length = chunkLength(index, bytes);
  if (data.length !== length) {
    return refuse('wrong-length', 'data', `${data.length} bytes where ${length} belong`);
  }
  const count = chunkCount(bytes);
  const needed = pathLength(index, count);
  if (path.length !== needed || path.some((each) => each.length !== HASH_BYTES)) {
    return refuse('wrong-path', 'path', `${path.length} hashes where ${needed} lead to the root`);
  }
  return rootFrom(data, index, path, { count, bytes }, hash) === root
    ? ok(chunk as VerifiedChunk)
    : refuse('wrong-root', 'root', `chunk ${index} is not of ${root}`);
}

/** Whether these bytes are that payload, whole. */
export const isPayload = (
  payload: Uint8Array,
  { root, bytes }: PayloadRoot,
  hash: Sha256 = sha256,
): boolean => payload.length === bytes && chunkTree(payload, hash).root === root;

const isCount = (value: number, most: number): boolean =>
  Number.isSafeInteger(value) && value >= 1 && value <= most;

/** Whether there can be a payload of that length with a chunk of that index. */
export const isPlace = (index: number, bytes: number): boolean =>
  isCount(bytes, CHUNK_BYTES * MAX_CHUNKS) && isCount(index + 1, Math.ceil(bytes / CHUNK_BYTES));

/** How many chunks a payload of that length has; it has at least one byte. */
export function chunkCount(bytes: number): number {
  if (!isPlace(0, bytes)) throw new RangeError(`a payload of ${bytes} bytes`);
  return Math.ceil(bytes / CHUNK_BYTES);
}

/** The only length chunk `index` of such a payload can have. */
export function chunkLength(index: number, bytes: number): number {
  if (!isPlace(index, bytes)) throw new RangeError(`chunk ${index} of ${bytes} bytes`);
  return Math.min(CHUNK_BYTES, bytes - index * CHUNK_BYTES);
}

/** The chunks in order: views, nothing is copied. */
export function splitChunks(payload: Uint8Array): readonly Uint8Array[] {
  return Array.from({ length: chunkCount(payload.length) }, (_, index) =>
    payload.subarray(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES),
  );
}

// FROM /**  * Chunks of nothing but zeros, such as momentum before the first step: they are not sent. Whoever has a chunk beside them knows them from its Merkle  * path, in which a hash that is the one of zeros at that place says what is there.  */
/** Whether a chunk has to be sent: it says anything, or it is the first, without which there may be nothing to learn from. */
export const isSent = (chunk: Uint8Array, index: number): boolean =>
  index === 0 || chunk.some((byte) => byte !== 0);

/** Hashes of zeros at any place in the tree over a payload of that length, each computed when it is first asked for. */
export class ZeroTree {
  readonly #bytes: number;
  readonly #count: number;
  readonly #sha256: Sha256;
  readonly #nodes = new Map<string, Uint8Array>();

  constructor(bytes: number, sha256: Sha256) {
    this.#bytes = bytes;
    this.#count = chunkCount(bytes);
    this.#sha256 = sha256;
  }

  /** Indices of chunks that this one's path proves to be zeros: each height at which all on the other side are. */
  beside({ index, path }: Pick<VerifiedChunk, 'index' | 'path'>): readonly number[] {
    const found: number[] = [];
    let used = 0;
    for (let height = 0; this.#width(height) > 1; height++) {
      const position = (index >>> height) ^ 1;
      if (position >= this.#width(height)) continue;
      if (!isEqual(path[used++], this.#node(height, position))) continue;
      const from = position * 2 ** height;
      const to = Math.min(this.#count, from + 2 ** height);
      for (let i = from; i < to; i++) found.push(i);
    }
    return found;
  }

  #width(height: number): number {
    return Math.ceil(this.#count / 2 ** height);
  }

  #node(height: number, position: number): Uint8Array {
    // all that do not have the last chunk are alike
    const hasLast = (position + 1) * 2 ** height >= this.#count;
    const name = hasLast ? `${height}/${position}` : String(height);
    const known = this.#nodes.get(name);
    if (known) return known;
    const made = this.#hash(height, position);
    this.#nodes.set(name, made);
    return made;
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

const isEqual = (a: Uint8Array | undefined, b: Uint8Array): boolean =>
  a !== undefined && a.length === b.length && a.every((byte, i) => byte === b[i]);

// FROM /**  * Large payloads to chunk events and back, and what to ask relays for. A chunk proves itself, so who signed it and when is  * not judged: anybody may serve it. Publishing order is the caller's: chunks first, then the manifest.  */
/** When an event is made, and when relays may forget it; unix seconds. */
export interface Lifetime {
  readonly createdAt: number;
  readonly expiresAt: number;
}

/** A payload ready to be published. */
export interface ChunkPlan extends PayloadRoot {
  readonly count: number;
  /** The unsigned event of one chunk, made when it is asked for, the same one every time. */
  draft(index: number): EventDraft;
}

export interface ChunkContext {
  /** Chunks of larger payloads are refused unread. */
  readonly maxPayloadBytes: number;
}

const LONGEST_CONTENT = 4 * Math.ceil(CHUNK_BYTES / 3);

/** The chunk events of a payload. It is hashed now and read again while drafts are made: leave it unchanged. */
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

/** The unsigned event of one chunk of a payload whose tree is known. */
export function draftChunk(
  tree: ChunkTree,
  index: number,
  data: Uint8Array,
  lifetime: Lifetime,
): EventDraft {
  const { root, bytes, count } = tree;
  const path = chunkPath(tree, index).map(toHex);
  const place = { root, index, count, bytes, path: path.length > 0 ? path : undefined };
  const expiration = expirationOf(lifetime);
  return chunk.build({ ...place, expiration, data: toBase64(data) }, lifetime.createdAt);
}

/** The `expiration` of a lifetime that has one. */
export function expirationOf({ createdAt, expiresAt }: Lifetime): number {
  if (!(expiresAt > createdAt)) throw new RangeError(`made at ${createdAt}, over at ${expiresAt}`);
  return expiresAt;
}

/** The proven chunk inside an event, or why it is refused. Sizes are judged before anything is decoded or hashed. */
export function toChunk(
  event: SignedEvent,
  { maxPayloadBytes }: ChunkContext,
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
  if (!proven.ok) return reject(event, 'malformed', proven.issue.message);
  return accept(proven.value);
}

/** The `c` tag of a chunk, by which it is asked for: short enough for every relay to index. */
export const chunkKey = (root: Digest, index: number): string => `${root.slice(0, 16)}/${index}`;

// FROM /**  * Puts payloads together from chunks that anybody served, one by one or out of a heap of events. Only verified chunks get in, so order,  * repeats and who sent what do not matter. Holds no more memory than what has arrived; fetches nothing itself.  */
export type Assembled =
  | { readonly ok: true; readonly bytes: Uint8Array }
  /** Indices of the chunks not held yet, ascending. */
  | { readonly ok: false; readonly missing: readonly number[] };

export interface Assembly extends PayloadRoot {
  readonly count: number;
  /** Chunks that are here. */
  readonly held: number;
  /** Takes a chunk; the value is false when it was here already. Refuses chunks of other payloads. */
  add(chunk: VerifiedChunk): Result<boolean>;
  /** The payload when all of it is here, or what is not. */
  result(): Assembled;
}

export interface AssemblyOptions {
  /** A larger payload is refused. */
  readonly maxBytes: number;
  /** Told of each chunk as it gets here, and of those that others prove to be zeros. */
  onHeld?(index: number): void;
  /** Default pure JavaScript. */
  readonly sha256?: Sha256 | undefined;
}

const NO_BYTES = new Uint8Array();

/** An empty assembly of one payload, or a refusal when the payload is larger than we want. */
export function createAssembly(
  { root, bytes }: PayloadRoot,
  { maxBytes, onHeld, sha256 = pureSha256 }: AssemblyOptions,
): Result<Assembly> {
  if (bytes > maxBytes) {
    return refuse('too-large', 'bytes', `a payload of ${bytes} bytes, over ${maxBytes}`);
  }
  const count = chunkCount(bytes);
  const chunks = new Map<number, Uint8Array>();
  const zeros = new ZeroTree(bytes, sha256);
  const hold = (index: number, data: Uint8Array) => {
    if (chunks.has(index)) return;
    chunks.set(index, data);
    onHeld?.(index);
  };
  return ok({
    root,
    bytes,
    count,
    get held() {
      return chunks.size;
    },
    add: (chunk) => {
      if (chunk.root !== root || chunk.bytes !== bytes) {
        return refuse('other-payload', 'root', `a chunk of ${chunk.root}, not of ${root}`);
      }
      if (chunks.has(chunk.index)) return ok(false);
      hold(chunk.index, chunk.data.slice());
      // of zeros nothing needs to be kept
      if (chunks.size < count) for (const index of zeros.beside(chunk)) hold(index, NO_BYTES);
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

/** What can be put together; undefined while a chunk is missing, and for more than `maxBytes`. */
export type ChunkHeap = (payload: Striped) => Uint8Array | undefined;

/** All chunks among verified events that belong to something of at most `maxBytes`. */
export function heapChunks(events: Iterable<SignedEvent>, maxBytes: number): ChunkHeap {
  const chunks = new Map<Digest, VerifiedChunk[]>();
  for (const event of events) {
    const judged = toChunk(event, { maxPayloadBytes: maxBytes });
    if (!judged.ok) continue;
    const held = chunks.get(judged.value.root);
    if (held === undefined) chunks.set(judged.value.root, [judged.value]);
    else held.push(judged.value);
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
