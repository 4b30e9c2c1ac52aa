/**
 * Snapshot events to stake snapshots and back. One of at most 44 KiB is inside its event, a larger one travels as chunks that the event
 * names. Content-addressed: whoever signed any of it, it counts when the bytes have the id asked for.
 */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { snapshot as kind } from '../../../kinds/snapshot.ts';
import { fromBase64, toBase64, toHex } from '../../base/bytes.ts';
import { sha256 } from '../../base/hash.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import {
  decodeSnapshot,
  MAX_SNAPSHOT_BYTES,
  type StakeSnapshot,
  snapshotBytes,
} from '../../run/stake-snapshot.ts';
import { heapChunks } from '../attachments/assemble.ts';
import { expirationOf, type Lifetime } from '../attachments/chunk-events.ts';
import { chunkTree, type PayloadRoot } from '../attachments/merkle.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';

export interface BuiltSnapshot {
  readonly draft: EventDraft;
  /** What travels as chunks, to be sent before; undefined where all of it is inside. */
  readonly payload: Uint8Array | undefined;
}

/** Where somebody says that a snapshot is. */
export interface SnapshotClaim extends PayloadRoot {
  readonly id: Digest;
  /** Who says so: their own chunks are asked for first. */
  readonly worker: WorkerId;
}

/** An unsigned event with the snapshot, or with the root of its chunks. */
export function buildSnapshot(
  snapshot: StakeSnapshot,
  lifetime: Lifetime,
  hash: Sha256 = sha256,
): BuiltSnapshot {
  const bytes = snapshotBytes(snapshot);
  const said = { id: toHex(hash(bytes)), expiration: expirationOf(lifetime) };
  if (bytes.length <= CHUNK_BYTES) {
    const draft = kind.build({ ...said, data: toBase64(bytes) }, lifetime.createdAt);
    return { draft, payload: undefined };
  }
  const { root } = chunkTree(bytes, hash);
  const draft = kind.build({ ...said, root, bytes: bytes.length }, lifetime.createdAt);
  return { draft, payload: bytes };
}

/** What to ask relays for. */
export const snapshotFilter = (id: Digest): ReturnType<typeof kind.filter> => kind.filter({ id });

/** The snapshot of an event, or where its chunks are; a refusal for anything else. */
export function readSnapshot(
  event: SignedEvent,
  hash: Sha256 = sha256,
): Result<{ readonly id: Digest; readonly snapshot: StakeSnapshot } | SnapshotClaim> {
  const parsed = kind.parse(event);
  if (!parsed.ok) return parsed;
  const { id, data, root, bytes } = parsed.value;
  if (data === undefined) return ok({ id, root: root!, bytes: bytes!, worker: event.pubkey });
  const decoded = fromBase64(data);
  if (decoded === undefined) return refuse('bad-content', 'content', 'not canonical base64');
  const opened = openSnapshot(decoded, id, hash);
  return opened.ok ? ok({ id, snapshot: opened.value }) : opened;
}

/** The snapshot of bytes from anyone, if they are those of this id. */
export function openSnapshot(
  bytes: Uint8Array,
  id: Digest,
  hash: Sha256 = sha256,
): Result<StakeSnapshot> {
  const real = toHex(hash(bytes));
  return real === id
    ? decodeSnapshot(bytes)
    : refuse('other-snapshot', 'content', `hashes to ${real}`);
}

/** All snapshots that are whole among verified events, by id; what only claims to be one is left out. */
export function readSnapshots(
  events: Iterable<SignedEvent>,
  hash: Sha256 = sha256,
): ReadonlyMap<Digest, StakeSnapshot> {
  const found = new Map<Digest, StakeSnapshot>();
  const claims = new Map<string, SnapshotClaim>();
  const others: SignedEvent[] = [];
  for (const event of events) {
    const read = readSnapshot(event, hash);
    if (!read.ok) others.push(event);
    else if ('snapshot' in read.value) found.set(read.value.id, read.value.snapshot);
    else claims.set(nameOf(read.value), read.value);
  }
  if (claims.size === 0) return found;
  const named = new Set([...claims.values()].map(({ root }) => root));
  const isNamed = ({ tags }: SignedEvent) =>
    tags.some(([tag, value]) => tag === 'x' && named.has(value ?? ''));
  const chunks = heapChunks(others.filter(isNamed), MAX_SNAPSHOT_BYTES);
  for (const claim of claims.values()) {
    const payload = chunks(claim);
    const read = payload && decodeSnapshot(payload);
    // by its hash, not by its claim: anybody may say any id of any root
    if (read?.ok) found.set(toHex(hash(payload!)), read.value);
  }
  return found;
}

const nameOf = ({ root, bytes }: PayloadRoot): string => `${root}/${bytes}`;
