/** Judges the outcomes that others propose in a round in progress and composes this worker's own; what is missing is asked for, then tried again. */

import { RelayError } from '../base/errors.ts';
import type { Arrival, Certificate, Effect, Input } from '../consensus/round/round-state.ts';
import type { Digest, EventId } from '../run/ids.ts';
import { type Outcome, outcomeDigest } from '../run/outcome.ts';
import { roundName } from '../run/round-name.ts';
import { draftOf, opinionOf, owedIn } from './compose.ts';
import type { Decision, DriverOptions } from './driven-round.ts';
import type { Missing, Verdict } from './evidence.ts';
import type { Observer } from './gathering.ts';
import { applyOutcome, type Certified, completeOutcome } from './history.ts';
import type { StakeOpinion } from './refresh.ts';

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

export class Judge {
  readonly #options: DriverOptions;
  readonly #host: JudgeHost;
  /** States that valid outcomes lead to. */
  readonly #nexts = new Map<Digest, Certified>();
  #askedMs = 0;

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
    const material = {
      ...{ me: context.me, result, ballots, votes, held },
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
      this.#lacks(verdict.missing);
      return undefined;
    }
    throw unsound(outcome, verdict.invalid.message);
  }

  #apply(digest: Digest, outcome: Outcome): Verdict<Certified> {
    const known = this.#nexts.get(digest);
    if (known !== undefined) return { ok: true, value: known };
    const verdict = applyOutcome(this.#options.state, outcome, this.#options.ports.evidence);
    if (verdict.ok) this.#nexts.set(digest, verdict.value);
    return verdict;
  }

  #opinion(outcome: Outcome, held: readonly Arrival[], stakes: StakeOpinion) {
    const nowMs = this.#options.ports.clock.now();
    const { state, ports } = this.#options;
    const owed = owedIn(state, outcome, this.#host.observer.late(), ports.evidence);
    const hasStakes = stakes === 'good';
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
