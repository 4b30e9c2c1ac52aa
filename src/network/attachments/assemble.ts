/**
 * Puts payloads together from chunks that anybody served, one by one or out of a heap of events. Only verified chunks get in, so order,
 * repeats and who sent what do not matter. Holds no more memory than what has arrived; fetches nothing itself.
 */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { sha256 as pureSha256 } from '../../base/hash.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import type { Digest } from '../../run/ids.ts';
import type { SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import { ZeroTree } from './blanks.ts';
import { toChunk } from './chunk-events.ts';
import { chunkCount, type PayloadRoot, type VerifiedChunk } from './merkle.ts';
import { joinParts, partsOf, type Striped } from './parts.ts';

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
