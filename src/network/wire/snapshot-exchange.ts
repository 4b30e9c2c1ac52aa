/** Stake snapshots over relays, whole or as chunks: sent by whoever has one, found by its id. Nobody who says anything is believed. */
import { createBell, ringOrDeadline } from '../../base/bell.ts';
import type { Clock } from '../../base/clock.ts';
import { deferred } from '../../base/deferred.ts';
import { type Result, refuse } from '../../base/result.ts';
import type { Digest } from '../../run/ids.ts';
import type { StakeSnapshot } from '../../run/stake-snapshot.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import { within } from '../transport/deadline.ts';
import type { RelaySet } from '../transport/relay-set.ts';
import { sendChunks } from './chunk-sender.ts';
import type { Lifetime } from './chunks.ts';
import { createPuller } from './puller.ts';
import {
  buildSnapshot,
  openSnapshot,
  readSnapshot,
  type SnapshotClaim,
  snapshotFilter,
} from './snapshots.ts';

export interface SnapshotSending {
  readonly relays: RelaySet;
  readonly sha256: Sha256;
  readonly lifetime: Lifetime;
  readonly signal: AbortSignal;
  sign(draft: EventDraft): SignedEvent;
}

export interface SnapshotSearch {
  readonly relays: RelaySet;
  readonly clock: Clock;
  readonly sha256: Sha256;
  readonly signal: AbortSignal;
}

/** How long relays may take to say what they have, and to bring chunks. */
const FIND_MS = 15_000;
const PULL_MS = 120_000;
/** Roots of one id that are looked at: only one can be right, and anybody may name others. */
export const MOST_CLAIMS = 32;

/** Sends the chunks, where there are any, then the event. The words of relays that took neither; undefined when one holds it all. */
export async function publishSnapshot(
  snapshot: StakeSnapshot,
  { relays, sha256, lifetime, signal, sign }: SnapshotSending,
): Promise<string | undefined> {
  const { draft, payload } = buildSnapshot(snapshot, lifetime, sha256);
  const sending = payload && sendChunks([payload], 1, { relays, sign, sha256, lifetime, signal });
  if (sending && !(await sending.enough)) {
    const deliveries = await Promise.all(sending.deliveries);
    return deliveries
      .map(({ relay, taken, of, message }) => `${relay}: ${taken} of ${of} chunks, ${message}`)
      .join('; ');
  }
  const outcomes = await relays.publish(sign(draft), { signal });
  // slower relays get the rest before anybody hangs up
  if (sending) await Promise.all(sending.deliveries);
  if (outcomes.some(({ status }) => status === 'accepted')) return undefined;
  return outcomes.map(({ relay, status }) => `${relay}: ${status}`).join('; ');
}

/** The snapshot of an id from any event that carries or names it, or why none does. */
export async function findSnapshot(
  id: Digest,
  search: SnapshotSearch,
): Promise<Result<StakeSnapshot>> {
  const { found, claims, problems } = await ask(id, search);
  if (found !== undefined) return { ok: true, value: found };
  const pulled = claims.length === 0 ? undefined : await pullFirst(claims, search);
  if (pulled !== undefined) return { ok: true, value: pulled };
  const chunks = claims.map(({ root }) => `no chunks of ${root} that are it`);
  const words = [...problems, ...chunks].slice(0, 5).join('; ') || 'no event says it is';
  return refuse('no-event', 'snapshot', words);
}

/** What relays have stored of an id: the snapshot itself as soon as an event has it, else where it is said to be. */
async function ask(id: Digest, { relays, clock, sha256, signal }: SnapshotSearch) {
  const bell = createBell();
  const claims = new Map<string, SnapshotClaim>();
  const problems: string[] = [];
  let found: StakeSnapshot | undefined;
  const onEvent = (event: SignedEvent) => {
    const read = readSnapshot(event, sha256);
    if (!read.ok) {
      if (problems.length < MOST_CLAIMS) problems.push(`${event.id}: ${read.issue.message}`);
    } else if (read.value.id !== id) return;
    else if ('snapshot' in read.value) found = read.value.snapshot;
    else if (claims.size < MOST_CLAIMS) {
      claims.set(`${read.value.root}/${read.value.bytes}`, read.value);
    }
    bell.ring();
  };
  const handlers = { onEvent, onCaughtUp: bell.ring, onLost: bell.ring };
  const subscription = relays.subscribe([snapshotFilter(id)], handlers);
  const deadline = clock.now() + FIND_MS;
  try {
    while (found === undefined && !subscription.caughtUp && clock.now() < deadline) {
      await ringOrDeadline(bell, clock, deadline, signal);
    }
  } finally {
    subscription.close();
  }
  return { found, claims: [...claims.values()], problems };
}

/** The first of them that is the snapshot; all are pulled at once, so that a false one holds nobody up. */
async function pullFirst(
  claims: readonly SnapshotClaim[],
  search: SnapshotSearch,
): Promise<StakeSnapshot | undefined> {
  const { clock, sha256, signal } = search;
  const puller = createPuller(search);
  const { promise: first, settle } = deferred<StakeSnapshot | undefined>();
  const pull = async (claim: SnapshotClaim): Promise<void> => {
    const pulled = await puller.pull(claim).done;
    const opened = pulled && openSnapshot(pulled.payload, claim.id, sha256);
    if (opened?.ok) settle(opened.value);
  };
  void Promise.all(claims.map(pull)).then(() => settle(undefined));
  try {
    return await within(first, PULL_MS, clock, signal);
  } finally {
    puller.close();
  }
}
