/**
 * Content addressed by its SHA-256 over relays: up to 44 KiB inside an event, more as chunks. Only the hash counts, not
 * the author.
 */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import type { snapshot } from '../../../kinds/snapshot.ts';
import { createNotifier, notifiedOrDeadline } from '../../base/async.ts';
import { fromBase64, toBase64, toHex } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { sha256 } from '../../base/hash.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { Attachments } from '../attachments/attachments.ts';
import type { PublishOptions } from '../attachments/publish.ts';
import type { RelayAccess, RelaySession } from '../attachments/relay-chunks.ts';
import { chunkTree, expirationOf, type Lifetime, type PayloadRoot } from '../chunks/payload.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';

/** An event kind that carries bytes under their hash in `x`. */
export type AddressedKind = Pick<typeof snapshot, 'name' | 'build' | 'parse' | 'filter'>;

export interface Built<D = EventDraft> {
  readonly draft: D;
  /** Bytes to send as chunks before the event; undefined if they are inside. */
  readonly payload: Uint8Array | undefined;
}

interface Carried {
  readonly id: Digest;
  readonly content: Uint8Array;
}

export interface AddressedClaim extends PayloadRoot {
  readonly id: Digest;
  /** The author of the claim, whose chunks are requested first. */
  readonly worker: WorkerId;
}

/** Returns an unsigned event with the bytes, or with the root of their chunks. */
export function buildAddressed(
  kind: AddressedKind,
  content: Uint8Array,
  lifetime: Lifetime,
  hash: Sha256 = sha256,
): Built {
  const fields = { id: toHex(hash(content)), expiration: expirationOf(lifetime) };
  return carrying(content, hash, (carried) =>
    kind.build({ ...fields, ...carried }, lifetime.createdAt),
  );
}

/** Builds an event with the bytes, or with the root of their chunks; then the bytes are its payload. */
export function carrying<D>(
  content: Uint8Array,
  hash: Sha256,
  build: (
    carried: { readonly data: string } | { readonly root: Digest; readonly bytes: number },
  ) => D,
): Built<D> {
  if (content.length <= CHUNK_BYTES) {
    return { draft: build({ data: toBase64(content) }), payload: undefined };
  }
  const { root } = chunkTree(content, hash);
  return { draft: build({ root, bytes: content.length }), payload: content };
}

/** Returns the bytes of an event if they have its hash, or the claim of their root. Refuses anything else. */
export function readAddressed(
  kind: AddressedKind,
  event: SignedEvent,
  hash: Sha256 = sha256,
): Result<Carried | AddressedClaim> {
  const parsed = kind.parse(event);
  if (!parsed.ok) return parsed;
  const { id, data, root, bytes } = parsed.value;
  if (data === undefined) return ok({ id, root: root!, bytes: bytes!, worker: event.pubkey });
  const content = fromBase64(data);
  if (content === undefined) return refuse('bad-content', 'content', 'not canonical base64');
  const real = toHex(hash(content));
  return real === id
    ? ok({ id, content })
    : refuse(`other-${kind.name}`, 'content', `hashes to ${real}`);
}

/** Time for relays to answer a query and to deliver chunks. */
const FIND_MS = 15_000;
const PULL_MS = 120_000;
/** Time without a chunk after which a root is given up; a relay has 20 s to answer a request. */
const PULL_IDLE_MS = 25_000;
/** Maximum roots tried per id: only one can be right, and anybody may claim others. */
export const MOST_CLAIMS = 32;

/**
 * Sends chunks, if any, then the event. Returns the refusals if no relay accepted it; undefined if one stores
 * everything.
 */
export async function publishAddressed(
  { draft, payload }: Built,
  sending: RelayAccess & PublishOptions,
): Promise<string | undefined> {
  const attachments = payload ? [{ payload }] : [];
  const client = new Attachments(sending);
  const { taken, settled } = client.publish(sending.sign(draft), attachments, sending);
  // slower relays also get everything before the connections close
  const { failed } = await settled;
  if (await taken) return undefined;
  return failed.map(({ relay, message }) => `${relay}: ${message}`).join('; ');
}

/** Returns the bytes of an id from any event that carries or names them, or why no event has them. */
export async function findAddressed(
  kind: AddressedKind,
  id: Digest,
  search: RelaySession,
): Promise<Result<Uint8Array>> {
  const { relays, clock, signal } = search;
  const attachments = new Attachments(search);
  const addressedSearch = new AddressedSearch(kind, id, attachments, search.sha256);
  const { changed } = addressedSearch;
  const onEvent = (event: SignedEvent) => addressedSearch.take(event);
  const filters = [kind.filter({ id })];
  const subscription = relays.subscribe(filters, { onEvent });
  const startedMs = clock.now();
  let isAnswered = false;
  // a relay that sends no EOSE delays nothing
  void relays.query(filters, { waitMs: FIND_MS, signal, onEvent }).then(
    () => {
      isAnswered = true;
      changed.notify();
    },
    () => undefined,
  );
  try {
    // events published in the meantime count too: a false claim that came first must not block a true one
    while (addressedSearch.content === undefined) {
      if (isAnswered && addressedSearch.pending === 0) break;
      const untilMs = startedMs + (addressedSearch.pending > 0 ? PULL_MS : FIND_MS);
      if (clock.now() >= untilMs) break;
      await notifiedOrDeadline(changed, clock, untilMs, signal);
    }
  } finally {
    subscription.close();
    attachments.close();
  }
  return addressedSearch.content === undefined
    ? refuse('no-event', 'content', addressedSearch.words)
    : ok(addressedSearch.content);
}

class AddressedSearch {
  readonly changed = createNotifier();
  content: Uint8Array | undefined;
  pending = 0;
  readonly #kind: AddressedKind;
  readonly #id: Digest;
  readonly #attachments: Attachments;
  readonly #sha256: Sha256;
  readonly #claimed = new Set<string>();
  readonly #problems: string[] = [];

  constructor(kind: AddressedKind, id: Digest, attachments: Attachments, sha256: Sha256) {
    this.#kind = kind;
    this.#id = id;
    this.#attachments = attachments;
    this.#sha256 = sha256;
  }

  take(event: SignedEvent): void {
    const read = readAddressed(this.#kind, event, this.#sha256);
    if (!read.ok) this.#note(`${event.id}: ${read.issue.message}`);
    else if (read.value.id !== this.#id) return;
    else if ('content' in read.value) this.content = read.value.content;
    else void this.#pull(read.value);
    this.changed.notify();
  }

  get words(): string {
    const named = this.#claimed.size;
    const chunks = named === 0 ? [] : [`none of ${named} claimed roots has chunks with this hash`];
    return [...this.#problems.slice(0, 4), ...chunks].join('; ') || 'no event carries or names it';
  }

  /** Pulls all claims at once, so that a false one delays nothing. */
  async #pull(claim: AddressedClaim): Promise<void> {
    const name = `${claim.root}/${claim.bytes}`;
    if (this.#claimed.has(name) || this.#claimed.size >= MOST_CLAIMS) return;
    this.#claimed.add(name);
    this.pending += 1;
    const pulled = await this.#attachments.pull(claim, { idleMs: PULL_IDLE_MS }).done;
    this.pending -= 1;
    const real = pulled && toHex(this.#sha256(pulled.payload));
    if (real === this.#id) this.content ??= pulled?.payload;
    else if (real !== undefined) this.#note(`${claim.root}: hashes to ${real}`);
    this.changed.notify();
  }

  #note(problem: string): void {
    if (this.#problems.length < MOST_CLAIMS) this.#problems.push(problem);
  }
}
