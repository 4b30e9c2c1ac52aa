/**
 * The two collaborators of a round driver. The observer gathers contributions as they arrive: whose are here in full and good, whose are not and
 * why, who sent two, and under `defer` those of the round before that no outcome listed. The judge checks the outcomes that others propose and
 * composes this worker's own; what is missing is asked for, then tried again.
 */

import { RelayError } from '../base/errors.ts';
import type { Arrival, Certificate, Effect, Input } from '../consensus/round/round-state.ts';
import type { Submission } from '../network/wire/certified-events.ts';
import type { Manifest } from '../network/wire/manifests.ts';
import type { Rejection } from '../run/contribution.ts';
import type { Digest, EventId, WorkerId } from '../run/ids.ts';
import { lateOf } from '../run/ledger.ts';
import { type Outcome, outcomeDigest } from '../run/outcome.ts';
import { roundName } from '../run/round-name.ts';
import type { Signed } from '../run/vote.ts';
import type { Certified } from './chain.ts';
import { stakesOf } from './chain.ts';
import { type Bad, draftOf, type LateRow, opinionOf, owedIn } from './compose.ts';
import type { EvidenceStore, Missing, ProtocolMessage, Verdict } from './evidence.ts';
import type { Decision, DriverOptions } from './member.ts';
import { applyOutcome, completeOutcome } from './outcomes.ts';
import type { StakeOpinion } from './refresh.ts';
import { judgeManifest, judgeSubmission } from './rows.ts';
import { assignmentOf, known, lateTermsOf, type Terms, termsOf, weighingOf } from './terms.ts';

export interface Watch {
  /** What is of another round, or of nobody who may send in this one, is passed over. */
  take(submission: Signed<Submission>): void;
  /** Pulls a payload that a check lacks. */
  pull(submission: Signed<Submission>): void;
  bad(): readonly Bad[];
  /** The first good one of each worker. */
  good(): readonly Omit<Arrival, 'delay'>[];
}

/** What a watch reports to, and where it gets payloads from. */
export interface Wants {
  readonly signal: AbortSignal;
  /** The payload of a manifest in chunks. */
  bring(manifest: Manifest): Promise<Uint8Array | undefined>;
  onHeld(worker: WorkerId, manifest: EventId): void;
  /** Two manifests of one worker in one place. */
  onFault(events: readonly [EventId, EventId]): void;
  onRefused(rejection: Rejection, manifest: EventId): void;
  onChange(): void;
}

/** More manifests of one worker are not looked at: two prove the fault. */
const MOST_OF_ONE = 2;

/** Watches for what these keys send in the round of these terms. */
function createWatch(
  terms: Terms,
  keys: ReadonlySet<WorkerId>,
  evidence: EvidenceStore,
  { signal, bring, onHeld, onFault, onRefused, onChange }: Wants,
): Watch {
  const assignment = assignmentOf(terms);
  const seen = new Map<WorkerId, Signed<Submission>[]>();
  const bad = new Map<EventId, Bad>();
  const good = new Map<WorkerId, EventId>();
  const pulling = new Set<EventId>();

  async function pull(submission: Signed<Submission>): Promise<void> {
    const { id, manifest } = submission;
    if (pulling.has(id)) return;
    pulling.add(id);
    const payload = await bring(manifest).catch(() => undefined);
    pulling.delete(id);
    if (payload === undefined || signal.aborted) return;
    evidence.addPayload(manifest, payload);
    judge(submission, payload);
    onChange();
  }

  function refuse({ id, key }: Signed<Submission>, rejection: Rejection): void {
    if (bad.has(id)) return;
    bad.set(id, { worker: key, manifest: id, reason: rejection.reason });
    onRefused(rejection, id);
  }

  function judge(submission: Signed<Submission>, payload: Uint8Array): void {
    const { id, key, manifest } = submission;
    const judged = judgeSubmission(manifest, payload, terms);
    if (!judged.ok) {
      refuse(submission, judged.rejection);
      return;
    }
    if (!good.has(key)) good.set(key, id);
    onHeld(key, id);
  }

  return {
    take(submission) {
      const { id, key, manifest } = submission;
      if (manifest.round !== terms.round) return;
      const claim = judgeManifest(manifest, terms, assignment);
      if (!keys.has(key)) {
        // of strangers nothing is remembered: there may be any number of them
        if (!claim.ok) onRefused(claim.rejection, id);
        return;
      }
      const before = seen.get(key) ?? [];
      if (before.length >= MOST_OF_ONE || before.some((each) => each.id === id)) return;
      seen.set(key, [...before, submission]);
      for (const other of before) onFault([other.id, id]);
      const payload = evidence.payload(manifest);
      if (!claim.ok) refuse(submission, claim.rejection);
      else if (payload === undefined) void pull(submission);
      else judge(submission, payload);
    },
    pull: (submission) => void pull(submission),
    bad: () => [...bad.values()],
    good: () => [...good].map(([worker, manifest]) => ({ worker, manifest })),
  };
}

export interface Observer {
  /** Looks at what is here already, and asks for the rest of what came late. */
  begin(): void;
  take(message: Extract<ProtocolMessage, { readonly type: 'manifest' }>): void;
  /** Pulls a payload that a check lacks. */
  pull(manifest: EventId): void;
  bad(): readonly Bad[];
  /** Good ones of this round, however late. */
  good(): readonly LateRow[];
  /** Good ones of the round before that no outcome listed yet, under `defer`. */
  late(): readonly LateRow[];
  close(): void;
}

/** Watches the round to come, and the round before where some of it may still be listed. */
export function createObserver(
  { state, context, ports }: Pick<DriverOptions, 'state' | 'context' | 'ports'>,
  wants: Wants,
  onMessage: (message: ProtocolMessage) => void,
): Observer {
  const { evidence, control } = ports;
  const roster = new Set(context.roster);
  const now = createWatch(known(termsOf(state, evidence)), roster, evidence, wants);
  const past = known(lateTermsOf(state, evidence));
  const owing = lateOf(state.ledger);
  // that it is late says nothing about how long this round has to wait
  const apart: Wants = {
    ...wants,
    onHeld: wants.onChange,
    // what strangers sent for that round was told then
    onRefused: (rejection, id) => {
      if (owing.some((key) => key === rejection.worker)) wants.onRefused(rejection, id);
    },
  };
  const before: Watch | undefined =
    past !== null && owing.length > 0
      ? createWatch(past, new Set(owing), evidence, apart)
      : undefined;
  let listening: { close(): void } | undefined;
  return {
    begin() {
      if (before === undefined) return;
      for (const message of evidence.messages())
        if (message.type === 'manifest') before.take(message);
      listening = control.listenToManifests(state.round - 1, owing, { take: onMessage });
    },
    take(message) {
      now.take(message);
      before?.take(message);
    },
    pull(id) {
      const message = evidence.message(id);
      if (message?.type !== 'manifest') return;
      (message.manifest.round === state.round ? now : before)?.pull(message);
    },
    bad: now.bad,
    good: now.good,
    late: () => before?.good() ?? [],
    close: () => listening?.close(),
  };
}

/** Callbacks from the judge to the round. */
export interface JudgeHost {
  readonly observer: Observer;
  feed(input: Input): void;
  fetch(ids: readonly EventId[]): void;
  /** Asks for proposals of an outcome, of this round or the one before. */
  fetchOutcome(digest: Digest): void;
  /** Something that was asked for is here. */
  wake(): void;
}

/** Between two askings for what a judgment lacks. */
export const ASK_MS = 1000;

/** So long a certified round is looked for what it lacks before a later state is looked for. */
const STUCK_MS = 30_000;

export class Judge {
  readonly #options: DriverOptions;
  readonly #host: JudgeHost;
  /** States that valid outcomes lead to. */
  readonly #nexts = new Map<Digest, Certified>();
  #askedMs = 0;
  /** Since when a certificate is here whose outcome cannot be followed. */
  #lackingMs: number | undefined;

  constructor(options: DriverOptions, host: JudgeHost) {
    this.#options = options;
    this.#host = host;
  }

  /** Whether an outcome could be judged; the finding goes to the machine. */
  check(
    { digest, outcome }: Extract<Effect, { type: 'check' }>,
    held: readonly Arrival[],
  ): boolean {
    const verdict = this.#apply(digest, outcome);
    if (!verdict.ok && 'missing' in verdict) return this.#lacks(verdict.missing);
    if (!verdict.ok) this.#options.ports.reporter.invalid(outcome, verdict.invalid);
    const stakes = this.#options.ports.refresh.judge(
      this.#options.state,
      outcome.features.stake?.snapshot ?? '',
    );
    if (stakes === 'wait') return false;
    const check = { digest, valid: verdict.ok, ...this.#opinion(outcome, held, stakes) };
    this.#host.feed({ type: 'checked', check });
    return true;
  }

  /** Whether an outcome of this worker's own could be made; it goes to the machine. */
  compose(effect: Extract<Effect, { type: 'compose' }>, held: readonly Arrival[]): boolean {
    const { state, ports, context, votes } = this.#options;
    const { attempt, view, result, ballots } = effect;
    const { observer } = this.#host;
    const isHeld = new Set(held.map(({ worker }) => worker));
    // what came since it closed the round reached others in time, who would not accept an outcome without it
    const since = observer.good().filter(({ worker }) => !isHeld.has(worker));
    const material = {
      ...{ me: context.me, result, ballots, votes, held: [...held, ...since] },
      bad: observer.bad(),
      late: observer.late(),
      reveal: ports.reveal(context.round),
      snapshot: ports.refresh.offer(state),
      nowMs: ports.clock.now(),
    };
    const made = completeOutcome(state, draftOf(state, ports.evidence, material), ports.evidence);
    if (!made.ok && 'missing' in made) return this.#lacks(made.missing);
    if (!made.ok) {
      // joins of founders may be on their way
      ports.reporter.uncomposable(context.round, made.invalid);
      return false;
    }
    const { outcome, next } = made.value;
    const digest = outcomeDigest(outcome);
    this.#nexts.set(digest, next);
    const check = { digest, valid: true, ...this.#opinion(outcome, held, 'good') };
    this.#host.feed({ type: 'composed', composed: { attempt, view, outcome, digest }, check });
    return true;
  }

  /** What a certificate leads to; undefined while something is missing. Throws for one that cannot be. */
  finish(outcome: Outcome, certificate: Certificate): Decision | undefined {
    const verdict = this.#apply(certificate.digest, outcome);
    if (verdict.ok) return { outcome, certificate, next: verdict.value };
    if ('missing' in verdict) {
      const nowMs = this.#options.ports.clock.now();
      this.#lackingMs ??= nowMs;
      if (nowMs - this.#lackingMs >= STUCK_MS) this.#options.ports.branches.stuck();
      this.#lacks(verdict.missing);
      return undefined;
    }
    throw unsound(outcome, verdict.invalid.message);
  }

  #apply(digest: Digest, outcome: Outcome): Verdict<Certified> {
    const before = this.#nexts.get(digest);
    if (before !== undefined) return { ok: true, value: before };
    const verdict = applyOutcome(this.#options.state, outcome, this.#options.ports.evidence);
    if (verdict.ok) this.#nexts.set(digest, verdict.value);
    return verdict;
  }

  #opinion(outcome: Outcome, all: readonly Arrival[], stakes: StakeOpinion) {
    const nowMs = this.#options.ports.clock.now();
    const { state, ports } = this.#options;
    const owed = owedIn(state, outcome, this.#host.observer.late(), ports.evidence);
    const hasStakes = stakes === 'good';
    const table = known(stakesOf(state.ledger, ports.evidence));
    const workers = all.map(({ worker }) => worker);
    const weighing = new Set(weighingOf(state.spec, table, workers));
    const held = all.filter(({ worker }) => weighing.has(worker));
    return opinionOf(state, outcome, { held, owed, hasStakes, nowMs });
  }

  /** False, after asking for what is missing. */
  #lacks(missing: readonly Missing[]): false {
    const { ports, context, state } = this.#options;
    const nowMs = ports.clock.now();
    if (this.#askedMs > 0 && nowMs - this.#askedMs < ASK_MS) return false;
    const isAgain = this.#askedMs > 0;
    this.#askedMs = nowMs;
    const { observer, fetch, fetchOutcome, wake } = this.#host;
    const events = missing.filter(({ what }) => what === 'event').map(({ id }) => id);
    if (events.length > 0) fetch(events);
    for (const { what, id } of missing) if (what === 'payload') observer.pull(id);
    for (const { what, id } of missing) if (what === 'proposal') fetchOutcome(id);
    const others = missing.filter(({ what }) => what === 'snapshot' || what === 'beacon');
    for (const each of others) void ports.obtain(each, state).then(wake, () => undefined);
    if (isAgain) ports.reporter.lacking(context.round, missing);
    return false;
  }
}

const unsound = ({ round }: Outcome, why: string): RelayError =>
  new RelayError(
    'round/unsound',
    `a quorum certified an outcome of ${roundName(round)} that cannot be: ${why}`,
    {
      hint: 'more of the committee is dishonest than the run allows for; nothing of this outcome was applied',
    },
  );
