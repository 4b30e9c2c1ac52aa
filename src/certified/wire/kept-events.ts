/**
 * Keeps events of a certified run in memory, for fault proofs, late members and archives. Limits per key and in total,
 * so that a flood evicts only the flooder's events. Also re-sends a round's events to relays that lack them.
 */

import { anySignal } from '../../base/async.ts';
import { FairStore } from '../../base/bounded.ts';
import type { SignedEvent } from '../../network/event.ts';
import { republishMissing } from '../../network/transport/delivery.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import type { EventId, WorkerId } from '../../run/ids.ts';

/** Limits in bytes for events of rounds: per key and in total. One event has at most 128 KiB. */
const ROUND_BYTES = { perOwner: 4 << 20, inAll: 128 << 20 };
/** Limits in bytes for joins, leaves and faults, which anyone may send and which are kept for the whole run. */
const MEMBER_BYTES = { perOwner: 512 << 10, inAll: 16 << 20 };

interface OfRound {
  readonly event: SignedEvent;
  readonly round: number;
}

export class KeptEvents {
  readonly #me: WorkerId;
  readonly #ofRounds = new FairStore<OfRound>(ROUND_BYTES);
  readonly #ofMembers = new FairStore<SignedEvent>(MEMBER_BYTES);
  /** Keys whose round events are kept; everyone's until `admit` is called. */
  #members: ReadonlySet<WorkerId> | undefined;

  constructor(me: WorkerId) {
    this.#me = me;
  }

  get(id: EventId): SignedEvent | undefined {
    return this.#ofRounds.get(id)?.event ?? this.#ofMembers.get(id);
  }

  admit(members: readonly WorkerId[]): void {
    this.#members = new Set(members);
  }

  /** Stores an event of a round; a requested event is stored even if its author is not a member. */
  keep(event: SignedEvent, round: number, wasRequested: boolean): void {
    const owner = event.pubkey;
    if (!wasRequested && owner !== this.#me && this.#members?.has(owner) === false) return;
    this.#ofRounds.set(event.id, { value: { event, round }, owner, bytes: bytesOf(event) });
  }

  keepForAll(event: SignedEvent): void {
    const owner = event.pubkey;
    this.#ofMembers.set(event.id, { value: event, owner, bytes: bytesOf(event) });
  }

  forgetBefore(round: number): void {
    for (const [id, { value }] of this.#ofRounds.entries()) {
      if (value.round < round) this.#ofRounds.delete(id);
    }
  }
}

/** Returns the approximate memory of an event in bytes. */
const bytesOf = ({ content, tags }: SignedEvent): number =>
  tags.flat().reduce((sum, text) => sum + text.length + 16, 1024 + content.length);

/** Re-sends events of a round to relays that lack them, with low priority and never twice at the same time. */
export class Resending {
  readonly #options: { readonly relays: RelaySet; readonly signal: AbortSignal };
  /** Transfers in progress, by relay and event id. */
  readonly #underWay = new Set<string>();
  readonly #rounds = new Map<AbortController, number>();

  constructor(options: { readonly relays: RelaySet; readonly signal: AbortSignal }) {
    this.#options = options;
  }

  /** Re-sends events of the current or the previous round. */
  send(events: readonly SignedEvent[], round: number): void {
    for (const relay of this.#options.relays.relays) void this.#sendTo(relay, events, round);
  }

  /** Stops re-sending events of rounds before this one. */
  forgetBefore(round: number): void {
    for (const [stop, of] of this.#rounds) if (of < round) stop.abort(new Error('over'));
  }

  async #sendTo(relay: string, all: readonly SignedEvent[], round: number): Promise<void> {
    const events = all.filter(({ id }) => !this.#underWay.has(`${relay} ${id}`));
    if (events.length === 0) return;
    const stop = new AbortController();
    this.#rounds.set(stop, round);
    for (const { id } of events) this.#underWay.add(`${relay} ${id}`);
    const { signal, release } = anySignal(this.#options.signal, stop.signal);
    // rejects when the round or the run is over
    await republishMissing(this.#options.relays, relay, events, { signal, isPatient: true }).catch(
      () => undefined,
    );
    release();
    for (const { id } of events) this.#underWay.delete(`${relay} ${id}`);
    this.#rounds.delete(stop);
  }
}
