/**
 * Chunks of nothing but zeros, such as momentum before the first step: they are not sent. Whoever has a chunk beside them knows them from its Merkle
 * path, in which a hash that is the one of zeros at that place says what is there.
 */
import { concatBytes } from '../../base/bytes.ts';
import { LEAF, NODE } from '../../base/merkle.ts';
import type { Sha256 } from '../event-crypto.ts';
import { chunkCount, chunkLength, type VerifiedChunk } from './merkle.ts';

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
