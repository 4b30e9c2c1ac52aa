/**
 * Chunks out of the chunk events (kind 7811) of a whole file, as holders of a certified checkpoint publish them: a chunk is the part of the payload
 * that it covers. Every event proves itself against the root, so nobody who serves one is believed.
 */
import { CHUNK_BYTES, chunk } from '../../kinds/chunk.ts';
import type { Clock } from '../base/clock.ts';
import { chunkKey, toChunk } from '../network/attachments/chunk-events.ts';
import type { PayloadRoot } from '../network/attachments/merkle.ts';
import type { Sha256 } from '../network/event-crypto.ts';
import { type QueriedRelays, queryRelays } from '../network/transport/query.ts';
import type { ChunkPlace } from './place.ts';

export interface RelayPlaceOptions {
  readonly name: string;
  readonly relays: QueriedRelays;
  readonly clock: Clock;
  readonly sha256: Sha256;
  /** The payload whose chunk events are asked for. */
  readonly payload: PayloadRoot;
}

/** Values in one list of a filter that every relay takes. */
const MOST_PER_REQUEST = 64;
const WAIT_MS = 20_000;

/** Reads from relays; of parity chunks they have none. */
export function createRelayPlace(options: RelayPlaceOptions): ChunkPlace {
  return {
    name: options.name,
    async read({ offset, bytes }, signal) {
      if (offset === undefined) return undefined;
      const first = Math.floor(offset / CHUNK_BYTES);
      const last = Math.floor((offset + bytes - 1) / CHUNK_BYTES);
      const parts = new Map<number, Uint8Array>();
      for (let from = first; from <= last; from += MOST_PER_REQUEST) {
        const to = Math.min(last, from + MOST_PER_REQUEST - 1);
        if (!(await ask(options, from, to, parts, signal))) return undefined;
      }
      return cut(parts, first, last, { offset, bytes });
    },
  };
}

/** Takes the chunk events of these indices; false where one did not come. */
async function ask(
  { relays, clock, sha256, payload }: RelayPlaceOptions,
  from: number,
  to: number,
  parts: Map<number, Uint8Array>,
  signal: AbortSignal,
): Promise<boolean> {
  const { root, bytes } = payload;
  const indices = Array.from({ length: to - from + 1 }, (_, i) => from + i);
  const keys = indices.map((index) => chunkKey(root, index));
  const isThere = () => indices.every((index) => parts.has(index));
  const filter = { kinds: [chunk.kind], '#c': keys, limit: 2 * keys.length };
  await queryRelays(
    [filter],
    {
      waitMs: WAIT_MS,
      signal,
      onEvent(event) {
        const judged = toChunk(event, { maxPayloadBytes: bytes }, sha256);
        if (judged.ok && judged.value.root === root && judged.value.bytes === bytes) {
          parts.set(judged.value.index, judged.value.data);
        }
        return isThere();
      },
    },
    relays,
    clock,
  );
  return isThere();
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
