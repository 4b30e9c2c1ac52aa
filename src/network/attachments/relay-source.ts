/**
 * Chunks out of the chunk events (kind 7811) of a whole file, as holders of a certified checkpoint or `checkpoint push` publish them: a chunk is the part
 * of the payload that it covers. Every event proves itself against the root, so nobody who serves one is believed. Manifests are events of kind 7819.
 */
import { CHUNK_BYTES, chunk } from '../../../kinds/chunk.ts';
import { packed } from '../../../kinds/packed.ts';
import type { Clock } from '../../base/async.ts';
import {
  chunkKey,
  chunkLength,
  type PayloadRoot,
  toChunk,
  type VerifiedChunk,
  ZeroTree,
} from '../chunks/payload.ts';
import { type ChunkPlace, PlaceError } from '../chunks/source.ts';
import type { Sha256 } from '../event-crypto.ts';
import { queryRelays } from '../transport/query.ts';
import type { RelaySet } from '../transport/relay-set.ts';
import { findAddressed } from '../wire/addressed.ts';

export interface RelayPlaceOptions {
  readonly name: string;
  /** All relays of the fetch, for a file may be spread over them. */
  readonly relays: RelaySet;
  /** The one of them that is asked first; where none is named, another one for each chunk. */
  readonly relay?: string | undefined;
  readonly clock: Clock;
  readonly sha256: Sha256;
  /** Other places are asked first. */
  readonly isSpared?: boolean;
  /** The payload whose chunk events are asked for; undefined where only manifests are. */
  readonly payload?: PayloadRoot | undefined;
}

/** Values in one list of a filter that every relay takes. */
const MOST_PER_REQUEST = 64;
const WAIT_MS = 20_000;

/** Reads from one relay, and from the others what that one lacks; of parity chunks they have none. */
export function createRelayPlace(options: RelayPlaceOptions): ChunkPlace {
  const { name, relays, clock, sha256, isSpared, payload: file } = options;
  const blanks = file && createBlanks(file, sha256);
  return {
    name,
    isSpared,
    async read({ offset, bytes }, signal) {
      if (offset === undefined || blanks === undefined) return undefined;
      const first = Math.floor(offset / CHUNK_BYTES);
      const last = Math.floor((offset + bytes - 1) / CHUNK_BYTES);
      const parts = new Map<number, Uint8Array>();
      await gather(options, blanks, { first, last }, parts, signal);
      if (parts.size <= last - first && first > 0) {
        blanks.first ??= gather(options, blanks, { first: 0, last: 0 }, new Map(), signal);
        await blanks.first.catch(() => signal.throwIfAborted());
      }
      blanks.fill(parts, first, last);
      return parts.size <= last - first ? undefined : cut(parts, first, last, { offset, bytes });
    },
    async findManifest(digest, signal) {
      const found = await findAddressed(packed, digest, { relays, clock, sha256, signal });
      if (found.ok) return found.value;
      throw new PlaceError(`${name}: ${found.issue.message}`);
    },
  };
}

/** Chunks of zeros, which nobody sends, as paths of others prove them. */
interface Blanks {
  readonly payload: PayloadRoot;
  /** The question for the first chunk, whose path says most: of momentum that is none, all. */
  first: Promise<void> | undefined;
  learn(chunk: VerifiedChunk): void;
  fill(parts: Map<number, Uint8Array>, first: number, last: number): void;
}

function createBlanks(payload: PayloadRoot, sha256: Sha256): Blanks {
  const zeros = new ZeroTree(payload.bytes, sha256);
  const known = new Set<number>();
  return {
    payload,
    first: undefined,
    learn: (proven) => {
      for (const index of zeros.beside(proven)) known.add(index);
    },
    fill: (parts, first, last) => {
      for (let index = first; index <= last; index++) {
        if (known.has(index)) parts.set(index, new Uint8Array(chunkLength(index, payload.bytes)));
      }
    },
  };
}

/** The relays, from the one that is asked first on. */
function inTurn(
  { relays: { relays }, relay }: RelayPlaceOptions,
  first: number,
): readonly string[] {
  const at = relay === undefined ? first % relays.length : relays.indexOf(relay);
  return [...relays.slice(at), ...relays.slice(0, at)];
}

interface Indices {
  readonly first: number;
  readonly last: number;
}

interface Range extends Indices {
  readonly only: string;
}

/** Takes these chunks from one relay after the other, until all are here. */
async function gather(
  options: RelayPlaceOptions,
  blanks: Blanks,
  { first, last }: Indices,
  parts: Map<number, Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  for (const only of inTurn(options, first)) {
    blanks.fill(parts, first, last);
    if (parts.size === last - first + 1) return;
    await ask(options, blanks, { only, first, last }, parts, signal);
  }
}

/** Takes the chunk events in this range that are not here yet. */
async function ask(
  { relays, clock, sha256 }: RelayPlaceOptions,
  { payload: { root, bytes }, learn }: Blanks,
  { only, first, last }: Range,
  parts: Map<number, Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const all = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  const missing = all.filter((index) => !parts.has(index));
  for (let from = 0; from < missing.length; from += MOST_PER_REQUEST) {
    const indices = missing.slice(from, from + MOST_PER_REQUEST);
    const keys = indices.map((index) => chunkKey(root, index));
    const isThere = () => indices.every((index) => parts.has(index));
    const onEvent: Parameters<typeof queryRelays>[1]['onEvent'] = (event) => {
      const judged = toChunk(event, { maxPayloadBytes: bytes }, sha256);
      const isOfFile = judged.ok && judged.value.root === root && judged.value.bytes === bytes;
      if (isOfFile) learn(judged.value);
      // nothing else is kept, whatever a relay sends
      if (isOfFile && indices.includes(judged.value.index))
        parts.set(judged.value.index, judged.value.data);
      return isThere();
    };
    const filter = { kinds: [chunk.kind], '#c': keys, limit: 2 * keys.length };
    await queryRelays([filter], { waitMs: WAIT_MS, signal, onEvent, only: [only] }, relays, clock);
  }
}

async function* cut(
  parts: ReadonlyMap<number, Uint8Array>,
  first: number,
  last: number,
  { offset, bytes }: { readonly offset: number; readonly bytes: number },
): AsyncGenerator<Uint8Array> {
  for (let index = first; index <= last; index++) {
    const begin = index * CHUNK_BYTES;
    const part = parts.get(index)!;
    yield part.subarray(Math.max(0, offset - begin), Math.min(part.length, offset + bytes - begin));
  }
}
