/**
 * Large payloads to chunk events and back, and what to ask relays for. A chunk proves itself, so who signed it and when is
 * not judged: anybody may serve it. Publishing order is the caller's: chunks first, then the manifest.
 */
import { CHUNK_BYTES, chunk } from '../../../kinds/chunk.ts';
import { fromBase64, fromHex, toBase64, toHex } from '../../base/bytes.ts';
import { sha256 } from '../../base/hash.ts';
import type { Digest } from '../../run/ids.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import { accept, type Judged, reject } from '../wire/judged.ts';
import {
  type ChunkTree,
  chunkPath,
  chunkTree,
  type PayloadRoot,
  splitChunks,
  type VerifiedChunk,
  verifyChunk,
} from './merkle.ts';

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
