/**
 * The manifest of a chunked file: its length, its hashes, and the hashes of every chunk and parity chunk in order,
 * so names and offsets follow from the list and nothing can overlap. Also the hashers: SHA-256, BLAKE3 and the
 * Merkle root.
 */
import { createBLAKE3 } from 'hash-wasm';
import { CHUNK_BYTES, MAX_CHUNKS } from '../../../kinds/chunk.ts';
import { isHex32, toHex, utf8 } from '../../base/bytes.ts';
import { canonicalJson, type Json, parseJson } from '../../base/canonical-json.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { CreateSha256 } from '../../base/hash.ts';
import { sha256 } from '../../base/hash.ts';
import { LEAF, treeOver } from '../../base/merkle.ts';
import type { Digest } from '../../run/ids.ts';
import { isInteger, JsonReader } from '../../run/json-reader.ts';
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
  /** Length of the file. */
  readonly bytes: number;
  /** The root of its 44 KiB chunk events, which outcomes of certified runs name; null of a file too long for them. */
  readonly root: Digest | null;
  /** Length of every chunk but the last. */
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
  /** Where it begins in the file; undefined of a parity chunk. */
  readonly offset: number | undefined;
}

/** One erasure-coded group: its chunks, and its parity chunks after them. */
export interface ErasureGroup {
  readonly data: readonly Piece[];
  readonly parity: readonly Piece[];
  /** Length that its chunks have when parity is reckoned, with zeros after the end. */
  readonly bytes: number;
}

export const LEAST_CHUNK_BYTES = 2 ** 14;
export const MOST_CHUNK_BYTES = 2 ** 26;
/** 64 GiB: a manifest that claims more is refused before anything is asked for. */
const MOST_FILE_BYTES = 2 ** 36;
/** Chunks and parity chunks of one manifest, whose text is then at most 36 MB. */
export const MOST_PIECES = 2 ** 18;
export const MOST_MANIFEST_BYTES = 2 ** 22 * 10;
const FORMAT = 'nostrain/chunks/1';
const MOST_ROWS = 256;

/** Chunks of a file of that length. */
export const chunkCount = (bytes: number, chunkBytes: number): number =>
  Math.ceil(bytes / chunkBytes);

/** Returns the number of data chunks in a group; without parity each chunk is a group. */
const groupSize = (erasure: ErasureCode | null): number => erasure?.data ?? 1;

/** Parity chunks of a file with that many chunks. */
const parityCount = (chunks: number, erasure: ErasureCode | null): number =>
  erasure === null ? 0 : Math.ceil(chunks / erasure.data) * erasure.parity;

/** Why a file cannot be cut so; undefined where it can. */
export function layoutProblem(
  bytes: number,
  { chunkBytes, erasure }: Pick<FileManifest, 'chunkBytes' | 'erasure'>,
): string | undefined {
  if (!isInteger(bytes, MOST_FILE_BYTES) || bytes === 0) {
    return `${bytes} bytes: a file has 1 to ${MOST_FILE_BYTES}`;
  }
  if (!isInteger(chunkBytes, MOST_CHUNK_BYTES) || chunkBytes < LEAST_CHUNK_BYTES) {
    return `chunks of ${chunkBytes} bytes: they have ${LEAST_CHUNK_BYTES} to ${MOST_CHUNK_BYTES}`;
  }
  const isValid =
    erasure === null ||
    (isInteger(erasure.data, MOST_ROWS - 1) &&
      isInteger(erasure.parity, MOST_ROWS - 1) &&
      Math.min(erasure.data, erasure.parity) >= 1 &&
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

/** Every chunk and parity chunk. */
export const piecesOf = (manifest: FileManifest): readonly Piece[] =>
  erasureGroups(manifest).flatMap(({ data, parity }) => [...data, ...parity]);

const pairOf = ({ blake3, sha256: address }: Hashes): Json => [blake3, address];

/** Canonical JSON: the same bytes for everybody. */
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

/** SHA-256 of the text: names a manifest, and is its own address as a blob. */
export const manifestDigest = (manifest: FileManifest, hash: Sha256 = sha256): Digest =>
  toHex(hash(utf8(manifestText(manifest))));

/** The manifest inside a text from anybody: every count judged, every member known, and the text canonical. */
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
    root: reader.take<Digest | null>('root', (value) => nullOr(value, isDigest), null),
    chunkBytes: reader.integer('chunkBytes', MOST_CHUNK_BYTES),
    erasure: reader.take<ErasureCode | null>('stripe', (value) => nullOr(value, readErasure), null),
    chunks: reader.take('chunks', listOfHashes, []),
    parity: reader.take('parity', listOfHashes, []),
  };
  if (reader.problem !== undefined) {
    return refuse('bad-manifest', reader.problem, `\`${reader.problem}\` is not of its form`);
  }
  const problem = layoutProblem(manifest.bytes, manifest) ?? contradiction(manifest);
  if (problem !== undefined) return refuse('bad-manifest', 'manifest', problem);
  return manifestText(manifest) === text
    ? ok(manifest)
    : refuse('not-canonical', 'manifest', 'it has other members, or is not canonical JSON');
}

const isDigest = (value: Json): Digest | undefined =>
  typeof value === 'string' && isHex32(value) ? value : undefined;

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

function listOfHashes(value: Json | undefined): readonly Hashes[] | undefined {
  if (!Array.isArray(value) || value.length > MOST_PIECES) return undefined;
  const pairs: Hashes[] = [];
  for (const pair of value as readonly Json[]) {
    const [blake3, address] = Array.isArray(pair) && pair.length === 2 ? (pair as Json[]) : [];
    if (typeof blake3 !== 'string' || typeof address !== 'string') return undefined;
    if (!isHex32(blake3) || !isHex32(address)) return undefined;
    pairs.push({ blake3, sha256: address });
  }
  return pairs;
}

/** What of a manifest contradicts itself; undefined where nothing does. */
function contradiction(manifest: FileManifest): string | undefined {
  const { bytes, chunkBytes, erasure, chunks, parity } = manifest;
  const count = chunkCount(bytes, chunkBytes);
  if (chunks.length !== count) {
    return `${chunks.length} chunks where ${bytes} bytes have ${count} of ${chunkBytes}`;
  }
  const expected = parityCount(count, erasure);
  if (parity.length !== expected) return `${parity.length} parity chunks where ${expected} belong`;
  const known = new Map<Digest, Piece>();
  for (const piece of piecesOf(manifest)) {
    const same = known.get(piece.sha256);
    if (same && (same.blake3 !== piece.blake3 || same.bytes !== piece.bytes)) {
      return `${same.name} and ${piece.name} have one SHA-256 and differ`;
    }
    known.set(piece.sha256, piece);
  }
  return undefined;
}

/** Hashes one thing after another; not two at once. */
export interface Digester {
  update(bytes: Uint8Array): void;
  /** Of all bytes since it was made or this was last called. */
  digest(): Hashes;
}

/** Begins anew after `digest`, which is lowercase hex. */
export interface Blake3 {
  update(bytes: Uint8Array): void;
  digest(): Digest;
}

/** A digester; its hashes are the machine's own where they are passed. */
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

/** BLAKE3 in WebAssembly. */
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

/** The root over the 44 KiB parts of a payload that comes in pieces, without holding it. */
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

  /** Null of more than chunk events can carry; of at least one byte. */
  digest(): Digest | null {
    return this.tree()?.root ?? null;
  }

  /** All hashes above its parts; undefined where `digest` is null. */
  tree(): ChunkTree | undefined {
    if (this.#inLeaf > 0) this.#end();
    if (this.#leaves.length > MAX_CHUNKS) return undefined;
    return { ...treeOver(this.#leaves, this.#bytes), bytes: this.#bytes };
  }
}
