/** Hashes of bytes that come in pieces: SHA-256 and BLAKE3, and the root that certified outcomes name, in one reading. */
import { createBLAKE3 } from 'hash-wasm';
import { CHUNK_BYTES, MAX_CHUNKS } from '../../kinds/chunk.ts';
import { toHex } from '../base/bytes.ts';
import type { CreateSha256 } from '../base/hash.ts';
import { LEAF, treeOver } from '../base/merkle.ts';
import type { ChunkTree } from '../network/attachments/merkle.ts';
import type { Digest } from '../run/ids.ts';
import type { Hashes } from './manifest.ts';

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
      const found = { sha256: toHex(sha256.digest()), blake3: blake3.digest() };
      sha256 = createSha256();
      return found;
    },
  };
}

/** BLAKE3 in WebAssembly. */
export async function createBlake3(): Promise<Blake3> {
  const hasher = await createBLAKE3();
  return {
    update: (bytes: Uint8Array): void => void hasher.update(bytes),
    digest(): Digest {
      const found = hasher.digest('hex');
      hasher.init();
      return found;
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
