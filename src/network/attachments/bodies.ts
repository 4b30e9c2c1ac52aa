/**
 * Bodies of events: inside the content, or in chunks. Pulls, stores and sends bodies in chunks. Bodies are pulled only
 * for members of the run, each within a budget.
 */
import { type Carried, fitsInside } from '../../../kinds/_shared.ts';
import { fault } from '../../../kinds/fault.ts';
import { MOST_OUTCOME_BYTES, proposal } from '../../../kinds/proposal.ts';
import type { Clock } from '../../base/async.ts';
import { FairStore } from '../../base/bounded.ts';
import { utf8 } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import { chunkTree, type PayloadRoot } from '../chunks/payload.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sending } from '../transport/delivery.ts';
import type { Attachments } from './attachments.ts';
import type { Pull } from './pull.ts';

/** Returns the bytes of a root, verified, or undefined if they are not stored. */
export type BodyOf = (apart: PayloadRoot) => Uint8Array | undefined;

/** Maximum size of a body. */
export const MOST_BODY_BYTES = MOST_OUTCOME_BYTES;

/** A `BodyOf` without any bodies. */
export const noBodies: BodyOf = () => undefined;

/** Writes a content with its body or the reference to its chunks. */
type Write = (carried: Carried) => string;

/** Returns how a content carries this body: the body itself if it fits, otherwise a reference to its chunks. */
export function carryBody(body: string, write: Write): Carried {
  if (fitsInside(write({ body }))) return { body };
  const { root, bytes } = chunkTree(utf8(body));
  return { root, bytes };
}

/**
 * Returns the body of a content, or undefined while its chunks are missing. Refuses a body that is not UTF-8, or that
 * fits in the event but was sent in chunks.
 */
export function openBody(
  { body, root, bytes }: Carried,
  write: Write,
  bodyOf: BodyOf,
): Result<string> | undefined {
  if (body !== undefined) return ok(body);
  // the kind requires root and bytes if there is no body
  const received = bodyOf({ root: root!, bytes: bytes! });
  if (received === undefined) return undefined;
  const text = decode(received);
  if (text === undefined) return refuse('bad-body', 'body', 'the body is not text in UTF-8');
  if (fitsInside(write({ body: text }))) {
    return refuse(
      'bad-body',
      'body',
      `a body of ${received.length} bytes must be inside the content`,
    );
  }
  return ok(text);
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decode(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** A body that travels in chunks, and until when relays should keep it and its event. */
export interface Apart extends PayloadRoot {
  /** Unix seconds. */
  readonly expiresAt: number;
}

/** Returns the body that an event names in chunks; undefined if the body is inside, or if the event has none. */
export function apartIn(event: EventDraft): Apart | undefined {
  const kind = [proposal, fault].find((each) => each.kind === event.kind);
  const parsed = kind?.parse(event);
  if (!parsed?.ok) return undefined;
  const { root, bytes, expiration: expiresAt } = parsed.value;
  return root === undefined || bytes === undefined ? undefined : { root, bytes, expiresAt };
}

export interface BodyExchangeOptions {
  readonly clock: Clock;
  readonly signer: { sign(draft: EventDraft): SignedEvent };
  /** Aborted when nothing should be sent any more. */
  readonly signal: AbortSignal;
}

/** An event whose body is being pulled. */
interface PendingEvent {
  readonly event: SignedEvent;
  readonly apart: Apart;
  onReceived(): void;
}

interface Job {
  readonly apart: Apart;
  readonly pull: Pull;
  readonly round: number;
  /** Events that name this body; it is pulled while there are any. */
  readonly wanted: Map<EventId, PendingEvent>;
}

/** Maximum bodies of one author pulled at the same time; a newer one replaces the oldest. */
const MOST_OPEN = 4;
/** Maximum bodies of one author pulled in a minute without a request. */
const MOST_PER_MINUTE = 8;
const MINUTE_MS = 60_000;
/** Time without a new chunk after which a body is pulled again when its event arrives again. */
const IDLE_MS = 5 * MINUTE_MS;
/** Byte limits of events from keys that are not members yet: per key, and in total. */
const OFFERED_BYTES = { perOwner: 256 << 10, inAll: 8 << 20 };
/** Maximum bytes of bodies in memory; older bodies are pulled again when they are needed. */
const MAX_BODY_BYTES = 64 << 20;

const nameOf = ({ root, bytes }: PayloadRoot): string => `${root}/${bytes}`;

export class BodyExchange {
  readonly #options: BodyExchangeOptions;
  readonly #attachments: Attachments;
  readonly #bodies = new Map<string, { readonly bytes: Uint8Array; readonly round: number }>();
  readonly #jobs = new Map<string, Job>();
  readonly #offered = new FairStore<PendingEvent>(OFFERED_BYTES);
  /** Roots whose chunks this worker has sent. */
  readonly #sent = new Map<Digest, number>();
  readonly #spent = new Map<WorkerId, number>();
  #minuteEnds = 0;
  #isClosed = false;
  #bodyBytes = 0;
  #members: ReadonlySet<WorkerId> = new Set();

  constructor(options: BodyExchangeOptions, attachments: Attachments) {
    this.#options = options;
    this.#attachments = attachments;
  }

  readonly get: BodyOf = (apart) => this.#bodies.get(nameOf(apart))?.bytes;

  /** Stores a body whose bytes are verified against the root. */
  keep(apart: PayloadRoot, bytes: Uint8Array, round: number): void {
    const name = nameOf(apart);
    this.#drop(name);
    this.#bodies.set(name, { bytes, round });
    this.#bodyBytes += bytes.length;
    for (const oldest of this.#bodies.keys()) {
      if (this.#bodyBytes <= MAX_BODY_BYTES) break;
      this.#drop(oldest);
    }
    const job = this.#jobs.get(name);
    if (!job) return;
    this.#end(job);
    for (const { onReceived } of job.wanted.values()) onReceived();
  }

  /** Sets the authors whose bodies are pulled without a request. */
  admit(members: readonly WorkerId[], round: number): void {
    this.#members = new Set(members);
    for (const [id, { value: wanted }] of this.#offered.entries()) {
      if (!this.#members.has(wanted.event.pubkey)) continue;
      this.#offered.delete(id);
      this.bring(wanted, round, false);
    }
  }

  /**
   * Pulls the body of an event, at once or when its author becomes a member; a body that was requested by id is pulled
   * in any case.
   */
  bring(wanted: PendingEvent, round: number, isRequested: boolean): void {
    const { event, apart } = wanted;
    const { id, pubkey: author } = event;
    const name = nameOf(apart);
    if (this.#isClosed || this.#jobs.get(name)?.wanted.has(id)) return;
    if (this.get(apart)) {
      wanted.onReceived();
      return;
    }
    if (!isRequested && !this.#members.has(author)) {
      const bytes = 1024 + JSON.stringify(event).length;
      this.#offered.set(id, { value: wanted, owner: author, bytes });
      return;
    }
    if (!isRequested && !this.#mayPull(author)) return;
    this.#dropOldest(author);
    const job = this.#jobs.get(name) ?? this.#begin(wanted, round);
    job.wanted.set(id, wanted);
  }

  /**
   * Sends an event whose body is in chunks and stored, after its chunks, which are sent once. Returns undefined for any
   * other event.
   */
  send(event: SignedEvent, round: number): Sending | undefined {
    const apart = apartIn(event);
    const bytes = apart && this.get(apart);
    if (!bytes || this.#sent.has(apart.root)) return undefined;
    this.#sent.set(apart.root, round);
    const { signer, signal } = this.#options;
    const lifetime = { createdAt: event.created_at, expiresAt: apart.expiresAt };
    const sign = (draft: EventDraft) => signer.sign(draft);
    const sending = this.#attachments.publish(event, [{ payload: bytes }], {
      sign,
      lifetime,
      signal,
    });
    void sending.taken.then((isTaken) => isTaken || this.#sent.delete(apart.root));
    return sending;
  }

  forgetBefore(round: number): void {
    for (const [name, each] of this.#bodies) if (each.round < round) this.#drop(name);
    for (const job of this.#jobs.values()) if (job.round < round) this.#end(job);
    for (const [root, sent] of this.#sent) if (sent < round) this.#sent.delete(root);
  }

  /** Ends all pulls. */
  close(): void {
    this.#isClosed = true;
    for (const job of [...this.#jobs.values()]) this.#end(job);
  }

  #mayPull(author: WorkerId): boolean {
    const nowMs = this.#options.clock.now();
    if (nowMs >= this.#minuteEnds) {
      this.#spent.clear();
      this.#minuteEnds = nowMs + MINUTE_MS;
    }
    const spent = this.#spent.get(author) ?? 0;
    this.#spent.set(author, spent + 1);
    return spent < MOST_PER_MINUTE;
  }

  /** Drops the oldest event of an author that has too many; the body is still pulled for events of other authors. */
  #dropOldest(author: WorkerId): void {
    const open = [...this.#jobs.values()].flatMap((job) =>
      [...job.wanted.values()].flatMap(({ event }) =>
        event.pubkey === author ? [{ job, id: event.id }] : [],
      ),
    );
    const [oldest] = open;
    if (!oldest || open.length < MOST_OPEN) return;
    oldest.job.wanted.delete(oldest.id);
    if (oldest.job.wanted.size === 0) this.#end(oldest.job);
  }

  #begin({ event, apart }: PendingEvent, round: number): Job {
    const { root, bytes } = apart;
    const worker = event.pubkey;
    const wanted = new Map<EventId, PendingEvent>();
    const others = () => {
      const authors = [...wanted.values()].map(({ event: { pubkey } }) => pubkey);
      return [...new Set(authors)].filter((author) => author !== worker);
    };
    const pull = this.#attachments.pull({ root, bytes, worker, others }, { idleMs: IDLE_MS });
    const job: Job = { apart, pull, round, wanted };
    this.#jobs.set(nameOf(apart), job);
    void pull.done.then((received) => {
      if (this.#jobs.get(nameOf(apart)) !== job) return;
      if (received) this.keep(apart, received.payload, round);
      else this.#jobs.delete(nameOf(apart));
    });
    return job;
  }

  #end(job: Job): void {
    this.#jobs.delete(nameOf(job.apart));
    job.pull.stop();
  }

  #drop(name: string): void {
    this.#bodyBytes -= this.#bodies.get(name)?.bytes.length ?? 0;
    this.#bodies.delete(name);
  }
}
