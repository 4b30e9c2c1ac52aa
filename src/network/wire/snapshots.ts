/** Snapshot events to stake snapshots and back. Content-addressed: whoever signs one, it counts when its bytes have the id asked for. */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { snapshot as kind } from '../../../kinds/snapshot.ts';
import { fromBase64, toBase64 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import type { Digest } from '../../run/ids.ts';
import { decodeSnapshot, type StakeSnapshot, snapshotBytes } from '../../run/stake-snapshot.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import { expirationOf, type Lifetime } from './chunks.ts';

/** An unsigned event with the whole snapshot; throws `stake/too-large` for what does not fit one. */
export function buildSnapshot(snapshot: StakeSnapshot, lifetime: Lifetime): EventDraft {
  const bytes = snapshotBytes(snapshot);
  if (bytes.length > CHUNK_BYTES) {
    throw new ConfigError(
      'stake/too-large',
      `${snapshot.rows.length} rows are ${bytes.length} bytes, an event carries ${CHUNK_BYTES}`,
      { hint: 'hand the snapshot on as a file' },
    );
  }
  const value = { id: sha256Hex(bytes), expiration: expirationOf(lifetime), data: toBase64(bytes) };
  return kind.build(value, lifetime.createdAt);
}

/** What to ask relays for. */
export const snapshotFilter = (id: Digest): ReturnType<typeof kind.filter> => kind.filter({ id });

/** The snapshot of an event, or why it is none of that id. */
export function toSnapshot(event: SignedEvent, id: Digest): Result<StakeSnapshot> {
  const parsed = kind.parse(event);
  if (!parsed.ok) return parsed;
  const bytes = fromBase64(parsed.value.data);
  if (bytes === undefined) return refuse('bad-content', 'content', 'not canonical base64');
  const decoded = decodeSnapshot(bytes);
  if (!decoded.ok) return decoded;
  const real = sha256Hex(bytes);
  return real === id ? ok(decoded.value) : refuse('other-snapshot', 'content', `hashes to ${real}`);
}
