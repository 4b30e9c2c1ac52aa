/**
 * Signs, sends, receives, stores and re-sends the messages of one certified run. The relay set verifies events before
 * they arrive here.
 */

import { utf8 } from '../../base/bytes.ts';
import { Attachments } from '../../network/attachments/attachments.ts';
import { apartIn, BodyExchange } from '../../network/attachments/bodies.ts';
import type { PublishOptions } from '../../network/attachments/publish.ts';
import type { RelaySession } from '../../network/attachments/relay-chunks.ts';
import type { Lifetime } from '../../network/chunks/payload.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { EventCrypto } from '../../network/event-crypto.ts';
import { type Sending, watchOutcomes } from '../../network/transport/delivery.ts';
import type { Filter } from '../../network/transport/frames.ts';
import type { Subscription } from '../../network/transport/relay-set.ts';
import type { WireOptions } from '../../network/wire/wire.ts';
import type { RejectReason } from '../../run/contribution.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import { type FeatureValues, withFeatures } from '../../run/spec/features.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { Message, Notice } from '../../run/vote.ts';
import {
  type ArchivedRound,
  type Bundle,
  findArchivedVotes,
  findArchivers,
  publishArchivedVotes,
} from './archived-votes.ts';
import {
  bodyOfMessage,
  buildMessage,
  controlLifetime,
  faultsFilter,
  type LeastLifetime,
  manifestsFilter,
  membersFilter,
  outcomeFilter,
  type ProtocolMessage,
  refuseShortLived,
  roundFilter,
  toProtocolMessage,
} from './certified-events.ts';
import { type CheckpointedState, publishCheckpoint } from './checkpoints.ts';
import { buildFault, proofBody } from './faults.ts';
import { answering, type Hearing, type RoundListening } from './hearing.ts';
import { KeptEvents, Resending } from './kept-events.ts';
import { buildRun, isServable, specLifetime } from './runs.ts';

/** An event of this worker, signed but not sent. */
export interface LocalEvent {
  readonly message: ProtocolMessage;
  readonly event: SignedEvent;
}

export interface ControlOptions extends RelaySession, Pick<WireOptions, 'signer' | 'features'> {
  readonly run: Digest;
  /** Verifies archived events; default pure JavaScript. */
  readonly crypto?: EventCrypto | undefined;
  /** Lifetime of events that decide rounds, in seconds; default about three months. */
  readonly keptSeconds?: number | undefined;
  /** Parses a verified event; default `toProtocolMessage`. */
  readonly read?: typeof toProtocolMessage | undefined;
  /** Computes the feature fields of a checkpoint while its chunks are being sent. */
  checkpointFeatures?(model: readonly Uint8Array[]): Promise<FeatureValues<'checkpoint'>>;
}

/** How the events of one subscription or query are handled. */
interface Hear {
  readonly hearing: Hearing;
  keep(event: SignedEvent, wasRequested: boolean): void;
  /** True for a request by id: the event is stored and its body downloaded, even if its author is not a member. */
  readonly wasRequested: boolean;
}

/** Time for relays to answer a request for single events. */
const FETCH_MS = 10_000;

/** Messages of one certified run over its relays. Opens no subscription until `listen` is called. */
export class Control {
  readonly #options: ControlOptions;
  readonly #kept: KeptEvents;
  readonly #attachments: Attachments;
  readonly #bodies: BodyExchange;
  readonly #resending: Resending;
  #isHurrying = false;
  /** Newest round listened to; events that arrive now are dropped with it. */
  #latest = 0;
  #least: LeastLifetime = { since: 0, seconds: 0 };

  constructor(options: ControlOptions) {
    this.#options = options;
    this.#kept = new KeptEvents(options.signer.publicKey);
    this.#attachments = new Attachments(options);
    this.#bodies = new BodyExchange(options, this.#attachments);
    this.#resending = new Resending(options);
  }

  listen(round: number, hearing: Hearing): RoundListening {
    this.#latest = Math.max(this.#latest, round);
    const stop = new AbortController();
    const filter = roundFilter(this.#options.run, round);
    const listening = this.#hear(filter, hearing, this.#keep);
    return {
      get caughtUp() {
        return listening.caughtUp;
      },
      renew: () => listening.renew(),
      pull: async (manifest) => (await this.#attachments.pull(manifest, stop).done)?.payload,
      close() {
        stop.abort(new Error('closed'));
        listening.close();
      },
    };
  }

  listenToManifests(round: number, by: readonly WorkerId[], hearing: Hearing): Subscription {
    return this.#hear(manifestsFilter(this.#options.run, round, by), hearing, this.#keep);
  }

  listenToFaults(hearing: Hearing): Subscription {
    return this.#hearForAll(faultsFilter(this.#options.run), hearing);
  }

  /** Subscribes to joins and leaves of the whole run, and to verdicts if it has a jury. */
  listenToMembers(hearing: Hearing): Subscription {
    return this.#hearForAll(membersFilter(this.#options.run), hearing);
  }

  /** Reads the stored events of a round; resolves when most relays have answered. Never rejects. */
  queryRound(round: number, hearing: Hearing): Promise<void> {
    return this.#ask(roundFilter(this.#options.run, round), hearing, false);
  }

  /** Requests these events from the relays that are read, then from all relays for those still missing. */
  fetch(ids: readonly EventId[], asker: Hearing): void {
    const hearing = answering(asker);
    for (const id of ids) {
      const event = this.#kept.get(id);
      if (event) this.#take(event, { hearing, keep: this.#keep, wasRequested: true });
    }
    const missing = ids.filter((id) => this.#kept.get(id) === undefined);
    if (missing.length > 0) void this.#ask({ ids: missing }, hearing, true, missing.length);
  }

  /** Requests proposals of an outcome from the relays that are read, then from all relays if they have none. */
  fetchOutcome(digest: Digest, hearing: Hearing): void {
    void this.#ask(outcomeFilter(this.#options.run, digest), answering(hearing), false, 1);
  }

  /** Queries archives of rounds and handles the events inside like originals; resolves when relays have answered. */
  fetchArchivedVotes(rounds: readonly ArchivedRound[], hearing: Hearing): Promise<void> {
    const hear = { hearing: answering(hearing), keep: this.#keep, wasRequested: true };
    const search = { ...this.#options, attachments: this.#attachments };
    return findArchivedVotes(search.run, rounds, search, (event) => this.#take(event, hear));
  }

  /** Queries the relays that are read; if they return fewer than `wanted` events, queries the others too. */
  async #ask(filter: Filter, hearing: Hearing, wasRequested: boolean, wanted = 0): Promise<void> {
    const { relays, signal } = this.#options;
    const { onEvent, onRefused } = this.#handlersOf({ hearing, keep: this.#keep, wasRequested });
    let count = 0;
    const take = (event: SignedEvent) => {
      count++;
      onEvent(event);
    };
    const queryOptions = { waitMs: FETCH_MS, signal, onEvent: take, onRefused };
    const { readRelays, relays: all } = relays;
    const others = all.filter((relay) => !readRelays.includes(relay));
    try {
      await relays.query([filter], queryOptions);
      if (count < wanted && others.length > 0)
        await relays.query([filter], { ...queryOptions, only: others });
    } catch {
      // nothing is asked any more
    }
  }

  /** Signs and stores the event of a message, without sending it. */
  sign(message: Message | Notice): LocalEvent {
    const event = this.#options.signer.sign(buildMessage(message, this.#lifetime()));
    return { event, message: this.#keepSigned(event, bodyOfMessage(message)) };
  }

  /** Signs a proof from two events of one key or from verdicts; undefined if one of the events is not stored. */
  accuse(ids: readonly EventId[]): LocalEvent | undefined {
    const events = ids.flatMap((id) => this.#kept.get(id) ?? []);
    const { run, signer } = this.#options;
    if (events.length < ids.length) return undefined;
    const event = signer.sign(buildFault(run, events, this.#lifetime()));
    return { event, message: this.#keepSigned(event, proofBody(events)) };
  }

  /**
   * Restores an event that this key signed in an earlier session; `message` is what it was signed for, which has the
   * body.
   */
  restore(event: SignedEvent, message?: Message): ProtocolMessage {
    return this.#keepSigned(event, message && bodyOfMessage(message));
  }

  /** Re-sends stored events unchanged to relays that lack them. */
  resend(ids: readonly EventId[]): void {
    const resent: SignedEvent[] = [];
    for (const id of ids) {
      const event = this.#kept.get(id);
      // the first send includes its body
      if (event && !this.#bodies.send(event, this.#latest)) resent.push(event);
    }
    this.#resending.send(resent, this.#latest);
  }

  /** Sends an event to all relays until `signal` aborts, after its body if that is sent in chunks. */
  send(event: SignedEvent, signal = this.#options.signal): Sending {
    const { relays } = this.#options;
    const sending = this.#bodies.send(event, this.#latest);
    return sending ?? watchOutcomes(relays.send(event, { signal }), relays);
  }

  /** Returns the date of a stored event in Unix seconds. */
  signedAt(id: EventId): number | undefined {
    return this.#kept.get(id)?.created_at;
  }

  /** Returns these events with their bodies; undefined if one is not stored. */
  bundle(ids: readonly EventId[]): Bundle | undefined {
    const events = ids.flatMap((id) => this.#kept.get(id) ?? []);
    if (events.length < ids.length) return undefined;
    const bodies = events.flatMap((event) => {
      const apart = apartIn(event);
      return (apart && this.#bodies.get(apart)) ?? [];
    });
    return { events, bodies };
  }

  archiveVotes(round: number, bundle: Bundle): Promise<void> {
    return publishArchivedVotes(
      { run: this.#options.run, round },
      bundle,
      this.#attachments,
      this.#sending(),
    );
  }

  /**
   * Returns which of these members have an archive of the round on a relay; undefined if no relay answered. Never
   * rejects.
   */
  archivers(round: number, by: readonly WorkerId[]): Promise<ReadonlySet<WorkerId> | undefined> {
    return findArchivers({ run: this.#options.run, round }, by, this.#options);
  }

  /** Publishes the run's spec under this worker's key, unless it is too large for relays. */
  async publishSpec(spec: RunSpec): Promise<void> {
    if (!isServable(spec)) return;
    const sending = this.#sending(specLifetime(this.#options.clock));
    const event = sending.sign(buildRun(spec, sending.lifetime));
    await this.#attachments.publish(event, [], sending).settled;
  }

  /** Publishes this keeper's share of a certified state; returns false if relays lack part of it. */
  async checkpoint(
    state: Omit<CheckpointedState, 'run' | 'features'>,
    keepers: readonly WorkerId[],
  ): Promise<boolean> {
    const { run, signer } = this.#options;
    const features = await this.#options.checkpointFeatures?.(state.model);
    const sharing = { me: signer.publicKey, all: keepers };
    const checkpoint = { ...state, run, ...withFeatures(features) };
    return publishCheckpoint(checkpoint, sharing, this.#attachments, this.#sending());
  }

  readonly #lifetime = (): Lifetime =>
    controlLifetime(this.#options.clock, this.#options.keptSeconds);

  #sending(lifetime = this.#lifetime()): PublishOptions {
    const { signal, signer } = this.#options;
    const isPatient = !this.#isHurrying;
    return { lifetime, signal, isPatient, sign: (draft) => signer.sign(draft) };
  }

  /** Publishes without yielding to more urgent events from now on: no further round needs the relays. */
  hurry(): void {
    this.#isHurrying = true;
  }

  /** Refuses events that expire earlier from now on, unless they were requested. */
  require(least: LeastLifetime): void {
    this.#least = least;
  }

  /** Sets whose events are stored and whose chunks are downloaded; of other keys only requested events are. */
  admit(members: readonly WorkerId[]): void {
    this.#kept.admit(members);
    this.#bodies.admit(members, this.#latest);
  }

  /** Drops events of rounds before this one. */
  forgetBefore(round: number): void {
    this.#bodies.forgetBefore(round);
    this.#resending.forgetBefore(round);
    this.#kept.forgetBefore(round);
  }

  close(): void {
    this.#bodies.close();
    this.#attachments.close();
  }

  #read(event: SignedEvent): ProtocolMessage | undefined {
    const { run, crypto, features, read = toProtocolMessage } = this.#options;
    return read(event, run, crypto, this.#bodies.get, features);
  }

  readonly #keep = (event: SignedEvent, wasRequested: boolean): void =>
    this.#kept.keep(event, this.#latest, wasRequested);

  #keepSigned(event: SignedEvent, body: string | undefined): ProtocolMessage {
    const apart = apartIn(event);
    if (apart && body !== undefined) this.#bodies.keep(apart, utf8(body), this.#latest);
    const message = this.#read(event);
    if (message === undefined)
      throw new TypeError(`this worker's own event cannot be read: ${event.id}`);
    this.#keep(event, true);
    return message;
  }

  #hearForAll(filter: Filter, hearing: Hearing): Subscription {
    return this.#hear(filter, hearing, (event) => this.#kept.keepForAll(event));
  }

  /** Opens a subscription that can be renewed. */
  #hear(filter: Filter, hearing: Hearing, keep: Hear['keep']): Subscription {
    const { relays } = this.#options;
    const handlers = {
      ...this.#handlersOf({ hearing, keep, wasRequested: false }),
      onCaughtUp: () => hearing.onCaughtUp?.(),
    };
    return relays.subscribe([filter], handlers);
  }

  #handlersOf(hear: Hear) {
    return {
      onEvent: (event: SignedEvent) => this.#take(event, hear),
      onRefused: (reason: RejectReason, detail: string, _: string, id: string | undefined) =>
        hear.hearing.refuse?.({ reason, detail, worker: undefined }, id),
    };
  }

  /** Passes on the message of an event, immediately or once its body has arrived; returns false while it is missing. */
  #take(event: SignedEvent, hear: Hear): boolean {
    const rejection = hear.wasRequested ? undefined : refuseShortLived(event, this.#least);
    if (rejection) hear.hearing.refuse?.(rejection, event.id);
    if (rejection) return true;
    const message = this.#read(event);
    if (message !== undefined) {
      if (message.type !== 'unreadable') hear.keep(event, hear.wasRequested);
      hear.hearing.take(message);
      return true;
    }
    const apart = apartIn(event);
    if (!apart || this.#bodies.get(apart)) return true;
    const onReceived = () => void this.#take(event, hear);
    this.#bodies.bring({ event, apart, onReceived }, this.#latest, hear.wasRequested);
    return false;
  }
}
