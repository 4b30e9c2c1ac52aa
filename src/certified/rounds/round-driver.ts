/**
 * Drives one certified round while the worker trains: feeds the round machine with messages and clock ticks and carries
 * out its effects. Saves what the machine signs before sending it. Keeps answering others until it is closed.
 */
import { anySignal, createNotifier, deferred, notifiedOrDeadline } from '../../base/async.ts';
import { beginRound, step } from '../../consensus/round/machine.ts';
import {
  type Certificate,
  type Effect,
  hasSigned,
  type Input,
  type RoundState,
} from '../../consensus/round/round-state.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Manifest } from '../../network/wire/manifests.ts';
import type { Sealed } from '../../network/wire/wire.ts';
import type { Rejection } from '../../run/contribution.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import type { Message } from '../../run/vote.ts';
import type { Decision } from '../decisions/chain.ts';
import { isMessage, type ProtocolMessage } from '../wire/certified-events.ts';
import type { LocalEvent } from '../wire/control.ts';
import type { RoundListening } from '../wire/hearing.ts';
import { type ArchivedVotesFetcher, createArchivedVotesFetcher } from './apply-decision.ts';
import { Refusals } from './events.ts';
import { ArrivalTimes, type Entry } from './journal.ts';
import { ASK_MS, Judge, type JudgeHost } from './judging.ts';
import { createObserver, type Observer } from './observer.ts';
import type { DrivenRound, DriverOptions } from './round.ts';

/** Minimum time between two clock ticks if the machine asks for the same time again. */
const TICK_MS = 50;
/**
 * View from which a fork or a loss at relays is suspected: one or two absent proposers are normal, and reading a run's
 * history is slow.
 */
const SUSPECT_VIEW = 2;
/** Longest sleep, within what every platform's timers support. */
const LONGEST_MS = 60_000;

export const driveRound = (options: DriverOptions): DrivenRound => new RoundDriver(options);

class RoundDriver implements DrivenRound, JudgeHost {
  readonly decided: Promise<Decision>;
  readonly #end = deferred<Decision>();
  readonly #caughtUp = deferred<void>();
  readonly caughtUp = this.#caughtUp.promise;
  readonly observer: Observer;
  readonly #options: DriverOptions;
  readonly #judge: Judge;
  readonly #archivedVotes: ArchivedVotesFetcher;
  readonly #listening: RoundListening;
  readonly #changed = createNotifier();
  readonly #stop = new AbortController();
  readonly signal: AbortSignal;
  readonly #release: () => void;
  readonly #inputs: Input[] = [];
  readonly #pending = new PendingActions();
  readonly #signedEvents: Record<string, SignedEvent>;
  /** By event id: proposals and prepares that relays may not have yet. */
  readonly #unsent = new Map<EventId, AbortController>();
  readonly #refusals: Refusals;
  readonly #arrivals: ArrivalTimes;
  #machine: RoundState;
  #dirty = false;
  #tickedMs = 0;
  #triedMs = 0;

  constructor(options: DriverOptions) {
    const { context, ports, entry, beginning, voteFrom } = options;
    this.#options = options;
    this.#refusals = new Refusals(context.round, ports);
    const { signal, release } = anySignal(ports.signal, this.#stop.signal);
    this.signal = signal;
    this.#release = release;
    this.#machine = entry?.machine ?? beginRound(context, beginning, voteFrom);
    this.#signedEvents = { ...entry?.own };
    const common = { context, beginning, isResumed: entry !== undefined };
    this.#arrivals = new ArrivalTimes({ ...common, delays: ports.memory.delays });
    if (entry) this.#resume(entry.machine);
    const wants = {
      signal: this.signal,
      bring: (manifest: Manifest) => this.#listening.pull(manifest),
      onComplete: (worker: WorkerId, manifest: EventId) => this.#hold(worker, manifest),
      onFault: (events: readonly [EventId, EventId]) => this.#accuse(events),
      onRefused: (rejection: Rejection, id: EventId) => this.#refusals.note(rejection, id),
      onChange: () => this.wake(),
    };
    this.observer = createObserver(options, wants, (message) => this.take(message));
    this.#judge = new Judge(options, this);
    this.#listening = ports.control.listen(context.round, {
      take: (message) => this.take(message),
      refuse: (rejection, id) => this.refuse(rejection, id),
      onCaughtUp: () => this.#changed.notify(),
    });
    this.observer.begin();
    this.#archivedVotes = createArchivedVotesFetcher(options, this, () => this.#changed.notify());
    if (options.isBehind) this.#archivedVotes.ask();
    this.decided = Promise.race([this.#end.promise, this.#run()]);
    this.decided.catch(() => undefined);
  }

  get isCertified(): boolean {
    return this.#machine.decided !== null;
  }

  get hasCommitted(): boolean {
    return this.isCertified && hasSigned({ ...this.#machine, ...this.#machine.decided }, 'commit');
  }

  get refused(): readonly Rejection[] {
    return this.#refusals.list;
  }

  enter({ event, payload }: Sealed): void {
    const { ports } = this.#options;
    const message = ports.control.restore(event);
    if (message.type !== 'manifest') throw new TypeError('the sealed event is not a manifest');
    ports.keyWatch.signed(event.id);
    if (payload) ports.evidence.addPayload(message.manifest, payload);
    this.take(message);
  }

  take(message: ProtocolMessage, wasRequested = false): void {
    const { ports, context, mayCount } = this.#options;
    const counts = mayCount?.(message) !== false;
    const isNew = ports.evidence.add(message, wasRequested);
    ports.keyWatch.heard(message);
    if (counts && isMessage(message) && message.round === context.round) {
      this.feed({ type: 'message', message });
    }
    // includes messages stored before the round was opened
    if (message.type === 'manifest') this.observer.take(message);
    if (message.type === 'unreadable') this.#refusals.noteUnreadable(message);
    if (isNew) this.wake();
  }

  refuse(rejection: Rejection, id: EventId | undefined): void {
    this.#refusals.note(rejection, id);
  }

  close(): void {
    this.#stop.abort(new Error('closed'));
    this.#dropUnsent();
    this.#release();
    this.observer.close();
    this.#listening.close();
  }

  /** Restores the machine's evidence; finishes a round that was decided before the worker saved its state. */
  #resume({ votes, ballots, decided }: RoundState): void {
    const { evidence } = this.#options.ports;
    for (const message of [...votes, ...ballots]) evidence.add(message);
    this.#inputs.push({ type: 'restart' });
    if (decided === null) return;
    const proposal = votes.find(({ id }) => id === decided.proposal);
    if (proposal?.type !== 'proposal') return;
    this.#pending.add('finish', () => this.#finish(proposal.outcome, decided));
    this.#dirty = true;
  }

  feed(input: Input): void {
    this.#inputs.push(input);
    this.#changed.notify();
  }

  /** Called when evidence arrives that a pending check may need. */
  wake(): void {
    this.#dirty = true;
    this.#changed.notify();
  }

  /** Runs until aborted; never resolves, since decisions settle `#end`. */
  async #run(): Promise<never> {
    const { clock } = this.#options.ports;
    for (;;) {
      this.signal.throwIfAborted();
      const input = this.#inputs.shift() ?? this.#tick(clock.now());
      if (input) {
        await this.#step(input);
      } else if (this.#dirty || clock.now() - this.#triedMs >= ASK_MS) {
        this.#retry();
      }
      if (this.#inputs.length > 0 || this.#dirty) continue;
      if (this.#listening.caughtUp && !this.#archivedVotes.isAsking) this.#caughtUp.settle();
      const soon = this.#pending.isEmpty ? LONGEST_MS : ASK_MS;
      const nowMs = clock.now();
      const wakeMs = Math.max(this.#machine.wakeAt, this.#tickedMs + TICK_MS);
      await notifiedOrDeadline(this.#changed, clock, Math.min(wakeMs, nowMs + soon), this.signal);
    }
  }

  #tick(nowMs: number): Input | undefined {
    if (nowMs < this.#machine.wakeAt || nowMs - this.#tickedMs < TICK_MS) return undefined;
    this.#tickedMs = nowMs;
    return { type: 'tick' };
  }

  async #step(input: Input): Promise<void> {
    const { context, ports } = this.#options;
    const { state, effects } = step(context, this.#machine, input, ports.clock.now());
    if (state.held.length > this.#machine.held.length) this.#reportArrivals(state);
    this.#machine = state;
    // sign first, so that a single write stores the state and the events it promises
    for (const effect of effects) if (effect.type === 'send') this.#eventOf(effect.message);
    for (const effect of effects) await this.#perform(effect);
  }

  #reportArrivals({ held: arrivals, closed, decided }: RoundState): void {
    const { context, ports } = this.#options;
    if (closed !== null || decided !== null) return;
    const { round, live } = context;
    const holds = new Set(arrivals.map(({ worker }) => worker));
    const missing = live.filter((key) => !holds.has(key));
    ports.reporter.waiting(round, arrivals.length, live.length, missing);
  }

  #perform(effect: Effect): Promise<void> | void {
    const { control } = this.#options.ports;
    switch (effect.type) {
      case 'persist':
        return this.#persist();
      case 'send': {
        const { event, message } = this.#eventOf(effect.message);
        control.send(event, this.#sendingSignal(event.id, effect.message));
        this.take(message);
        return;
      }
      case 'resend':
        return control.resend([...effect.ids, ...this.#contributionIds()]);
      case 'compose':
        return this.#pending.attempt('compose', () =>
          this.#judge.compose(effect, this.#machine.held),
        );
      case 'check':
        return this.#pending.attempt(`check ${effect.digest}`, () =>
          this.#judge.check(effect, this.#machine),
        );
      case 'want':
        if (effect.what === 'events') return this.fetch(effect.ids);
        return effect.what === 'outcome' ? this.fetchOutcome(effect.digest) : this.#renew();
      case 'finalized':
        this.#dropUnsent(effect.certificate.proposal);
        return this.#pending.attempt('finish', () =>
          this.#finish(effect.outcome, effect.certificate),
        );
      case 'fault':
        return this.#accuse(effect.fault.events);
      case 'stalled':
        this.#archivedVotes.ask();
        control.resend(this.#contributionIds());
        return this.#tellStall(effect);
      case 'refused':
        return this.#refusals.noteRefusal(effect.refusal);
    }
  }

  /** Returns other members' contributions, which some may lack: the round stalls, or a member comes back to it. */
  #contributionIds(): readonly EventId[] {
    const { me } = this.#options.context;
    // the wire may still be sending its own
    return this.#machine.held.flatMap(({ worker, manifest }) => (worker === me ? [] : manifest));
  }

  /** Returns the signal that stops sending a message; undefined if others need the message after the decision. */
  #sendingSignal(id: EventId, message: Message): AbortSignal | undefined {
    if (!('step' in message) || message.step === 'commit') return undefined;
    const stop = new AbortController();
    this.#unsent.set(id, stop);
    return stop.signal;
  }

  /**
   * Drops prepares and proposals that still wait for a relay's rate limit, except this proposal: the next contribution
   * would wait behind them.
   */
  #dropUnsent(needed?: EventId): void {
    for (const [id, stop] of this.#unsent) if (id !== needed) stop.abort(new Error('decided'));
  }

  /** Requests the messages of the round again, and feeds the machine those that it refused, such as early ones. */
  #renew(): void {
    this.#listening.renew();
    const { evidence } = this.#options.ports;
    const { votes, ballots } = this.#machine;
    const known = new Set([...votes, ...ballots].map(({ id }) => id));
    for (const message of [...evidence.messages()]) {
      if (isMessage(message) && !known.has(message.id)) this.take(message);
    }
  }

  /** Called when a view ends without a certificate. */
  #tellStall(stall: Extract<Effect, { readonly type: 'stalled' }>): void {
    const { context, ports } = this.#options;
    ports.reporter.stalled(context.round, stall);
    ports.membershipListener.stalled(stall);
    if (stall.attempt === 0 && stall.view < SUSPECT_VIEW) return;
    ports.branches.hint();
    void ports.backfill.stalled(this.#options.state, context.me);
  }

  get entry(): Entry {
    const { ports, context } = this.#options;
    const { round, parent } = context;
    const delays = ports.memory.delays.recent;
    return { round, parent, machine: this.#machine, own: this.#signedEvents, delays };
  }

  #persist(): Promise<void> {
    this.#arrivals.teach(this.#machine);
    return this.#options.ports.journal.save(this.entry);
  }

  /** Returns the event of a message: the stored one, or a newly signed one. */
  #eventOf(message: Message): LocalEvent {
    const { control } = this.#options.ports;
    const key = JSON.stringify(message);
    const kept = this.#signedEvents[key];
    if (kept !== undefined) return { event: kept, message: control.restore(kept, message) };
    const signed = control.sign(message);
    this.#signedEvents[key] = signed.event;
    this.#options.ports.keyWatch.signed(signed.event.id);
    return signed;
  }

  #hold(worker: WorkerId, manifest: EventId): void {
    const { evidence, clock, reporter } = this.#options.ports;
    const message = evidence.message(manifest);
    this.#arrivals.note(worker, message, this.#machine, clock.now());
    reporter.arrived(worker, message);
    this.feed({ type: 'held', worker, manifest });
    this.#judge.arrived(manifest);
  }

  /** Publishes a proof of two contradicting events unless one exists: a single proof is enough. */
  #accuse(events: readonly [EventId, EventId]): void {
    const { context, ports } = this.#options;
    const { control, evidence, reporter } = ports;
    const existing = evidence.proofOf(events);
    if (existing) {
      reporter.fault(context.round, existing);
      return;
    }
    const proof = control.accuse(events);
    if (proof?.message.type !== 'fault' || !evidence.add(proof.message)) return;
    control.send(proof.event);
    reporter.fault(context.round, proof.message);
  }

  fetch(ids: readonly EventId[]): void {
    this.#options.ports.control.fetch(ids, this);
  }

  fetchOutcome(digest: Digest): void {
    this.#options.ports.control.fetchOutcome(digest, this);
    this.#archivedVotes.ask();
  }

  #finish(outcome: Outcome, certificate: Certificate): boolean {
    const decision = this.#judge.finish(outcome, certificate);
    if (!decision) return false;
    this.#end.settle(decision);
    return true;
  }

  #retry(): void {
    this.#dirty = false;
    this.#triedMs = this.#options.ports.clock.now();
    this.#pending.retry();
  }
}

/** Actions that may lack evidence: tried at once, and again whenever something arrives. */
class PendingActions {
  readonly #actions = new Map<string, () => boolean>();

  get isEmpty(): boolean {
    return this.#actions.size === 0;
  }

  /** Runs an action now, or once its evidence has arrived; the action returns true when done. One action per key. */
  attempt(key: string, action: () => boolean): void {
    if (action()) this.#actions.delete(key);
    else this.add(key, action);
  }

  /** Adds an action for the next `retry`. */
  add(key: string, action: () => boolean): void {
    this.#actions.set(key, action);
  }

  retry(): void {
    for (const [key, action] of [...this.#actions]) this.attempt(key, action);
  }
}
