/** Signs, sends, receives, keeps and re-sends the messages of one certified run. Events are verified before. */

import type { Clock } from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import { Attachments } from '../../network/attachments/attachments.ts';
import { apartIn, BodyExchange } from '../../network/attachments/bodies.ts';
import type { PublishOptions } from '../../network/attachments/publish.ts';
import type { Lifetime } from '../../network/chunks/payload.ts';
import type { SignedEvent, Signer } from '../../network/event.ts';
import type { EventCrypto, Sha256 } from '../../network/event-crypto.ts';
import { type Sending, watchOutcomes } from '../../network/transport/delivery.ts';
import type { Filter } from '../../network/transport/frames.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import type { Manifest } from '../../network/wire/manifests.ts';
import type { Rejection, RejectReason } from '../../run/contribution.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import { type FeatureSet, type FeatureValues, withFeatures } from '../../run/spec/features.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { Message, Notice } from '../../run/vote.ts';
import {
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
import { KeptEvents, Resending } from './kept-events.ts';
import { buildRun, isServable, specLifetime } from './runs.ts';

export interface Hearing {
  /** Called as messages come, for the same one also several times; `wasRequested` for those that answer a question. */
  take(message: ProtocolMessage, wasRequested?: boolean): void;
  /** An event with a wrong id or signature; the relay is to blame, not the key that it names. */
  refuse?(rejection: Rejection, id: EventId | undefined): void;
  onCaughtUp?(): void;
}

export interface Listening {
  /** Every reachable relay has sent what it stored. */
  readonly caughtUp: boolean;
  resubscribe(): void;
  /** Pulls nothing any more; what is listened to has a `close` of its own. */
  close(): void;
}

export interface RoundListening extends Listening {
  /** The payload of a manifest; undefined when it is not what was signed, or the round is closed first. */
  pull(manifest: Manifest): Promise<Uint8Array | undefined>;
}

/** An event of this worker, signed and not sent yet. */
export interface LocalEvent {
  readonly message: ProtocolMessage;
  readonly event: SignedEvent;
}

export interface ControlOptions {
  readonly run: Digest;
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly clock: Clock;
  readonly sha256: Sha256;
  /** For events inside copies; default pure JavaScript. */
  readonly crypto?: EventCrypto | undefined;
  /** How long relays are asked to keep what decides rounds; default about three months. */
  readonly keptSeconds?: number | undefined;
  readonly features?: FeatureSet | undefined;
  /** Reads a verified event; default `toProtocolMessage`. */
  readonly read?: typeof toProtocolMessage | undefined;
  /** What features of the run say beside a checkpoint; made while its chunks go out. */
  checkpointFeatures?(model: readonly Uint8Array[]): Promise<FeatureValues<'checkpoint'>>;
  /** Aborted when nothing is to be sent any more. */
  readonly signal: AbortSignal;
}

/** What becomes of the events of one subscription or question. */
interface Hear {
  readonly hearing: Hearing;
  keep(event: SignedEvent, wasRequested: boolean): void;
  /** Asked for by id: kept, and its body pulled, whoever signed it. */
  readonly wasRequested: boolean;
}

/** How long relays may take to answer a question for single events. */
const FETCH_MS = 10_000;

/** The messages of one certified run over its relays. Opens no subscription by itself. */
export class Control {
  readonly #options: ControlOptions;
  readonly #kept: KeptEvents;
  readonly #attachments: Attachments;
  readonly #bodies: BodyExchange;
  readonly #resending: Resending;
  #isHurrying = false;
  /** The newest round that was listened to: what comes now is dropped with it. */
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
      resubscribe: listening.resubscribe,
      pull: async (manifest) => (await this.#attachments.pull(manifest, stop).done)?.payload,
      close() {
        stop.abort(new Error('closed'));
        listening.close();
      },
    };
  }

  listenToManifests(round: number, by: readonly WorkerId[], hearing: Hearing): Listening {
    return this.#hear(manifestsFilter(this.#options.run, round, by), hearing, this.#keep);
  }

  listenToFaults(hearing: Hearing): Listening {
    return this.#hearForAll(faultsFilter(this.#options.run), hearing);
  }

  /** Joins and leaves of the whole run, and verdicts where it has a jury. */
  listenToMembers(hearing: Hearing): Listening {
    return this.#hearForAll(membersFilter(this.#options.run), hearing);
  }

  /** Reads what relays have stored of a round; resolves when most have answered. Never rejects. */
  queryRound(round: number, hearing: Hearing): Promise<void> {
    return this.#ask(roundFilter(this.#options.run, round), hearing, false);
  }

  /** Asks relays for these events, and all of them for what those that are read do not have. */
  fetch(ids: readonly EventId[], asker: Hearing): void {
    const hearing = answering(asker);
    for (const id of ids) {
      const event = this.#kept.get(id);
      if (event) this.#take(event, { hearing, keep: this.#keep, wasRequested: true });
    }
    const missing = ids.filter((id) => this.#kept.get(id) === undefined);
    if (missing.length > 0) void this.#ask({ ids: missing }, hearing, true, missing.length);
  }

  /** Asks relays for proposals of an outcome, and all of them where those that are read have none. */
  fetchOutcome(digest: Digest, hearing: Hearing): void {
    void this.#ask(outcomeFilter(this.#options.run, digest), answering(hearing), false, 1);
  }

  /**
   * Asks all relays for copies of a round by these members, and takes them as originals; resolves when they answered.
   */
  fetchArchivedVotes(round: number, by: readonly WorkerId[], hearing: Hearing): Promise<void> {
    const hear = { hearing: answering(hearing), keep: this.#keep, wasRequested: true };
    const search = { ...this.#options, attachments: this.#attachments };
    return findArchivedVotes({ run: search.run, round }, by, search, (event) =>
      this.#take(event, hear),
    );
  }

  /** One query; if the relays that are read have fewer than `wanted` events, the others are asked as well. */
  async #ask(filter: Filter, hearing: Hearing, wasRequested: boolean, wanted = 0): Promise<void> {
    const { relays, signal } = this.#options;
    const { onEvent, onRefused } = this.#handlersOf({ hearing, keep: this.#keep, wasRequested });
    let count = 0;
    const take = (event: SignedEvent) => {
      count++;
      onEvent(event);
    };
    const queryOptions = { waitMs: FETCH_MS, signal, onEvent: take, onRefused };
    const { own, relays: all } = relays;
    const others = all.filter((relay) => !own.includes(relay));
    try {
      await relays.query([filter], queryOptions);
      if (count < wanted && others.length > 0)
        await relays.query([filter], { ...queryOptions, only: others });
    } catch {
      // nothing is asked any more
    }
  }

  /** An event of it, kept here and not sent yet. */
  sign(message: Message | Notice): LocalEvent {
    const event = this.#options.signer.sign(buildMessage(message, this.#lifetime()));
    return { event, message: this.#keepSigned(event, bodyOfMessage(message)) };
  }

  /** A proof from two events of one key, or verdicts of many; undefined if one of them is not here. */
  accuse(ids: readonly EventId[]): LocalEvent | undefined {
    const events = ids.flatMap((id) => this.#kept.get(id) ?? []);
    const { run, signer } = this.#options;
    if (events.length < ids.length) return undefined;
    const event = signer.sign(buildFault(run, events, this.#lifetime()));
    return { event, message: this.#keepSigned(event, proofBody(events)) };
  }

  /** Takes in an own event of an earlier session; `said` is what it was signed for, where that may have a body. */
  restore(event: SignedEvent, message?: Message): ProtocolMessage {
    return this.#keepSigned(event, message && bodyOfMessage(message));
  }

  /** Sends events that are here once more, as they are, to relays that do not have them. */
  resend(ids: readonly EventId[]): void {
    const resent: SignedEvent[] = [];
    for (const id of ids) {
      const event = this.#kept.get(id);
      // the first time its body goes with it
      if (event && !this.#bodies.send(event, this.#latest)) resent.push(event);
    }
    this.#resending.send(resent, this.#latest);
  }

  /** Sends an event to all relays, after its body where that travels in chunks. */
  send(event: SignedEvent): Sending {
    const { relays, signal } = this.#options;
    const sending = this.#bodies.send(event, this.#latest);
    return sending ?? watchOutcomes(relays.send(event, { signal }), relays);
  }

  bundle(ids: readonly EventId[]): Bundle {
    const events = ids.flatMap((id) => this.#kept.get(id) ?? []);
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

  /** Which of these members relays have copies of a round by; undefined where no relay answered. Never rejects. */
  archivers(round: number, by: readonly WorkerId[]): Promise<ReadonlySet<WorkerId> | undefined> {
    return findArchivers({ run: this.#options.run, round }, by, this.#options);
  }

  /** Publishes the run's spec under this worker's key, where relays take it. */
  async publishSpec(spec: RunSpec): Promise<void> {
    if (!isServable(spec)) return;
    const sending = this.#sending(specLifetime(this.#options.clock));
    const event = sending.sign(buildRun(spec, sending.lifetime));
    await this.#attachments.publish(event, [], sending).settled;
  }

  /** Publishes this keeper's share of a certified state; false if relays do not hold all of it. */
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

  /** What is published for later gives way to what a round needs; not from now on, since no round follows. */
  hurry(): void {
    this.#isHurrying = true;
  }

  /** What ends earlier is refused from now on, unless it was asked for. */
  require(least: LeastLifetime): void {
    this.#least = least;
  }

  /** Whose events are kept and whose chunks are pulled from now on; of others only what is asked for by id. */
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
      throw new TypeError(`an event of ours that says nothing: ${event.id}`);
    this.#keep(event, true);
    return message;
  }

  #hearForAll(filter: Filter, hearing: Hearing): Listening {
    return this.#hear(filter, hearing, (event) => this.#kept.keepForAll(event));
  }

  /** A subscription that can be asked again. */
  #hear(filter: Filter, hearing: Hearing, keep: Hear['keep']): Listening {
    const { relays } = this.#options;
    const handlers = {
      ...this.#handlersOf({ hearing, keep, wasRequested: false }),
      onCaughtUp: () => hearing.onCaughtUp?.(),
    };
    const subscribe = () => relays.subscribe([filter], handlers);
    let subscription = subscribe();
    return {
      get caughtUp() {
        return subscription.caughtUp;
      },
      resubscribe() {
        subscription.close();
        subscription = subscribe();
      },
      close: () => subscription.close(),
    };
  }

  #handlersOf(hear: Hear) {
    return {
      onEvent: (event: SignedEvent) => this.#take(event, hear),
      onRefused: (reason: RejectReason, detail: string, _: string, id: string | undefined) =>
        hear.hearing.refuse?.({ reason, detail, worker: undefined }, id),
    };
  }

  /** Hands over what an event says, at once or when its body has come. */
  #take(event: SignedEvent, hear: Hear): void {
    const rejection = hear.wasRequested ? undefined : refuseShortLived(event, this.#least);
    if (rejection) hear.hearing.refuse?.(rejection, event.id);
    if (rejection) return;
    const message = this.#read(event);
    if (message !== undefined) {
      if (message.type !== 'unreadable') hear.keep(event, hear.wasRequested);
      hear.hearing.take(message);
      return;
    }
    const apart = apartIn(event);
    if (!apart || this.#bodies.get(apart)) return;
    const onHere = () => this.#take(event, hear);
    this.#bodies.bring({ event, apart, onHere }, this.#latest, hear.wasRequested);
  }
}

const answering = (hearing: Hearing): Hearing => ({
  take: (message) => hearing.take(message, true),
  refuse: (rejection, id) => hearing.refuse?.(rejection, id),
});
