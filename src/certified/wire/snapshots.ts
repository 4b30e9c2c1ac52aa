/**
 * Publishes stake snapshots to relays and finds them by their hash. A snapshot up to 44 KiB is inside its event; a
 * larger one is in chunks that the event names. Since the id is the hash of the bytes, any publisher is accepted.
 */
import { snapshot as kind } from '../../../kinds/snapshot.ts';
import { toHex } from '../../base/bytes.ts';
import { ok, type Result } from '../../base/errors.ts';
import { sha256 } from '../../base/hash.ts';
import type { PublishOptions } from '../../network/attachments/publish.ts';
import type { RelayAccess, RelaySession } from '../../network/attachments/relay-chunks.ts';
import type { Lifetime, PayloadRoot } from '../../network/chunks/payload.ts';
import { heapChunks } from '../../network/chunks/payload.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import {
  type AddressedClaim,
  buildAddressed,
  findAddressed,
  publishAddressed,
  readAddressed,
} from '../../network/wire/addressed.ts';
import type { Digest } from '../../run/ids.ts';
import {
  decodeSnapshot,
  MAX_SNAPSHOT_BYTES,
  type StakeSnapshot,
  snapshotBytes,
} from '../../run/stake/stake-snapshot.ts';

/** Builds an unsigned event with the snapshot, or with the root of its chunks. */
export const buildSnapshot = (
  snapshot: StakeSnapshot,
  lifetime: Lifetime,
  hash: Sha256 = sha256,
): ReturnType<typeof buildAddressed> =>
  buildAddressed(kind, snapshotBytes(snapshot), lifetime, hash);

export const snapshotFilter = (id: Digest): ReturnType<typeof kind.filter> => kind.filter({ id });

/** Reads the snapshot of an event, or the root of its chunks; refuses any other event. */
export function readSnapshot(
  event: SignedEvent,
  hash: Sha256 = sha256,
): Result<{ readonly id: Digest; readonly snapshot: StakeSnapshot } | AddressedClaim> {
  const read = readAddressed(kind, event, hash);
  if (!read.ok || !('content' in read.value)) return read as Result<AddressedClaim>;
  const { id, content } = read.value;
  const decoded = decodeSnapshot(content);
  return decoded.ok ? ok({ id, snapshot: decoded.value }) : decoded;
}

/** Returns the complete snapshots among verified events, by id; skips incomplete and invalid ones. */
export function readSnapshots(
  events: Iterable<SignedEvent>,
  hash: Sha256 = sha256,
): ReadonlyMap<Digest, StakeSnapshot> {
  const snapshots = new Map<Digest, StakeSnapshot>();
  const claims = new Map<string, AddressedClaim>();
  const others: SignedEvent[] = [];
  for (const event of events) {
    const read = readSnapshot(event, hash);
    if (!read.ok) others.push(event);
    else if ('snapshot' in read.value) snapshots.set(read.value.id, read.value.snapshot);
    else claims.set(nameOf(read.value), read.value);
  }
  if (claims.size === 0) return snapshots;
  const named = new Set([...claims.values()].map(({ root }) => root));
  const isNamed = ({ tags }: SignedEvent) =>
    tags.some(([tag, value]) => tag === 'x' && named.has(value ?? ''));
  const chunks = heapChunks(others.filter(isNamed), MAX_SNAPSHOT_BYTES);
  for (const claim of claims.values()) {
    const payload = chunks(claim);
    const read = payload && decodeSnapshot(payload);
    // use the hash of the bytes: the event may claim any id
    if (read?.ok) snapshots.set(toHex(hash(payload!)), read.value);
  }
  return snapshots;
}

const nameOf = ({ root, bytes }: PayloadRoot): string => `${root}/${bytes}`;

/**
 * Sends the chunks, if any, then the event. Returns the relays' refusal, or undefined once one relay has everything.
 */
export const publishSnapshot = (
  snapshot: StakeSnapshot,
  sending: RelayAccess & PublishOptions,
): Promise<string | undefined> =>
  publishAddressed(buildSnapshot(snapshot, sending.lifetime, sending.sha256), sending);

/** Finds a snapshot by id in any event that carries or names it, or returns why it was not found. */
export async function findSnapshot(
  id: Digest,
  search: RelaySession,
): Promise<Result<StakeSnapshot>> {
  const content = await findAddressed(kind, id, search);
  return content.ok ? decodeSnapshot(content.value) : content;
}
