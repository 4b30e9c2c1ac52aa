/**
 * Stake snapshots over relays: sent by whoever has one, found by its id. One of at most 44 KiB is inside its event, a larger one travels as
 * chunks that the event names. Content-addressed: whoever signed any of it, it counts when the bytes have the id asked for, and nobody who
 * says anything is believed.
 */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { snapshot as kind } from '../../../kinds/snapshot.ts';
import { fromBase64, toBase64, toHex } from '../../base/bytes.ts';
import type { Clock } from '../../base/clock.ts';
import { sha256 } from '../../base/hash.ts';
import { createNotifier, notifiedOrDeadline } from '../../base/notifier.ts';
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
import { publishWithAttachments } from '../attachments/publish.ts';
import { createPuller, type Puller } from '../attachments/pull.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { RelaySet } from '../transport/relay-set.ts';

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
function openSnapshot(bytes: Uint8Array, id: Digest, hash: Sha256 = sha256): Result<StakeSnapshot> {
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
/** A root of which no chunk comes for so long is nothing: a relay is given 20 s for its answer. */
const PULL_IDLE_MS = 25_000;
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
  const onEvent = (event: SignedEvent) => looking.take(event);
  const filters = [snapshotFilter(id)];
  const subscription = relays.subscribe(filters, { onEvent });
  const startedMs = clock.now();
  let isAnswered = false;
  // who never says that it is through holds nobody up
  void relays.query(filters, { waitMs: FIND_MS, signal, onEvent }).then(
    () => {
      isAnswered = true;
      changed.notify();
    },
    () => undefined,
  );
  try {
    // what is published meanwhile counts too: a false claim that came first keeps nobody from it
    while (looking.found === undefined) {
      if (isAnswered && looking.pending === 0) break;
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
    const pulled = await this.#puller.pull(claim, { idleMs: PULL_IDLE_MS }).done;
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
