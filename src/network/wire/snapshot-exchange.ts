/** Stake snapshots over relays, whole or as chunks: sent by whoever has one, found by its id. Nobody who says anything is believed. */

import type { Clock } from '../../base/clock.ts';
import { createNotifier, notifiedOrDeadline } from '../../base/notifier.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import type { Digest } from '../../run/ids.ts';
import type { StakeSnapshot } from '../../run/stake-snapshot.ts';
import type { Lifetime } from '../attachments/chunk-events.ts';
import { publishWithAttachments } from '../attachments/publish.ts';
import { createPuller, type Puller } from '../attachments/pull.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { RelaySet } from '../transport/relay-set.ts';
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
  const attachments = payload ? [{ payload }] : [];
  const options = { relays, sign, sha256, lifetime, signal };
  const { taken, settled } = publishWithAttachments(sign(draft), attachments, options);
  // slower relays get the rest before anybody hangs up
  const { failed } = await settled;
  if (await taken) return undefined;
  return failed.map(({ relay, message }) => `${relay}: ${message}`).join('; ');
}

/** The snapshot of an id from any event that carries or names it, or why none does. */
export async function findSnapshot(
  id: Digest,
  search: SnapshotSearch,
): Promise<Result<StakeSnapshot>> {
  const { relays, clock, signal } = search;
  const puller = createPuller(search);
  const looking = new Looking(id, puller, search);
  const { changed } = looking;
  const subscription = relays.subscribe([snapshotFilter(id)], {
    onEvent: (event) => looking.take(event),
    onCaughtUp: changed.notify,
    onLost: changed.notify,
  });
  const startedMs = clock.now();
  try {
    // what is published meanwhile counts too: a false claim that came first keeps nobody from it
    while (looking.found === undefined) {
      if (subscription.caughtUp && looking.pending === 0) break;
      const untilMs = startedMs + (looking.pending > 0 ? PULL_MS : FIND_MS);
      if (clock.now() >= untilMs) break;
      await notifiedOrDeadline(changed, clock, untilMs, signal);
    }
  } finally {
    subscription.close();
    puller.close();
  }
  return looking.found === undefined
    ? refuse('no-event', 'snapshot', looking.words)
    : ok(looking.found);
}

/** What events said of one id so far. */
class Looking {
  readonly changed = createNotifier();
  found: StakeSnapshot | undefined;
  /** Roots whose chunks have not come yet. */
  pending = 0;
  readonly #id: Digest;
  readonly #puller: Puller;
  readonly #sha256: Sha256;
  readonly #claimed = new Set<string>();
  readonly #problems: string[] = [];

  constructor(id: Digest, puller: Puller, { sha256 }: SnapshotSearch) {
    this.#id = id;
    this.#puller = puller;
    this.#sha256 = sha256;
  }

  take(event: SignedEvent): void {
    const read = readSnapshot(event, this.#sha256);
    if (!read.ok) this.#note(`${event.id}: ${read.issue.message}`);
    else if (read.value.id !== this.#id) return;
    else if ('snapshot' in read.value) this.found = read.value.snapshot;
    else void this.#pull(read.value);
    this.changed.notify();
  }

  get words(): string {
    const named = this.#claimed.size;
    const chunks = named === 0 ? [] : [`of ${named} roots named no chunks came that are it`];
    return [...this.#problems.slice(0, 4), ...chunks].join('; ') || 'no event says it is';
  }

  /** All at once, so that a false one holds nobody up. */
  async #pull(claim: SnapshotClaim): Promise<void> {
    const name = `${claim.root}/${claim.bytes}`;
    if (this.#claimed.has(name) || this.#claimed.size >= MOST_CLAIMS) return;
    this.#claimed.add(name);
    this.pending += 1;
    const pulled = await this.#puller.pull(claim).done;
    this.pending -= 1;
    const opened = pulled && openSnapshot(pulled.payload, claim.id, this.#sha256);
    if (opened?.ok) this.found ??= opened.value;
    else if (opened !== undefined) this.#note(`${claim.root}: ${opened.issue.message}`);
    this.changed.notify();
  }

  #note(problem: string): void {
    if (this.#problems.length < MOST_CLAIMS) this.#problems.push(problem);
  }
}
