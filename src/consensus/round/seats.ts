/** Decides which live members may have a seat: those that earned one, want one, do no harm and hold the full model. */

import { actingFor } from '../../run/founder-seats.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { Ledger, Member } from '../../run/ledger.ts';
import { drawEqually } from '../committee/draw.ts';
import { quorumOf } from '../committee/quorum.ts';
import { rollingScore } from '../scores.ts';
import { keysOf, type MembershipRules } from './membership.ts';

/**
 * Returns the keys eligible for a seat: entitled to one, and willing two outcomes ago, so that no outcome chooses its
 * successor's committee.
 */
export function seatable(ledger: Ledger, keys: readonly WorkerId[]): readonly WorkerId[] {
  const unwilling = new Set(
    keysOf(ledger.members, ({ features }) => features?.seats?.before === 0),
  );
  return entitled(ledger, keys).filter((key) => !unwilling.has(key));
}

/**
 * Returns the keys entitled to a seat: founders and contributors with a certified tip, so that silent keys cannot stall
 * a round. Members of a smaller tier are excluded, since they lack the full model whose root a seat certifies.
 */
export function entitled(ledger: Ledger, keys: readonly WorkerId[]): readonly WorkerId[] {
  if (ledger.round === 0) return keys;
  const out = unseated(ledger, keys);
  const parts = new Set(keysOf(ledger.members, (member) => tierOfMember(member) > 0));
  return withTip(ledger, keys).filter((key) => !out.has(key) && !parts.has(key));
}

/** Which MatFormer tier a member trains; 0, the full model, in a run without tiers. */
export const tierOfMember = ({ features }: Pick<Member, 'features'>): number =>
  features?.widths?.tier ?? 0;

/** Returns the index of a member's group of experts; -1 before its join is listed, and in a run without groups. */
export const groupOfMember = ({ features }: Pick<Member, 'features'>): number =>
  features?.experts?.group ?? -1;

/** Returns the keys that have earned a seat, regardless of their scores. */
function withTip(ledger: Ledger, keys: readonly WorkerId[]): readonly WorkerId[] {
  const maySit = new Set(
    keysOf(
      ledger.members,
      ({ tip, seatFrom }) => tip !== null && seatFrom >= 0 && seatFrom <= ledger.round,
    ),
  );
  return keys.filter((key) => maySit.has(key));
}

/**
 * Returns the live members that lose their seat because of their scores two outcomes ago: the worst ones, and always
 * fewer than a third, since scores may be wrong.
 */
export function unseated(ledger: Ledger, live: readonly WorkerId[]): ReadonlySet<WorkerId> {
  if (ledger.round === 0) return new Set();
  const keys = withTip(ledger, live);
  const may = new Set(keys);
  const low = ledger.members.flatMap(({ key, features }) =>
    may.has(key) && features?.scores?.before === 1 ? [{ key, ...features.scores }] : [],
  );
  const score = ({ history }: { readonly history: readonly number[] }) => rollingScore(history);
  const worst = low.sort((a, b) => score(a) - score(b) || (a.key < b.key ? -1 : 1));
  const most = Math.floor((keys.length - 1) / 3);
  return new Set(worst.slice(0, most).map(({ key }) => key));
}

/**
 * Returns a test for guests: keys that neither founded the run nor act for a founder. If founders do not decide, no key
 * is a guest.
 */
export function guestTest(
  { founders, foundersDecide }: Pick<MembershipRules, 'founders' | 'foundersDecide'>,
  { members }: Pick<Ledger, 'members'>,
): (key: WorkerId) => boolean {
  if (!foundersDecide) return () => false;
  const named = new Set(founders);
  const acting = actingFor(named, members);
  return (key) => !named.has(key) && !acting.has(key);
}

/** Returns the keys that are no guests; all of them if every key is a guest. */
export function withoutGuests(
  rules: Parameters<typeof guestTest>[0],
  ledger: Ledger,
  keys: readonly WorkerId[],
): readonly WorkerId[] {
  const isGuest = guestTest(rules, ledger);
  return keys.every(isGuest) ? keys : keys.filter((key) => !isGuest(key));
}

/**
 * Returns the eligible keys that sit if founders decide: all founders, and as many guests as leave the founders a
 * quorum, drawn for the round. Without an eligible founder all keys sit, since a run needs a committee.
 */
export function withFounderQuorum<T extends { readonly key: WorkerId }>(
  rules: MembershipRules,
  ledger: Ledger,
  eligible: readonly T[],
): readonly T[] {
  const isGuest = guestTest(rules, ledger);
  const guests = eligible.map(({ key }) => key).filter(isGuest);
  const deciding = eligible.length - guests.length;
  const count = mostGuests(rules.committee, deciding);
  if (deciding === 0 || guests.length <= count) return eligible;
  const drawn = drawEqually('nostrain/other-seats/1', rules.run, ledger, { keys: guests, count });
  const seated = new Set(drawn);
  return eligible.filter(({ key }) => !isGuest(key) || seated.has(key));
}

/** Returns how many guests may sit with these founders so that all sit and the founders alone are a quorum. */
export function mostGuests(
  { quorum, size = Number.POSITIVE_INFINITY }: MembershipRules['committee'],
  founders: number,
): number {
  let seats = founders;
  while (seats < size && quorumOf(quorum, seats + 1) <= founders) seats++;
  return seats - founders;
}
