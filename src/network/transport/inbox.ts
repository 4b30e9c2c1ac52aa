/**
 * What an arriving event must pass before anyone hears of it: shape, filter, id, signature. Only then is its id
 * remembered, so a forged twin that comes first never hides the genuine event.
 */
import type { Result } from '../../base/result.ts';
import type { RejectReason } from '../../run/contribution.ts';
import { eventId, parseEvent, type Sha256, type SignedEvent, verifyEvent } from '../event.ts';
import { idOf } from './answers.ts';
import { type Filter, matchesFilter } from './filter.ts';
import { Recent } from './recent.ts';

export type Received =
  | { readonly verdict: 'new'; readonly event: SignedEvent }
  /** Verified and handed over before. */
  | { readonly verdict: 'known' }
  /** Nothing the filters ask for: the relay's fault, or another application's event. */
  | { readonly verdict: 'stray' }
  | { readonly verdict: 'refused'; readonly reason: RejectReason; readonly detail: string };

/** The ids one subscriber has been handed. */
export type SeenIds = Recent<true>;

/** Ids remembered per subscription, and signatures remembered per relay set. */
const REMEMBERED = 32_768;

export const createSeenIds = (): SeenIds => new Recent<true>(REMEMBERED);

const reasons: Readonly<Record<string, RejectReason>> = {
  unsigned: 'unsigned',
  'too-large': 'too-large',
  'bad-id': 'bad-id',
  'bad-signature': 'bad-signature',
};

export class Inbox {
  readonly #sha256: Sha256;
  /** The good signature of each event verified lately: checked once, however many relays and subscriptions bring it. */
  readonly #verified = new Recent<string>(REMEMBERED);

  constructor(sha256: Sha256) {
    this.#sha256 = sha256;
  }

  /** Judges one unparsed event for a subscription that asked with `filters` and has been handed `seen`. */
  receive(raw: unknown, filters: readonly Filter[], seen: SeenIds): Received {
    const claimed = idOf(raw);
    if (typeof claimed === 'string' && seen.get(claimed)) return { verdict: 'known' };
    const parsed = parseEvent(raw);
    if (!parsed.ok) return refusedBy(parsed);
    const event = parsed.value;
    if (!filters.some((filter) => matchesFilter(filter, event))) return { verdict: 'stray' };
    if (!this.#isVerified(event)) {
      const verified = verifyEvent(event, this.#sha256);
      if (!verified.ok) return refusedBy(verified);
      this.#verified.set(event.id, event.sig);
    }
    seen.set(event.id, true);
    return { verdict: 'new', event };
  }

  /** The same id and signature were good before; the id must still be the hash of this very copy. */
  #isVerified(event: SignedEvent): boolean {
    if (this.#verified.get(event.id) !== event.sig) return false;
    return eventId(event.pubkey, event, this.#sha256) === event.id;
  }
}

function refusedBy({ issue }: Extract<Result<SignedEvent>, { ok: false }>): Received {
  const detail = issue.at === '' ? issue.message : `${issue.at}: ${issue.message}`;
  return { verdict: 'refused', reason: reasons[issue.code] ?? 'malformed', detail };
}
