/**
 * The manifest of a chunked file: its length, its hashes, and the hashes of every chunk and parity chunk in order,
 * so names and offsets follow from the list and nothing can overlap. Also the hashers: SHA-256, BLAKE3 and the
 * Merkle root.
 */

import { createBLAKE3 } from 'hash-wasm';
import { CHUNK_BYTES, MAX_CHUNKS } from '../../../kinds/chunk.ts';
import { toHex, utf8 } from '../../base/bytes.ts';
import { canonicalJson, type Json, parseJson } from '../../base/canonical-json.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { CreateSha256 } from '../../base/hash.ts';
import { sha256 } from '../../base/hash.ts';
import { LEAF, treeOver } from '../../base/merkle.ts';
import { isHash, isWithin, listOf } from '../../base/shape.ts';
import type { Digest } from '../../run/ids.ts';
import { JsonReader } from '../../run/json-reader.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { ChunkTree } from './payload.ts';
import type { ErasureCode } from './reed-solomon.ts';

/** The two names of some bytes. */
export interface Hashes {
  /** The address of a blob on Blossom servers. */
  readonly sha256: Digest;
  readonly blake3: Digest;
}

/** Hashes and chunks of one file. */
export interface FileManifest extends Hashes {
  /** File size. */
  readonly bytes: number;
  /** Root of its 44 KiB chunk events, which outcomes of certified runs name; null if the file is too long for them. */
  readonly root: Digest | null;
  /** Length of every chunk except the last. */
  readonly chunkBytes: number;
  /** Erasure code of the file: every k = `data` chunks have m = `parity` more, any k of the k + m restore the rest. */
  readonly erasure: ErasureCode | null;
  readonly chunks: readonly Hashes[];
  /** Hashes of the parity chunks, `erasure.parity` for each erasure-coded group, group by group. */
  readonly parity: readonly Hashes[];
}

/** One chunk or parity chunk, and where it belongs. */
export interface Piece extends Hashes {
  /** Name in messages: `chunk 3`, `parity 1 of group 0`. */
  readonly name: string;
  readonly bytes: number;
  /** Index of its erasure-coded group. */
  readonly group: number;
  /** Its row among the chunks and parity chunks of its group. */
  readonly row: number;
  /** Offset in the file, in bytes; undefined for a parity chunk. */
  readonly offset: number | undefined;
}

/** One erasure-coded group: its chunks, then its parity chunks. */
export interface ErasureGroup {
  readonly data: readonly Piece[];
  readonly parity: readonly Piece[];
  /** Length of its chunks in the parity computation; shorter ones are padded with zeros. */
  readonly bytes: number;
}

export const LEAST_CHUNK_BYTES = 2 ** 14;
export const MOST_CHUNK_BYTES = 2 ** 26;
/** Maximum file size, 64 GiB; larger manifests are refused before anything is fetched. */
const MOST_FILE_BYTES = 2 ** 36;
/** Maximum chunks and parity chunks of a manifest, whose text is then at most 36 MB. */
export const MOST_PIECES = 2 ** 18;
export const MOST_MANIFEST_BYTES = 2 ** 22 * 10;
const FORMAT = 'nostrain/chunks/1';
const MOST_ROWS = 256;

/** Returns the number of chunks of a file. */
export const chunkCount = (bytes: number, chunkBytes: number): number =>
  Math.ceil(bytes / chunkBytes);

/** Returns the number of data chunks in a group; without parity each chunk is a group. */
const groupSize = (erasure: ErasureCode | null): number => erasure?.data ?? 1;

/** Returns the number of parity chunks of a file with this many chunks. */
const parityCount = (chunks: number, erasure: ErasureCode | null): number =>
  erasure === null ? 0 : Math.ceil(chunks / erasure.data) * erasure.parity;

/** Returns why a file cannot be cut like this; undefined if it can. */
export function layoutProblem(
  bytes: number,
  { chunkBytes, erasure }: Pick<FileManifest, 'chunkBytes' | 'erasure'>,
): string | undefined {
  if (!isWithin(1, MOST_FILE_BYTES)(bytes)) {
    return `${bytes} bytes: a file has 1 to ${MOST_FILE_BYTES}`;
  }
  if (!isWithin(LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES)(chunkBytes)) {
    return `chunks of ${chunkBytes} bytes: they have ${LEAST_CHUNK_BYTES} to ${MOST_CHUNK_BYTES}`;
  }
  const isValid =
    erasure === null ||
    ([erasure.data, erasure.parity].every(isWithin(1, MOST_ROWS - 1)) &&
      erasure.data + erasure.parity <= MOST_ROWS);
  if (!isValid) return `a group needs 1 chunk, 1 parity chunk and at most ${MOST_ROWS} in all`;
  const count = chunkCount(bytes, chunkBytes);
  const all = count + parityCount(count, erasure);
  return all > MOST_PIECES ? `${all} chunks: at most ${MOST_PIECES}` : undefined;
}

/** Returns the erasure-coded groups of a file in order; without parity each chunk is a group. */
export function erasureGroups(manifest: FileManifest): readonly ErasureGroup[] {
  const { chunks, parity, erasure, bytes, chunkBytes } = manifest;
  const width = groupSize(erasure);
  const rows = erasure?.parity ?? 0;
  return Array.from({ length: Math.ceil(chunks.length / width) }, (_, at) => {
    const data = chunks.slice(at * width, (at + 1) * width).map((hashes, row): Piece => {
      const index = at * width + row;
      const offset = index * chunkBytes;
      const length = Math.min(chunkBytes, bytes - offset);
      return { ...hashes, name: `chunk ${index}`, bytes: length, group: at, row, offset };
    });
    const longest = data[0]!.bytes;
    return {
      data,
      bytes: longest,
      parity: parity.slice(at * rows, (at + 1) * rows).map((hashes, i) => ({
        ...hashes,
        name: `parity ${i} of group ${at}`,
        bytes: longest,
        group: at,
        row: width + i,
        offset: undefined,
      })),
    };
  });
}

/** Returns every chunk and parity chunk. */
export const piecesOf = (manifest: FileManifest): readonly Piece[] =>
  erasureGroups(manifest).flatMap(({ data, parity }) => [...data, ...parity]);

const pairOf = ({ blake3, sha256: address }: Hashes): Json => [blake3, address];

/** Returns the manifest as canonical JSON: the same bytes on every machine. */
export function manifestText(manifest: FileManifest): string {
  const { bytes, root, chunkBytes, erasure, chunks, parity, blake3, sha256: address } = manifest;
  return canonicalJson({
    format: FORMAT,
    bytes,
    blake3,
    sha256: address,
    root,
    chunkBytes,
    stripe: erasure && { data: erasure.data, parity: erasure.parity },
    chunks: chunks.map(pairOf),
    parity: parity.map(pairOf),
  });
}

/** Returns the SHA-256 of the text, which names a manifest and is its address as a blob. */
export const manifestDigest = (manifest: FileManifest, hash: Sha256 = sha256): Digest =>
  toHex(hash(utf8(manifestText(manifest))));

/** Parses a manifest from an untrusted text; refuses wrong counts, unknown members, and text that is not canonical. */
export function parseManifest(text: string): Result<FileManifest> {
  if (text.length > MOST_MANIFEST_BYTES) {
    return refuse('too-large', 'manifest', `${text.length} characters`);
  }
  const parsed = parseJson(text);
  if (!parsed.ok) return parsed;
  const reader = new JsonReader(parsed.value);
  reader.text('format', (format) => format === FORMAT);
  const manifest: FileManifest = {
    bytes: reader.integer('bytes', Number.MAX_SAFE_INTEGER),
    sha256: reader.hex32('sha256'),
    blake3: reader.hex32('blake3'),
    root: reader.take<Digest | null>('root', (value) => nullOr(value, digestIn), null),
    chunkBytes: reader.integer('chunkBytes', MOST_CHUNK_BYTES),
    erasure: reader.take<ErasureCode | null>('stripe', (value) => nullOr(value, readErasure), null),
    chunks: reader.take('chunks', readHashes, []),
    parity: reader.take('parity', readHashes, []),
  };
  if (reader.problem !== undefined) {
    return refuse('bad-manifest', reader.problem, `\`${reader.problem}\` is invalid`);
  }
  const problem = layoutProblem(manifest.bytes, manifest) ?? contradiction(manifest);
  if (problem !== undefined) return refuse('bad-manifest', 'manifest', problem);
  return manifestText(manifest) === text
    ? ok(manifest)
    : refuse('not-canonical', 'manifest', 'it has unknown members, or is not canonical JSON');
}

const digestIn = (value: Json): Digest | undefined => (isHash(value) ? value : undefined);

const nullOr = <T>(value: Json | undefined, read: (value: Json) => T | undefined) =>
  value === null || value === undefined ? (value as null | undefined) : read(value);

function readErasure(value: Json): ErasureCode | undefined {
  const reader = new JsonReader(value);
  const erasure = {
    data: reader.integer('data', MOST_ROWS),
    parity: reader.integer('parity', MOST_ROWS),
  };
  return reader.problem === undefined ? erasure : undefined;
}

const arePairs = listOf(listOf(isHash, 2, 2), MOST_PIECES);

const readHashes = (value: Json | undefined): readonly Hashes[] | undefined =>
  arePairs(value)
    ? value.map(([blake3, sha256]) => ({ blake3: blake3!, sha256: sha256! }))
    : undefined;

/** Returns how a manifest contradicts itself; undefined if it does not. */
function contradiction(manifest: FileManifest): string | undefined {
  const { bytes, chunkBytes, erasure, chunks, parity } = manifest;
  const count = chunkCount(bytes, chunkBytes);
  if (chunks.length !== count) {
    return `${chunks.length} chunks, but ${bytes} bytes make ${count} of ${chunkBytes}`;
  }
  const expected = parityCount(count, erasure);
  if (parity.length !== expected) return `${parity.length} parity chunks instead of ${expected}`;
  const known = new Map<Digest, Piece>();
  for (const piece of piecesOf(manifest)) {
    const same = known.get(piece.sha256);
    if (same && (same.blake3 !== piece.blake3 || same.bytes !== piece.bytes)) {
      return `${same.name} and ${piece.name} have the same SHA-256 but differ`;
    }
    known.set(piece.sha256, piece);
  }
  return undefined;
}

/** Hashes one sequence of bytes after the other. */
export interface Digester {
  update(bytes: Uint8Array): void;
  /** Returns the hashes of all bytes since the last call, and starts anew. */
  digest(): Hashes;
}

/** A BLAKE3 hasher; starts anew after `digest`, which returns lowercase hex. */
export interface Blake3 {
  update(bytes: Uint8Array): void;
  digest(): Digest;
}

/** Creates a digester; uses the machine's own hash functions if they are passed. */
export async function createDigester(
  createSha256: CreateSha256,
  createOther: () => Promise<Blake3> = createBlake3,
): Promise<Digester> {
  const blake3 = await createOther();
  let sha256 = createSha256();
  return {
    update: (bytes) => {
      sha256.update(bytes);
      blake3.update(bytes);
    },
    digest: () => {
      const digests = { sha256: toHex(sha256.digest()), blake3: blake3.digest() };
      sha256 = createSha256();
      return digests;
    },
  };
}

/** Creates a BLAKE3 hasher in WebAssembly. */
export async function createBlake3(): Promise<Blake3> {
  const hasher = await createBLAKE3();
  return {
    update: (bytes: Uint8Array): void => void hasher.update(bytes),
    digest(): Digest {
      const digests = hasher.digest('hex');
      hasher.init();
      return digests;
    },
  };
}

/** Computes the root over the 44 KiB parts of a payload that arrives in pieces, without storing it. */
export class RootHasher {
  readonly #createSha256: CreateSha256;
  readonly #leaves: Uint8Array[] = [];
  #leaf: ReturnType<CreateSha256>;
  #inLeaf = 0;
  #bytes = 0;

  constructor(createSha256: CreateSha256) {
    this.#createSha256 = createSha256;
    this.#leaf = this.#begin();
  }

  #begin(): ReturnType<CreateSha256> {
    const leaf = this.#createSha256();
    leaf.update(LEAF);
    this.#inLeaf = 0;
    return leaf;
  }

  update(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    for (let at = 0; at < bytes.length; ) {
      const taken = Math.min(CHUNK_BYTES - this.#inLeaf, bytes.length - at);
      this.#leaf.update(bytes.subarray(at, at + taken));
      this.#inLeaf += taken;
      at += taken;
      if (this.#inLeaf === CHUNK_BYTES) this.#end();
    }
  }

  #end(): void {
    if (this.#leaves.length <= MAX_CHUNKS) this.#leaves.push(this.#leaf.digest());
    this.#leaf = this.#begin();
  }

  /** Returns the root of at least one byte; null if the payload is too long for chunk events. */
  digest(): Digest | null {
    return this.tree()?.root ?? null;
  }

  /** Returns all hashes above the parts; undefined if `digest` is null. */
  tree(): ChunkTree | undefined {
    if (this.#inLeaf > 0) this.#end();
    if (this.#leaves.length > MAX_CHUNKS) return undefined;
    return { ...treeOver(this.#leaves, this.#bytes), bytes: this.#bytes };
  }
}
