/**
 * A member's part in a jury: reruns the steps of drawn contributions, signs what it found, and shows the verdicts of a
 * quorum. The first jurors check at once, others when somebody reports a failure; steps run one at a time while this
 * worker does not train, and no vote waits for them.
 */
import { anySignal, createNotifier } from '../../base/async.ts';
import { isDrawn } from '../../run/committee.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import { JURY_ROUNDS } from '../../run/spec/feature-fields.ts';
import type { CheckVerdict, Signed } from '../../run/vote.ts';
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
/** Checks at once: all but one of them wait for relays. The last place is kept for what somebody says failed. */
const MOST_AT_ONCE = 4;
/** Of past parameters. */
const MOST_KEPT_BYTES = 2 ** 30;

interface Case {
  readonly round: number;
  readonly contribution: CheckableContribution;
  readonly isFirst: boolean;
  /** Its place among jurors: the first of those who see a quorum shows it. */
  readonly rank: number;
  readonly stop: AbortController;
  readonly verdicts: Map<WorkerId, Signed<CheckVerdict>>;
  isBusy: boolean;
  /** Found something, or nothing in this round. */
  isDone: boolean;
  isOver: boolean;
}

/** What every machine finds: other bits within the band are seen by those alone that compute as the author does. */
const REPEATABLE: readonly CheckReason[] = [
  'not-a-state',
  'other-steps',
  'other-payload',
  'other-count',
];

/** The reason that a verdict gives for a finding; undefined if others could not repeat the finding. */
function verdictOf(
  { result, reason, apartPpm }: CheckFinding,
  bandPpm: number,
): CheckReason | undefined {
  if (result !== 'fault' || reason === undefined) return undefined;
  if (REPEATABLE.includes(reason)) return reason;
  return apartPpm !== undefined && apartPpm > bandPpm ? 'other-steps' : undefined;
}

/** For how many rounds contributions are checked here: parameters of large models are kept for fewer. */
const roundsKept = ({ params }: Certified): number =>
  Math.max(1, Math.min(JURY_ROUNDS, Math.floor(MOST_KEPT_BYTES / params.values.byteLength) - 3));

const RESULT_TEXTS: Readonly<Record<CheckResult, string>> = {
  same: 'the same bits',
  near: 'near enough for another machine',
  fault: 'NOT WHAT IT SAYS',
  unanswered: 'nothing can be said yet',
};

const findingText = (worker: WorkerId, { result, reason }: CheckFinding): string =>
  `ran the steps of ${worker.slice(0, 8)} again: ${RESULT_TEXTS[result]}${reason ? ` (${reason})` : ''}`;

const mostAccused = (cases: readonly Case[]): Case | undefined =>
  [...cases].sort((a, b) => b.verdicts.size - a.verdicts.size || a.round - b.round)[0];

const failureText = (error: unknown): string =>
  `steps of others cannot be run again here: ${String(error)}`;

class JuryMember implements MemberFeature {
  readonly #options: JuryOptions;
  readonly #kept = new Map<number, CheckedRound>();
  /** Who said that a contribution failed which came out bit for bit here is not followed any more. */
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

  /** A round is decided: what its contributions were made from is kept as long as it may be needed. */
  decided({ state }: ReadyRound, outcome: Outcome, taken: Certified['taken']): void {
    const light = { ...state, momentum: new Float32Array() };
    this.#kept.set(outcome.round, { state: light, outcome, taken });
    for (const old of this.#kept.keys()) {
      if (old <= outcome.round - 1 - roundsKept(state)) this.#kept.delete(old);
    }
  }

  /** A round begins: its randomness says which contributions of the one before are checked. */
  begin({ state, electorate }: ReadyRound): void {
    this.#state = state;
    const members = new Set(state.ledger.members.map(({ key }) => key));
    const last = roundsKept(state);
    const isDue = ({ round, contribution }: Case) =>
      state.round <= round + 1 + last && members.has(contribution.manifest.worker);
    for (const each of this.#cases) {
      if (!isDue(each)) each.stop.abort(new Error('too late'));
      else if (!each.isBusy) each.isDone = each.isOver;
    }
    const fresh = this.#casesOf(state, electorate.committee.members);
    this.#cases = [...this.#cases, ...fresh].filter(isDue);
    for (const message of this.#options.evidence.messages()) this.#note(message);
    for (const each of this.#cases) this.#show(each);
    this.#next();
  }

  training(isTraining: boolean): void {
    this.#isTraining = isTraining;
    if (!isTraining) this.#idle.notify();
  }

  heard(message: ProtocolMessage): void {
    const noted = this.#note(message);
    if (noted) this.#show(noted);
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

  /** Takes in a verdict of a juror; the case it is on, where that is news. */
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

  /** Runs one at a time, while this worker does not train; the most accused of those that are ready goes first. */
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
      // what is not shown yet may be shown later: without it nobody can say how far bits lie apart
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

  /** Publishes the proof once a quorum found the same: the first juror at once, others a round later. */
  #show(each: Case): void {
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
    // steps that are under way end first
    const running = this.#running ?? Promise.resolve();
    void running
      .catch(() => undefined)
      .then(() => this.#options.steps.close())
      .catch(() => undefined);
  }
}

/** Runs drawn contributions again and signs verdicts; all members hear those of others. */
export const jury: CertifiedFeature = {
  isIn: (spec) => spec.jury > 0,
  hearsMembers: true,
  create: (host) => host.recomputation && new JuryMember({ ...host, ...host.recomputation }),
};
