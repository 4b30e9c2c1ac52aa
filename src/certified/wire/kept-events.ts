/**
 * Events of a certified run in memory, by id: for fault proofs, laggards and copies, bounded per key and in all, so
 * that a flood pushes out nobody else's; and publishing those of a round again to relays that lack them.
 */

import { anySignal } from '../../base/async.ts';
import { FairStore } from '../../base/bounded.ts';
import type { SignedEvent } from '../../network/event.ts';
import { republishMissing } from '../../network/transport/delivery.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import type { EventId, WorkerId } from '../../run/ids.ts';

/** Events of rounds: of one key, and of all. An event has 128 KiB at most. */
const ROUND_BYTES = { perOwner: 4 << 20, inAll: 128 << 20 };
/** The same of joins, leaves and faults, which anybody may send and which are kept for all of the run. */
const MEMBER_BYTES = { perOwner: 512 << 10, inAll: 16 << 20 };

interface OfRound {
  readonly event: SignedEvent;
  readonly round: number;
}

export class KeptEvents {
  readonly #me: WorkerId;
  readonly #ofRounds = new FairStore<OfRound>(ROUND_BYTES);
  readonly #ofMembers = new FairStore<SignedEvent>(MEMBER_BYTES);
  /** Whose events of rounds are kept; everybody's until it is said. */
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

  /** An event of a round; one that was asked for is kept whoever signed it. */
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

/** What an event takes in memory, about. */
const bytesOf = ({ content, tags }: SignedEvent): number =>
  tags.flat().reduce((sum, text) => sum + text.length + 16, 1024 + content.length);

/** Publishes events of a round again where relays lack them. They give way to all else, and nothing is sent twice. */
export class Resending {
  readonly #options: { readonly relays: RelaySet; readonly signal: AbortSignal };
  /** By relay and event. */
  readonly #underWay = new Set<string>();
  readonly #rounds = new Map<AbortController, number>();

  constructor(options: { readonly relays: RelaySet; readonly signal: AbortSignal }) {
    this.#options = options;
  }

  /** Events of the round in progress, or of the one before. */
  send(events: readonly SignedEvent[], round: number): void {
    for (const relay of this.#options.relays.relays) void this.#sendTo(relay, events, round);
  }

  /** What rounds before this one needed is sent no more. */
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
    // rejects when the round, or the run, is over
    await republishMissing(this.#options.relays, relay, events, { signal, isPatient: true }).catch(
      () => undefined,
    );
    release();
    for (const { id } of events) this.#underWay.delete(`${relay} ${id}`);
    this.#rounds.delete(stop);
  }
}
