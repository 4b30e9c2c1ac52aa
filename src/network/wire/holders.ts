/** Holder announcements and attestations of holders: builds and reads their events. */
import { attestation } from '../../../kinds/attestation.ts';
import { holder as kind } from '../../../kinds/holder.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { attributes, type Holder } from '../../run/placement-policy.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import { type EventDate, newer } from './judged.ts';

/** Fields of a holder announcement. */
export interface HolderOffer extends Pick<Holder, 'region' | 'tier' | 'weight' | 'classes'> {
  readonly freeBytes: number;
  /** Addresses of its holder server; untrusted if the announcement came from others. */
  readonly contacts: readonly string[];
  /** Objects of which it stores some or all chunks. */
  readonly held: readonly Digest[];
}

/** A verified announcement, with its event, which may be passed on. */
export interface HolderRecord extends HolderOffer, EventDate {
  readonly key: WorkerId;
  readonly expiresAt: number;
  readonly event: SignedEvent;
}

interface Vouched {
  readonly holder: WorkerId;
  readonly region?: string | undefined;
  readonly tier?: string | undefined;
}

interface Attestation extends Vouched, EventDate {
  readonly by: WorkerId;
}

const MOST_AHEAD_SECONDS = 15 * 60;
const LONGEST_SECONDS = 30 * 86_400;
/** Maximum events to read, against lying relays and floods. */
const MOST_EVENTS = 65_536;

/** Returns an unsigned announcement that expires after `seconds`. */
export function buildHolder(offer: HolderOffer, createdAt: number, seconds: number): EventDraft {
  const { freeBytes: free, held: objects, ...claim } = offer;
  const expiration = createdAt + Math.min(seconds, LONGEST_SECONDS);
  return kind.build({ slot: 'holder', ...claim, objects, free, expiration }, createdAt);
}

export const buildAttestation = (
  vouched: Vouched,
  createdAt: number,
  seconds: number,
): EventDraft => attestation.build({ ...vouched, expiration: createdAt + seconds }, createdAt);

/** Returns the filter of all holders, or of those that announce an object. */
export const holderFilter = (held?: Digest): ReturnType<typeof kind.filter> =>
  kind.filter(held === undefined ? {} : { objects: [held] });

export const attestationFilter = (attestors: readonly WorkerId[]): ReturnType<typeof kind.filter> =>
  attestation.filter({}, { authors: attestors });

/** Returns the announcement of a verified event, or why it does not count at `now` (Unix seconds). */
export function readHolder(event: SignedEvent, now: number): Result<HolderRecord> {
  const parsed = kind.parse(event);
  if (!parsed.ok) return parsed;
  const { region, tier, weight, free: freeBytes, expiration: expiresAt } = parsed.value;
  const { classes = [], contacts = [], objects: held = [] } = parsed.value;
  const dated = judgeDates(event, expiresAt, now);
  if (!dated.ok) return dated;
  const signed = { key: event.pubkey, event, createdAt: event.created_at, eventId: event.id };
  return ok({ ...signed, region, tier, weight, classes, freeBytes, contacts, held, expiresAt });
}

function judgeDates(event: SignedEvent, expiration: number, now: number): Result<null> {
  if (event.created_at > now + MOST_AHEAD_SECONDS) {
    return refuse('from-the-future', 'created_at', 'dated ahead of our clock');
  }
  if (expiration <= now) return refuse('expired', 'tags.expiration', 'expired');
  return expiration - event.created_at > LONGEST_SECONDS
    ? refuse('too-long', 'tags.expiration', 'expires more than 30 days after its date')
    : ok(null);
}

/** Returns the newest announcement of each key, independent of the order of events. */
export function newestHolders(
  events: readonly SignedEvent[],
  now: number,
): ReadonlyMap<WorkerId, HolderRecord> {
  const newest = new Map<WorkerId, HolderRecord>();
  for (const event of events.slice(0, MOST_EVENTS)) {
    const read = readHolder(event, now);
    if (!read.ok) continue;
    const before = newest.get(event.pubkey);
    if (before === undefined || newer(read.value, before)) newest.set(event.pubkey, read.value);
  }
  return newest;
}

function readAttestation(event: SignedEvent, now: number): Attestation | undefined {
  const parsed = attestation.parse(event);
  if (!parsed.ok || event.created_at > now + MOST_AHEAD_SECONDS) return undefined;
  const { holder, region, tier, expiration } = parsed.value;
  if (expiration <= now) return undefined;
  return { holder, region, tier, by: event.pubkey, createdAt: event.created_at, eventId: event.id };
}

/**
 * Returns each holder with the attributes that attestors confirm; of several attestors, the one with the lowest key is
 * named.
 */
export function withAttestations(
  holders: readonly Omit<Holder, 'attested'>[],
  events: readonly SignedEvent[],
  attestors: readonly WorkerId[],
  now: number,
): readonly Holder[] {
  const newest = new Map<string, Attestation>();
  for (const event of events.slice(0, MOST_EVENTS)) {
    if (!attestors.includes(event.pubkey)) continue;
    const claim = readAttestation(event, now);
    if (claim === undefined) continue;
    const slot = `${claim.by}:${claim.holder}`;
    const before = newest.get(slot);
    if (before === undefined || newer(claim, before)) newest.set(slot, claim);
  }
  const by = new Map<WorkerId, Attestation[]>();
  for (const claim of [...newest.values()].sort((a, b) => (a.by < b.by ? -1 : 1))) {
    by.set(claim.holder, [...(by.get(claim.holder) ?? []), claim]);
  }
  return holders.map(({ key, region, tier, weight, classes }) => {
    const claimed = { region, tier };
    const confirmed = attributes.flatMap((each) => {
      const match = by.get(key)?.find((claim) => claim[each] === claimed[each]);
      return match === undefined ? [] : [[each, match.by] as const];
    });
    return { key, region, tier, weight, classes, attested: Object.fromEntries(confirmed) };
  });
}
