/** Payloads and bodies out of a heap of events, in whatever order their chunks come, and whoever signed them. */
import type { Digest } from '../../run/ids.ts';
import type { SignedEvent } from '../event.ts';
import { createAssembly } from './assemble.ts';
import { toChunk } from './chunk-events.ts';
import type { VerifiedChunk } from './merkle.ts';
import { joinParts, partsOf, type Striped } from './parts.ts';

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
