/**
 * A member's part in a jury: recomputes the steps of drawn contributions, signs verdicts, and publishes the verdicts of
 * a quorum as a proof. The first jurors check at once, the others once a juror reports a failure. Recomputation runs
 * one job at a time while this worker does not train; votes never wait for it.
 */

import { anySignal, createNotifier } from '../../base/async.ts';
import { isDrawn } from '../../run/committee.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import { JURY_ROUNDS } from '../../run/spec/feature-fields.ts';
import type { CheckVerdict, Signed } from '../../run/vote.ts';
import { shortName } from '../../run/worker-names.ts';
import type { Trainer } from '../../worker/ports.ts';
import type { Certified, ReadyRound } from '../decisions/chain.ts';
import { convicts, isUpheld, jurorsOf, juryOf } from '../decisions/roster-change.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import type { CertifiedFeature, FeatureHost, MemberFeature } from './feature.ts';
import {
  type CheckableContribution,
  type CheckedRound,
  type CheckFinding,
  type CheckReason,
  type CheckResult,
  type CheckTools,
  checkableOf,
  checkContribution,
} from './rerun.ts';

type JuryOptions = FeatureHost & NonNullable<FeatureHost['recomputation']>;

const MOST_CASES = 64;
/** Concurrent checks; most of them wait for relays. The last slot is for contributions that another juror reported. */
const MOST_AT_ONCE = 4;
/** Limit in bytes for stored parameters of earlier rounds. */
const MOST_KEPT_BYTES = 2 ** 30;

interface Case {
  readonly round: number;
  readonly contribution: CheckableContribution;
  readonly isFirst: boolean;
  /** Position among the jurors: the lowest rank that sees a quorum publishes the proof. */
  readonly rank: number;
  readonly stop: AbortController;
  readonly verdicts: Map<WorkerId, Signed<CheckVerdict>>;
  isBusy: boolean;
  /** Checked in this round, with or without a result. */
  isDone: boolean;
  isOver: boolean;
}

/**
 * Failures that any machine can reproduce. Differing bits within the band are conclusive only on a machine like the
 * author's.
 */
const REPEATABLE: readonly CheckReason[] = [
  'not-a-state',
  'other-steps',
  'other-payload',
  'other-count',
];

/** Returns the reason for a verdict; undefined if other machines could not reproduce the finding. */
function verdictOf(
  { result, reason, apartPpm }: CheckFinding,
  bandPpm: number,
): CheckReason | undefined {
  if (result !== 'fault' || reason === undefined) return undefined;
  if (REPEATABLE.includes(reason)) return reason;
  return apartPpm !== undefined && apartPpm > bandPpm ? 'other-steps' : undefined;
}

/**
 * Returns for how many rounds a contribution can be checked; fewer for large models, whose parameters must be stored.
 */
const roundsKept = ({ params }: Certified): number =>
  Math.max(1, Math.min(JURY_ROUNDS, Math.floor(MOST_KEPT_BYTES / params.values.byteLength) - 3));

const RESULT_TEXTS: Readonly<Record<CheckResult, string>> = {
  same: 'the same bits',
  near: 'within the tolerance for another machine',
  fault: 'MISMATCH',
  unanswered: 'not enough disclosed yet',
};

const findingText = (worker: WorkerId, { result, reason }: CheckFinding): string =>
  `recomputed the steps of ${shortName(worker)}: ${RESULT_TEXTS[result]}` +
  (reason ? ` (${reason})` : '');

const mostAccused = (cases: readonly Case[]): Case | undefined =>
  [...cases].sort((a, b) => b.verdicts.size - a.verdicts.size || a.round - b.round)[0];

const failureText = (error: unknown): string =>
  `cannot recompute the steps of others on this machine: ${String(error)}`;

class JuryMember implements MemberFeature {
  readonly #options: JuryOptions;
  readonly #kept = new Map<number, CheckedRound>();
  /** Jurors that reported a failure which this worker recomputed bit for bit; their later reports are ignored. */
  readonly #liars = new Set<WorkerId>();
  #cases: readonly Case[] = [];
  #state: Certified | undefined;
  readonly #idle = createNotifier();
  #isTraining = false;
  #checking = 0;
  readonly #ready = new Set<Case>();
  #running: Promise<unknown> | undefined;

  constructor(options: JuryOptions) {
    this.#options = options;
  }

  /** Stores what a decided round's contributions started from for as long as checks may need it. */
  decided({ state }: ReadyRound, outcome: Outcome, taken: Certified['taken']): void {
    const light = { ...state, momentum: new Float32Array() };
    this.#kept.set(outcome.round, { state: light, outcome, taken });
    for (const old of this.#kept.keys()) {
      if (old <= outcome.round - 1 - roundsKept(state)) this.#kept.delete(old);
    }
  }

  /** Starts checks: the round's randomness draws contributions of the previous round. */
  begin({ state, electorate }: ReadyRound): void {
    this.#state = state;
    const members = new Set(state.ledger.members.map(({ key }) => key));
    const last = roundsKept(state);
    const isDue = ({ round, contribution }: Case) =>
      state.round <= round + 1 + last && members.has(contribution.manifest.worker);
    for (const each of this.#cases) {
      if (!isDue(each)) each.stop.abort(new Error('the round is too old'));
      else if (!each.isBusy) each.isDone = each.isOver;
    }
    const fresh = this.#casesOf(state, electorate.committee.members);
    this.#cases = [...this.#cases, ...fresh].filter(isDue);
    for (const message of this.#options.evidence.messages()) this.#note(message);
    for (const each of this.#cases) this.#publishProof(each);
    this.#next();
  }

  training(isTraining: boolean): void {
    this.#isTraining = isTraining;
    if (!isTraining) this.#idle.notify();
  }

  heard(message: ProtocolMessage): void {
    const noted = this.#note(message);
    if (noted) this.#publishProof(noted);
    if (noted) this.#next();
    const state = this.#state;
    if (message.type !== 'fault' || message.kind !== 'failed-check' || !state) return;
    const { evidence, reporter } = this.#options;
    const isMember = state.ledger.members.some(({ key }) => key === message.culprit);
    if (isMember && isUpheld(state, message, evidence)) reporter.fault(state.round, message);
  }

  #casesOf(state: Certified, members: readonly WorkerId[]): readonly Case[] {
    const { me, evidence } = this.#options;
    const { run, round: now, spec, ledger, before } = state;
    const round = now - 1;
    const ended = this.#kept.get(round);
    const { entropy } = ledger;
    if (ended === undefined || entropy === null || !members.includes(me)) return [];
    const cases = ended.outcome.accepted.flatMap(({ index, manifest }): readonly Case[] => {
      const worker = before?.ledger.members[index]?.key;
      if (worker === undefined || worker === me) return [];
      const drawn = { run, round, worker, entropy };
      if (!isDrawn(drawn, spec.rerun.permille)) return [];
      const rank = jurorsOf(drawn, members).indexOf(me);
      const listed = { round, worker, manifest, drawn: true };
      const contribution = checkableOf(listed, ended.state, this.#kept, evidence);
      if (typeof contribution === 'string') return [];
      const stop = new AbortController();
      const isFirst = rank < spec.jury;
      const verdicts = new Map<WorkerId, Signed<CheckVerdict>>();
      const begun = { isBusy: false, isDone: false, isOver: false };
      return [{ round, contribution, isFirst, rank, stop, verdicts, ...begun }];
    });
    return cases.slice(0, MOST_CASES);
  }

  /** Records a juror's verdict; returns the case it belongs to, or undefined if it changes nothing. */
  #note(message: ProtocolMessage): Case | undefined {
    if (message.type !== 'verdict') return undefined;
    const { key, manifest, accused, checked } = message;
    const match = this.#cases.find(
      ({ contribution }) => contribution.manifest.eventId === manifest,
    );
    const state = this.#state;
    if (match === undefined || state === undefined || match.verdicts.has(key)) return undefined;
    const { worker } = match.contribution.manifest;
    if (accused !== worker || checked !== match.round || key === worker) return undefined;
    const { members } = juryOf(state, match.round, this.#options.evidence);
    if (this.#liars.has(key) || !members.includes(key)) return undefined;
    match.verdicts.set(key, message);
    this.#idle.notify();
    return match;
  }

  #next(): void {
    while (this.#checking < MOST_AT_ONCE && !this.#options.signal.aborted) {
      const isLast = this.#checking === MOST_AT_ONCE - 1;
      const next = mostAccused(
        this.#cases.filter(
          ({ isDone, isFirst, verdicts }) => !isDone && ((isFirst && !isLast) || verdicts.size > 0),
        ),
      );
      if (next === undefined) return;
      this.#checking++;
      next.isBusy = true;
      next.isDone = true;
      void this.#check(next).finally(() => {
        next.isBusy = false;
        this.#checking--;
        this.#next();
      });
    }
  }

  #trainerFor(each: Case, signal: AbortSignal): CheckTools['trainer'] {
    let like: Pick<Trainer, 'train' | 'origin'> | undefined;
    const { steps } = this.#options;
    return {
      get origin() {
        return like?.origin ?? { shard: '', build: 'unknown' };
      },
      train: (...task) =>
        this.#inTurn(each, signal, async () => {
          like = await steps.like(each.contribution.manifest);
          return like.train(...task);
        }),
    };
  }

  /**
   * Runs jobs one at a time while this worker does not train; of the waiting cases the one with most verdicts runs
   * first.
   */
  async #inTurn<T>(each: Case, signal: AbortSignal, run: () => Promise<T>): Promise<T> {
    let result: Promise<T> | undefined;
    this.#ready.add(each);
    try {
      while (this.#isTraining || this.#running || mostAccused([...this.#ready]) !== each) {
        await this.#idle.next(signal);
      }
      signal.throwIfAborted();
      result = run();
      this.#running = result;
      return await result;
    } finally {
      this.#ready.delete(each);
      if (this.#running === result) this.#running = undefined;
      this.#idle.notify();
    }
  }

  /** Never rejects. */
  async #check(each: Case): Promise<void> {
    const { evidence, fetch, sha256, reporter } = this.#options;
    const { signal, release } = anySignal(this.#options.signal, each.stop.signal);
    const { manifest, state } = each.contribution;
    try {
      const trainer = this.#trainerFor(each, signal);
      const finding = await checkContribution(each.contribution, {
        trainer,
        evidence,
        fetch,
        sha256,
        signal,
      });
      // the state may be disclosed later; without it the distance of differing bits is unknown
      const { result, reason: why, apartPpm } = finding;
      const isOpen = result === 'unanswered' || (why === 'other-bits' && apartPpm === undefined);
      each.isOver = !isOpen;
      reporter.checked(each.round, findingText(manifest.worker, finding));
      if (result === 'same') {
        for (const key of each.verdicts.keys()) this.#liars.add(key);
        each.verdicts.clear();
      }
      const reason = verdictOf(finding, state.spec.rerun.bandPpm);
      if (reason !== undefined) this.#accuse(each, reason);
    } catch (error) {
      if (!signal.aborted) reporter.checked(each.round, failureText(error));
      each.isOver = true;
    } finally {
      release();
    }
  }

  #accuse({ contribution }: Case, reason: string): void {
    const { control, take } = this.#options;
    const { eventId: manifest, worker: accused, round: checked } = contribution.manifest;
    const { run } = contribution.state;
    const verdict = { type: 'verdict', run, checked, accused, manifest, reason } as const;
    const { event, message } = control.sign(verdict);
    control.send(event);
    take(message);
    this.heard(message);
  }

  /** Publishes a proof once a quorum convicts: the first juror at once, the others one round later. */
  #publishProof(each: Case): void {
    const { control, evidence, take } = this.#options;
    const state = this.#state;
    if (state === undefined || state.round < each.round + 1 + Math.min(each.rank, 1)) return;
    const jury = juryOf(state, each.round, evidence);
    const seated = [...each.verdicts.values()].filter(({ key }) => jury.members.includes(key));
    const keys = seated.map(({ key }) => key);
    if (!convicts(jury, keys) || this.#isProven(state, each)) return;
    const proof = control.accuse(seated.map(({ id }) => id));
    if (proof === undefined) return;
    control.send(proof.event);
    take(proof.message);
    this.heard(proof.message);
  }

  #isProven(state: Certified, { contribution }: Case): boolean {
    const { evidence } = this.#options;
    const isIn = state.ledger.members.some(({ key }) => key === contribution.manifest.worker);
    return (
      !isIn ||
      [...evidence.messages()].some(
        (message) =>
          message.type === 'fault' &&
          message.culprit === contribution.manifest.worker &&
          isUpheld(state, message, evidence),
      )
    );
  }

  close(): void {
    for (const { stop } of this.#cases) stop.abort(new Error('closed'));
    this.#cases = [];
    // wait for the recomputation in progress
    const running = this.#running ?? Promise.resolve();
    void running
      .catch(() => undefined)
      .then(() => this.#options.steps.close())
      .catch(() => undefined);
  }
}

/** Recomputes drawn contributions and signs verdicts; all members subscribe to verdicts. */
export const jury: CertifiedFeature = {
  isIn: (spec) => spec.jury > 0,
  hearsMembers: true,
  create: (host) => host.recomputation && new JuryMember({ ...host, ...host.recomputation }),
};
