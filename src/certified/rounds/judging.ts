/**
 * Judges a round: checks proposed outcomes and composes this worker's own. Requests missing evidence and tries again.
 */
import { RelayError } from '../../base/errors.ts';
import type {
  Arrival,
  Certificate,
  Effect,
  Input,
  RoundState,
  ViewId,
} from '../../consensus/round/round-state.ts';
import { type Digest, type EventId, roundName } from '../../run/ids.ts';
import { type Outcome, outcomeDigest } from '../../run/outcome.ts';
import { type FeatureValues, withFeatures } from '../../run/spec/features.ts';
import { type Certified, type Decision, stakesOf } from '../decisions/chain.ts';
import { contributionOf, unwrapRuling, weighingOf } from '../decisions/contributions.ts';
import { lacking, type Missing, type Ruling } from '../decisions/evidence.ts';
import { seatFounders } from '../decisions/founders.ts';
import { applyOutcome, completeOutcome } from '../decisions/outcomes.ts';
import { convictedBy, proofsIn } from '../decisions/roster-change.ts';
import type { ContributionOpinion, RoundFeature } from '../features/feature.ts';
import type { StakeOpinion } from '../features/stakes.ts';
import { type ContributionRef, draftOf, opinionOf, owedIn } from './compose.ts';
import type { Observer } from './observer.ts';
import type { DriverOptions } from './round.ts';

export interface JudgeHost {
  readonly observer: Observer;
  feed(input: Input): void;
  fetch(ids: readonly EventId[]): void;
  /** Requests proposals of an outcome, of this or the previous round. */
  fetchOutcome(digest: Digest): void;
  wake(): void;
  /** Aborts when the round closes. */
  readonly signal: AbortSignal;
}

/** Minimum time between two requests for missing evidence. */
export const ASK_MS = 1000;

/** Time to look for missing evidence of a certified round before searching for a later state. */
const STUCK_MS = 30_000;

export class Judge {
  readonly #options: DriverOptions;
  readonly #host: JudgeHost;
  readonly #features: readonly RoundFeature[];
  /** States after valid outcomes, by digest. */
  readonly #nexts = new Map<Digest, Certified>();
  /** Evidence that the last judgment of an outcome lacked, and when that was. */
  readonly #lacking = new Map<
    Digest,
    { readonly missing: readonly Missing[]; readonly ms: number }
  >();
  #requestedMs = 0;
  /** Time since which a certified outcome cannot be followed; undefined if it can. */
  #lackingMs: number | undefined;

  constructor(options: DriverOptions, host: JudgeHost) {
    this.#options = options;
    this.#host = host;
    const { state, ports, context } = options;
    const { signal, observer } = host;
    const find = (id: EventId) => contributionOf(id, state, ports.evidence);
    const arrived = () => observer.good().flatMap(({ manifest }) => find(manifest) ?? []);
    const round = { state, context, signal, find, arrived, wake: () => host.wake() };
    this.#features = ports.features.flatMap((feature) => feature.judge?.(round) ?? []);
  }

  /** Called when a contribution is complete. */
  arrived(manifest: EventId): void {
    for (const feature of this.#features) feature.arrived?.(manifest);
  }

  /** Judges an outcome and passes the result to the machine; false if evidence is missing. */
  check(
    { digest, outcome }: Extract<Effect, { type: 'check' }>,
    { held: arrivals, attempt, view }: RoundState,
  ): boolean {
    const listed = outcome.accepted.map(({ manifest }) => manifest);
    const ids = [...arrivals.map(({ manifest }) => manifest), ...listed];
    const verdict = this.#apply(digest, outcome);
    if (!verdict.ok && 'missing' in verdict) return this.#lacks(verdict.missing);
    if (!verdict.ok) this.#options.ports.reporter.invalid(outcome, verdict.invalid);
    const stakes = this.#options.ports.refresh.judge(
      this.#options.state,
      outcome.features.stake?.snapshot ?? '',
    );
    if (stakes === 'wait') return false;
    if (verdict.ok && !this.#isReady(ids, { attempt, view })) return false;
    const check = { digest, valid: verdict.ok, ...this.#opinion(outcome, arrivals, view, stakes) };
    this.#host.feed({ type: 'checked', check });
    return true;
  }

  /** Composes this worker's outcome and passes it to the machine; false if that is not possible yet. */
  compose(effect: Extract<Effect, { type: 'compose' }>, arrivals: readonly Arrival[]): boolean {
    const { state, ports, context, votes } = this.#options;
    const { attempt, view, result, ballots } = effect;
    const { observer } = this.#host;
    // contributions that came since the round closed reached others in time: without them they would reject the outcome
    const good = observer.good();
    const isGood = new Set(good.map(({ worker }) => worker));
    // relays may lack the event that arrived if it was signed again since
    const rows = [...good, ...arrivals.filter(({ worker }) => !isGood.has(worker))];
    const late = observer.late();
    const ids = [...rows, ...late].map(({ manifest }) => manifest);
    if (result === 'final' && !this.#isReady(ids, { attempt, view })) return false;
    const judgment = this.#judgment([]);
    const mayList = ({ manifest }: ContributionRef) => judgment?.mayPropose(manifest) ?? true;
    const material = {
      me: context.me,
      result,
      ballots,
      votes,
      available: rows.filter(mayList),
      bad: observer.bad(),
      late: late.filter(mayList),
      reveal: ports.chain.reveal(context.round),
      snapshot: ports.refresh.offer(state),
      nowMs: ports.clock.now(),
    };
    const { evidence, sha256 } = ports;
    const made = completeOutcome(state, draftOf(state, evidence, material), evidence, sha256);
    if (!made.ok && 'missing' in made) return this.#lacks(made.missing);
    if (!made.ok) {
      // joins of founders may still arrive
      ports.reporter.uncomposable(context.round, made.invalid);
      return false;
    }
    const { outcome, next } = made.value;
    const digest = outcomeDigest(outcome);
    this.#nexts.set(digest, next);
    const check = { digest, valid: true, ...this.#opinion(outcome, arrivals, view, 'good') };
    this.#host.feed({ type: 'composed', composed: { attempt, view, outcome, digest }, check });
    return true;
  }

  /**
   * Returns the decision of a certificate; undefined while evidence is missing. Throws a RelayError if the outcome is
   * invalid.
   */
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

  #apply(digest: Digest, outcome: Outcome): Ruling<Certified> {
    const before = this.#nexts.get(digest);
    if (before !== undefined) return { ok: true, value: before };
    const { apply = applyOutcome, evidence, clock, sha256 } = this.#options.ports;
    const missing = this.#stillMissing(digest);
    if (missing.length > 0) return lacking(...missing);
    const verdict = apply(this.#options.state, outcome, evidence, sha256);
    if (verdict.ok) this.#nexts.set(digest, verdict.value);
    else if ('missing' in verdict) {
      this.#lacking.set(digest, { missing: verdict.missing, ms: clock.now() });
    }
    return verdict;
  }

  /**
   * Returns what an outcome still lacks since the last attempt; empty if another attempt, which is expensive, is
   * worthwhile.
   */
  #stillMissing(digest: Digest): readonly Missing[] {
    const { evidence, clock } = this.#options.ports;
    const before = this.#lacking.get(digest);
    if (before === undefined) return [];
    const missing = before.missing.filter(({ what, id }) => {
      const message = evidence.message(id);
      if (what === 'event') return message === undefined;
      if (what !== 'payload' || message?.type !== 'manifest') return false;
      return evidence.payload(message.manifest) === undefined;
    });
    const hasSome = missing.length < before.missing.length;
    return hasSome && clock.now() - before.ms >= ASK_MS ? [] : missing;
  }

  #opinion(outcome: Outcome, all: readonly Arrival[], view: number, stakes: StakeOpinion) {
    const nowMs = this.#options.ports.clock.now();
    const { state, ports } = this.#options;
    const judgment = this.#judgment(all);
    const late = this.#host.observer.late();
    const mayOwe = judgment ? late.filter(({ manifest }) => judgment.isGood(manifest)) : late;
    const owed = owedIn(state, outcome, mayOwe, ports.evidence);
    const hasStakes = stakes === 'good';
    const table = unwrapRuling(stakesOf(state.ledger, ports.evidence));
    const workers = all.map(({ worker }) => worker);
    const weighing = new Set(weighingOf(state.spec, table, workers));
    const out = convictedBy(proofsIn(outcome.faults, ports.evidence));
    const available = all.filter(({ worker }) => weighing.has(worker) && !out.has(worker));
    const opinion = opinionOf(state, outcome, {
      available,
      owed,
      hasStakes,
      nowMs,
      judgment,
      view,
    });
    const fields = this.#features.map((each) => each.commitFields?.(available));
    const features: FeatureValues<'vote'> = Object.assign({}, ...fields);
    // an outcome that seats another key of this founder would not count this worker's vote
    const { members } = seatFounders(state, outcome.joins, ports.evidence).ledger;
    const isSeated = members.some(({ key }) => key === this.#options.context.me);
    const acceptable = opinion.acceptable && isSeated;
    return { ...opinion, acceptable, ...withFeatures(features) };
  }

  #isReady(manifests: readonly EventId[], view: ViewId): boolean {
    const waiting = this.#features.filter(({ isReady }) => isReady?.(manifests, view) === false);
    return waiting.length === 0;
  }

  /** Returns the opinion of a measuring feature, if the run has one, and reports harmful contributions. */
  #judgment(available: readonly ContributionRef[]): ContributionOpinion | undefined {
    return this.#features.flatMap((each) => each.judgment?.(available) ?? [])[0];
  }

  /** Requests the missing evidence; always returns false. */
  #lacks(missing: readonly Missing[]): false {
    const { ports, context, state } = this.#options;
    const nowMs = ports.clock.now();
    if (this.#requestedMs > 0 && nowMs - this.#requestedMs < ASK_MS) return false;
    const isRepeated = this.#requestedMs > 0;
    this.#requestedMs = nowMs;
    const host = this.#host;
    const events = missing.filter(({ what }) => what === 'event').map(({ id }) => id);
    if (events.length > 0) host.fetch(events);
    for (const { what, id } of missing) if (what === 'payload') host.observer.pull(id);
    for (const { what, id } of missing) if (what === 'proposal') host.fetchOutcome(id);
    const others = missing.filter(({ what }) => what === 'snapshot' || what === 'beacon');
    for (const each of others)
      void ports.inputs.obtain(each, state).then(
        () => host.wake(),
        () => undefined,
      );
    if (isRepeated) ports.reporter.lacking(context.round, missing);
    return false;
  }
}

const unsound = ({ round }: Outcome, why: string): RelayError =>
  new RelayError(
    'round/unsound',
    `a quorum certified an outcome of ${roundName(round)} that is invalid: ${why}`,
    {
      hint:
        'more committee members are dishonest than the run tolerates; nothing of this ' +
        'outcome was applied',
    },
  );
