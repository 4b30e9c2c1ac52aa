/**
 * A chunk source that reads a file from relays, as certified checkpoints and `checkpoint push` publish it: each chunk
 * of the file is read from the 44 KiB chunk events (kind 7811) that cover it. Manifests are events of kind 7819.
 */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { packed } from '../../../kinds/packed.ts';
import { chunkLength, type PayloadRoot, ZeroTree } from '../chunks/payload.ts';
import { type ChunkSource, SourceError } from '../chunks/source.ts';
import { findAddressed } from '../wire/addressed.ts';
import { type RelayAccess, RelayChunks } from './relay-chunks.ts';

export interface RelaySourceOptions
  extends RelayAccess,
    Pick<ChunkSource, 'name' | 'isSpared' | 'isNear'> {
  /** The relay to ask first; without it, each chunk starts at another relay. */
  readonly relay?: string | undefined;
  /** The file; undefined if only manifests are requested. */
  readonly payload?: PayloadRoot | undefined;
}

/** Reads from one relay, and from the others what that one lacks. Relays have no parity chunks. */
export function createRelaySource(options: RelaySourceOptions): ChunkSource {
  const { name, isSpared, isNear, payload } = options;
  const file = payload && new RelayFile(payload, options);
  return {
    name,
    isSpared,
    isNear,
    read: async ({ offset, bytes }, signal) =>
      offset === undefined ? undefined : file?.read(offset, bytes, signal),
    async findManifest(digest, signal) {
      const search = await findAddressed(packed, digest, { ...options, signal });
      if (search.ok) return search.value;
      throw new SourceError(`${name}: ${search.issue.message}`);
    },
  };
}

class RelayFile {
  readonly #payload: PayloadRoot;
  readonly #relays: readonly RelayChunks[];
  /** Index of the relay to ask first; -1 for a different one each time. */
  readonly #at: number;
  readonly #tree: ZeroTree;
  /** Chunks of zeros, which are never sent; the Merkle paths of other chunks prove them. */
  readonly #zeros = new Set<number>();
  /** The request for the first chunk, whose path says most about zeros. */
  #first: Promise<unknown> | undefined;

  constructor(payload: PayloadRoot, options: RelaySourceOptions) {
    const { relays } = options.relays;
    this.#payload = payload;
    this.#relays = relays.map((relay) => new RelayChunks(relay, options));
    this.#at = options.relay === undefined ? -1 : relays.indexOf(options.relay);
    this.#tree = new ZeroTree(payload.bytes, options.sha256);
  }

  /** Returns the bytes from `offset` on, or undefined if the relays lack one of their chunks. */
  async read(
    offset: number,
    bytes: number,
    signal: AbortSignal,
  ): Promise<readonly Uint8Array[] | undefined> {
    const first = Math.floor(offset / CHUNK_BYTES);
    const last = Math.floor((offset + bytes - 1) / CHUNK_BYTES);
    const indices = Array.from({ length: last - first + 1 }, (_, i) => first + i);
    const parts = await Promise.all(indices.map((index) => this.#chunk(index, first, signal)));
    if (parts.includes(undefined) && first > 0) {
      this.#first ??= this.#chunk(0, 0, signal);
      await this.#first.catch(() => signal.throwIfAborted());
    }
    const cut: Uint8Array[] = [];
    for (const [i, search] of parts.entries()) {
      const begin = (first + i) * CHUNK_BYTES;
      const part = search ?? this.#zeroChunk(first + i);
      if (part === undefined) return undefined;
      const end = Math.min(part.length, offset + bytes - begin);
      cut.push(part.subarray(Math.max(0, offset - begin), end));
    }
    return cut;
  }

  /** Asks one relay after the other, beginning with the one for the range that begins at chunk `first`. */
  async #chunk(index: number, first: number, signal: AbortSignal): Promise<Uint8Array | undefined> {
    const start = this.#at < 0 ? first % this.#relays.length : this.#at;
    for (const relay of [...this.#relays.slice(start), ...this.#relays.slice(0, start)]) {
      const zeros = this.#zeroChunk(index);
      if (zeros) return zeros;
      const search = await relay.read({ ...this.#payload, index, owner: '' }, signal);
      if (search === undefined) continue;
      for (const each of this.#tree.beside(search.chunk)) this.#zeros.add(each);
      return search.chunk.data;
    }
    return this.#zeroChunk(index);
  }

  #zeroChunk(index: number): Uint8Array | undefined {
    const isZero = this.#zeros.has(index);
    return isZero ? new Uint8Array(chunkLength(index, this.#payload.bytes)) : undefined;
  }
}
