/** Checks each event that relays send: new, matching the filters, within its author's quota, and correctly signed. */
import type { Clock } from '../../base/async.ts';
import { Recent } from '../../base/bounded.ts';
import { isHex32 } from '../../base/bytes.ts';
import type { Result } from '../../base/errors.ts';
import type { RejectReason } from '../../run/contribution.ts';
import { eventId, parseEvent, type SignedEvent, verifyEvent } from '../event.ts';
import type { EventCrypto } from '../event-crypto.ts';
import { idOf } from './answers.ts';
import { type EventFrame, type Filter, matchesFilter } from './frames.ts';
import { AuthorQuota } from './rates.ts';

export type Received =
  | { readonly verdict: 'new'; readonly event: SignedEvent }
  | { readonly verdict: 'known'; readonly id: string; readonly createdAt: number }
  /** Its author has said more than a subscription takes; not verified. */
  | { readonly verdict: 'surplus'; readonly createdAt: number }
  /** Nothing the filters ask for: the relay's fault, or another application's event. */
  | { readonly verdict: 'stray' }
  | {
      readonly verdict: 'refused';
      readonly reason: RejectReason;
      readonly detail: string;
      readonly id: string | undefined;
      /** True if no relay that checks events by NIP-01 would have sent it. */
      readonly isFault: boolean;
    };

/** Number of event ids that a subscription remembers. */
export const REMEMBERED = 32_768;
export const REMEMBERED_SIGNATURES = 4096;
/** How long an event id is remembered; an event that comes again later is checked and counted once more. */
const REMEMBERED_MS = 150_000;

/** Ids of the events that a subscription was given, in bounded number. */
export class Handed {
  /** The `created_at` of each event by id; for long-lived subscriptions, only of recent events. */
  readonly seen: Recent<number>;
  readonly authors: AuthorQuota;

  constructor(maxPerAuthor: number, clock: Clock, isLongLived = false) {
    this.seen = new Recent(REMEMBERED, isLongLived ? { clock, ms: REMEMBERED_MS } : undefined);
    this.authors = new AuthorQuota(maxPerAuthor, clock);
  }
}

const reasons: Readonly<Record<string, RejectReason>> = {
  unsigned: 'unsigned',
  'too-large': 'too-large',
  'bad-id': 'bad-id',
  'bad-signature': 'bad-signature',
};

/** Issues that are not held against a relay, since not every relay refuses such events. */
const pardoned: ReadonlySet<string> = new Set(['too-large', 'not-text']);

/** Checks the events that relays send; each is verified once, whichever relay brings it. */
export class Inbox {
  readonly #crypto: EventCrypto;
  /** Signatures of recently verified events by id, so that each is checked once for all relays and subscriptions. */
  readonly #verified: Recent<string>;

  constructor(crypto: EventCrypto, clock: Clock) {
    this.#crypto = crypto;
    this.#verified = new Recent(REMEMBERED_SIGNATURES, { clock, ms: REMEMBERED_MS });
  }

  get size(): number {
    return this.#verified.size;
  }

  /** Judges one unparsed event for a subscription with these `filters`; `handed` has the events it received so far. */
  receive(
    { event: raw, isPlain }: EventFrame,
    filters: readonly Filter[],
    { seen, authors }: Handed,
  ): Received {
    const claimed = idOf(raw);
    if (typeof claimed === 'string') {
      const createdAt = seen.get(claimed);
      if (createdAt !== undefined) return { verdict: 'known', id: claimed, createdAt };
    }
    const parsed = parseEvent(raw);
    if (!parsed.ok) return refusedBy(parsed, claimed);
    const event = parsed.value;
    if (!filters.some((filter) => matchesFilter(filter, event))) return { verdict: 'stray' };
    if (!authors.allows(event.pubkey)) {
      return { verdict: 'surplus', createdAt: event.created_at };
    }
    if (!this.#isVerified(event)) {
      const verified = verifyEvent(event, this.#crypto, isPlain);
      if (!verified.ok) return refusedBy(verified, claimed);
      this.#verified.set(event.id, event.sig);
    }
    authors.count(event.pubkey);
    seen.set(event.id, event.created_at);
    return { verdict: 'new', event };
  }

  /** Reports whether the same id and signature were verified before, and the id is the hash of this copy. */
  #isVerified(event: SignedEvent): boolean {
    if (this.#verified.get(event.id) !== event.sig) return false;
    return eventId(event.pubkey, event, this.#crypto.sha256Text) === event.id;
  }
}

function refusedBy(
  { issue }: Extract<Result<SignedEvent>, { ok: false }>,
  claimed: unknown,
): Received {
  const detail = issue.at === '' ? issue.message : `${issue.at}: ${issue.message}`;
  const reason = reasons[issue.code] ?? 'malformed';
  const id = typeof claimed === 'string' && isHex32(claimed) ? claimed : undefined;
  return { verdict: 'refused', reason, detail, id, isFault: !pardoned.has(issue.code) };
}
