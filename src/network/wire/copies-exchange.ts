/** Copies of what decided a round over relays: published under this worker's key, and found where the originals are gone. */
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { Lifetime } from '../attachments/chunk-events.ts';
import { type PublishOptions, publishWithAttachments } from '../attachments/publish.ts';
import type { Puller } from '../attachments/pull.ts';
import type { SignedEvent } from '../event.ts';
import type { EventCrypto } from '../event-crypto.ts';
import type { RelaySet } from '../transport/relay-set.ts';
import { buildCopies, type CopiesClaim, copiesFilters, openCopies, readCopies } from './copies.ts';

/** A round of a run. */
export interface RoundOfRun {
  readonly run: Digest;
  readonly round: number;
}

export interface CopiesSearch {
  readonly relays: RelaySet;
  readonly puller: Puller;
  readonly signal: AbortSignal;
  readonly crypto?: EventCrypto | undefined;
}

/** How long relays may take to answer. */
const FIND_MS = 10_000;

/** Publishes copies of these events, after their own chunks and the bodies that travel beside them; resolves when relays have answered. */
export async function publishCopies(
  where: RoundOfRun,
  events: readonly SignedEvent[],
  bodies: readonly Uint8Array[],
  options: PublishOptions,
): Promise<void> {
  const lifetime: Lifetime = options.lifetime;
  const built = buildCopies(where, events, lifetime, options.sha256);
  await Promise.all(
    built.map(({ draft, payload }) => {
      const attached = [...(payload ? [payload] : []), ...bodies];
      const attachments = attached.map((bytes) => ({ payload: bytes }));
      return publishWithAttachments(options.sign(draft), attachments, options).settled;
    }),
  );
}

/** Hands over what these members copied of a round; resolves when relays have answered. Never rejects. */
export async function findCopies(
  { run, round }: RoundOfRun,
  members: readonly WorkerId[],
  { relays, puller, signal, crypto }: CopiesSearch,
  take: (event: SignedEvent) => void,
): Promise<void> {
  const pulls: Promise<void>[] = [];
  const pull = async (claim: CopiesClaim) => {
    const found = await puller.pull(claim).done;
    if (found) openCopies(found.payload, run, crypto).forEach(take);
  };
  const onEvent = (event: SignedEvent) => {
    const read = readCopies(event, run, crypto);
    if (!read.ok) return;
    if ('root' in read.value) pulls.push(pull(read.value));
    else read.value.forEach(take);
  };
  const filters = copiesFilters(run, members, round);
  // nothing is asked any more
  await relays.query(filters, { waitMs: FIND_MS, signal, onEvent }).catch(() => undefined);
  await Promise.all(pulls);
}
