/**
 * Events and notices that a worker of a certified run reports, each once, and the bounded list of messages it refused.
 */

import { Recent } from '../../base/bounded.ts';
import type { Issue } from '../../base/errors.ts';
import { plural } from '../../base/numbers.ts';
import type { Effect, Refusal } from '../../consensus/round/round-state.ts';
import type { Rejection } from '../../run/contribution.ts';
import { type Digest, type EventId, roundName, type WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import type { Signed } from '../../run/vote.ts';
import { shortName } from '../../run/worker-names.ts';
import type { RoundSummary, WorkerEvent } from '../../worker/events.ts';
import type { Ports, Session } from '../../worker/ports.ts';
import type { Missing } from '../decisions/evidence.ts';
import type { ProtocolMessage, Unreadable } from '../wire/certified-events.ts';
import type { FaultProof } from '../wire/faults.ts';

/** A harmful contribution, for display. */
export interface Screened {
  readonly worker: WorkerId;
  readonly manifest: EventId;
  /** Null if the loss becomes NaN or infinite. */
  readonly gain: number | null;
  readonly bound: number;
}

/** Certificate of a round, for display. */
export interface CertifiedRound {
  readonly result: 'final' | 'void';
  readonly attempt: number;
  readonly view: number;
  /** Model root after the round. */
  readonly root: Digest;
  /** Members whose commits certify it, ascending, and the number of seats. */
  readonly signers: readonly WorkerId[];
  readonly of: number;
  readonly rejected: readonly { readonly worker: WorkerId; readonly reason: string }[];
  /** Members ejected for breaking the rules. */
  readonly faults: readonly WorkerId[];
  readonly joined: readonly WorkerId[];
  /** Members that left by their own wish. */
  readonly left: readonly WorkerId[];
  /** Workers whose contribution to the previous round counts in this one. */
  readonly late: readonly WorkerId[];
  /**
   * Workers whose listed contribution the aggregation rule left out; it stays in their residual. Absent if the list is
   * empty.
   */
  readonly unused?: readonly WorkerId[];
  /** Factor on the outer learning rate, in runs where it depends on how far the contributions agree. */
  readonly rate?: number;
  /** Workers whose contribution more than half of the signers consider harmful; absent without screening. */
  readonly screened?: readonly WorkerId[];
  /**
   * Scores after the round, in millionths of a loss: the last one and the mean of the last eight; absent without
   * scores.
   */
  readonly scores?: readonly {
    readonly worker: WorkerId;
    readonly last: number;
    readonly rolling: number;
    /** Below the floor: its contributions are harmful repeatedly, so it has no seat two rounds later. */
    readonly isLow: boolean;
  }[];
  /** Number of deleted notes that workers leave out from the next round on; absent without a corpus of notes. */
  readonly deletedNotes?: number;
}

/** Summary of a round that a committee decided. */
export interface CertifiedSummary extends RoundSummary {
  /** Absent for rounds before the run was certified. */
  readonly certified?: CertifiedRound;
}

export type CertifiedEvent =
  | ({ readonly type: 'round' } & CertifiedSummary)
  | {
      /** A view of a certified round ended without a certificate. */
      readonly type: 'stalled';
      readonly round: number;
      readonly attempt: number;
      readonly view: number;
      /** Members that sent nothing in this view. */
      readonly missing: readonly WorkerId[];
    }
  | {
      /** Consecutive rounds that counted no contribution: three or more of the last 32. */
      readonly type: 'voids';
      /** The last of these rounds. */
      readonly round: number;
      readonly count: number;
    }
  | {
      /** A worker is proven to have broken the rules. */
      readonly type: 'fault';
      readonly round: number;
      readonly worker: WorkerId;
      readonly kind: FaultProof['kind'];
    }
  | ({
      /** This worker measured more harm in a contribution than it would propose. */
      readonly type: 'screened';
      readonly round: number;
    } & Screened)
  | {
      /** Two outcomes of one round each have a certificate. */
      readonly type: 'conflict';
      readonly round: number;
      readonly expected: Digest;
      readonly got: Digest;
    }
  | ({
      /** Relays have another branch that is or may be better; this worker stays on its own. */
      readonly type: 'fork';
      readonly obstacle: 'too-deep' | 'ours-unseen' | 'not-whole';
    } & BranchPair)
  | ({
      /** This worker switched to a better branch. */
      readonly type: 'switched';
    } & BranchPair);

interface BranchPair {
  /** Round that the worker plays. */
  readonly round: number;
  /** First round in which the branches differ, and how many rounds a switch undoes. */
  readonly fork: number;
  readonly depth: number;
  /** Last outcome of each branch. */
  readonly ours: Digest;
  readonly theirs: Digest;
}

/** Everything that a worker of any run reports. */
export type RunEvent = Exclude<WorkerEvent, { readonly type: 'round' }> | CertifiedEvent;

export interface CertifiedPorts extends Ports {
  report(event: RunEvent): void;
}

export interface CertifiedSession extends Session {
  readonly ports: CertifiedPorts;
}

/** Maximum reported keys remembered, the most recent ones. */
const MAX_REPORTED = 1024;

function createOnce(report: (event: RunEvent) => void, reported = new Recent<true>(MAX_REPORTED)) {
  return (key: string, event: RunEvent) => {
    if (reported.get(key)) return;
    reported.set(key, true);
    report(event);
  };
}

/** Reports each arriving contribution once; forgets older rounds. */
function createArrived(report: (event: RunEvent) => void) {
  const reported = new Recent<true>(Number.POSITIVE_INFINITY);
  const once = createOnce(report, reported);
  let newest = -1;
  return (worker: WorkerId, message: ProtocolMessage | undefined) => {
    if (message?.type !== 'manifest') return;
    const { round, eventBytes } = message.manifest;
    if (round > newest) reported.age();
    newest = Math.max(newest, round);
    once(`${round} ${worker}`, { type: 'peer', state: 'sent', worker, round, eventBytes });
  };
}

/** Texts of notices; each is reported once. */
const wording = {
  unmeasured: (round: number, error: unknown) =>
    `${roundName(round)}: cannot measure contributions: ${String(error)}`,
  lacking: (round: number, missing: readonly Missing[]) =>
    `${roundName(round)} waits for ${listOf(missing)} that no relay has sent yet`,
  invalid: ({ round, proposer }: Outcome, { message }: Issue) =>
    `rejected the proposal of ${shortName(proposer)} for ${roundName(round)}: ${message}`,
  uncomposable: (round: number, { code, message }: Issue) =>
    code === 'nothing-accepted'
      ? `No contribution to ${roundName(round)} has arrived yet.`
      : `Cannot propose an outcome for ${roundName(round)} yet: ${message}`,
  disclosed: (round: number, why?: string) =>
    why === undefined
      ? `${roundName(round)}: drawn for a check, disclosed the state that its steps start from`
      : `${roundName(round)}: drawn for a check, but no relay has the disclosed state: ${why}`,
  checked: (round: number, finding: string) => `${roundName(round)}: ${finding}`,
  resting: (round: number) =>
    `${roundName(round)}: skips this round to begin the next one with the others`,
  unlisted: (sibling?: WorkerId) =>
    sibling === undefined
      ? 'asked to join: contributes once an outcome lists it'
      : `asked to join: contributes once ${sibling}, which acts for the same key, has left the run`,
  partless: (hasStake: boolean) =>
    hasStake
      ? 'sends nothing yet: new workers get parts of the model in a later round'
      : 'sends nothing: its key has no stake in this run, so its work would not count',
  alone: () =>
    'this worker is the only one of the run: nothing is averaged until others join; ' +
    '`nostrain run invite` lets them in',
  keyInUse: (round: number) =>
    `${roundName(round)}: another process signs with this key; stop it, or the run ` +
    'ejects the key',
  sittingOut: (round: number) =>
    `${roundName(round)}: skips this round, because this key may have signed votes that are ` +
    'not on this disk',
  left: (round: number) =>
    `left the run with ${roundName(round)}; run the same command to join again`,
  unsaved: (round: number, why: string) =>
    `cannot save the votes that decided ${roundName(round)}: ${why}`,
  republished: (round: number, count: number) =>
    `${roundName(round)}: relays had lost earlier rounds; republished the votes that decided ` +
    `${count} of them`,
  unread: (round: number, why: string) =>
    `${roundName(round)} keeps the current stakes because the next table cannot be read: ${why}`,
  unpublished: (round: number, snapshot: string) =>
    `no relay took the stake table ${snapshot.slice(0, 8)} of ${roundName(round)}: workers ` +
    'without chain access need it as a file',
  unknownBranch: (outcome: Digest) =>
    `no relay in use has a certified outcome ${outcome}: check --branch`,
  branchesUnavailable: (round: number, why: string) =>
    `${roundName(round)}: cannot search for other branches of the run: ${why}`,
  unkept: (round: number) =>
    `the checkpoint after ${roundName(round)} is not complete on any relay`,
  unavailable: (round: number, what: string, why: string) =>
    what === 'snapshot'
      ? 'No relay of this run has its stake table. Ask the author of the run to publish it, or ' +
        `add --stake FILE. (${why})`
      : `${roundName(round)} waits for its ${what}: ${why}`,
};

type Notices = {
  readonly [K in keyof typeof wording]: (...args: Parameters<(typeof wording)[K]>) => void;
};

/** Creates the reporter of a run: passes on events, and each notice once. */
export function createReporter(report: (event: RunEvent) => void) {
  const once = createOnce(report);
  const noticed = ([name, word]: [string, (...args: never[]) => string]) => {
    const notice = (...args: never[]) => {
      const message = word(...args);
      once(message, { type: 'notice', message });
    };
    return [name, notice];
  };
  return {
    ...(Object.fromEntries(Object.entries(wording).map(noticed)) as Notices),
    waiting: (round: number, have: number, want: number, missing: readonly WorkerId[]) =>
      report({ type: 'waiting', what: 'gradients', round, have, want, missing }),
    arrived: createArrived(report),
    stalled: (round: number, { attempt, view, missing }: Extract<Effect, { type: 'stalled' }>) =>
      report({ type: 'stalled', round, attempt, view, missing }),
    refused: (round: number, { reason, worker, detail }: Rejection) =>
      report({ type: 'refused', round, reason, detail, ...(worker && { worker }) }),
    conflict: (round: number, expected: Digest, got: Digest) =>
      once(`conflict ${round} ${got}`, { type: 'conflict', round, expected, got }),
    fault: (round: number, { culprit: worker, kind }: FaultProof) =>
      once(`fault ${worker}`, { type: 'fault', round, worker, kind }),
    screened: (round: number, screened: Screened) =>
      once(`screened ${screened.manifest}`, { type: 'screened', round, ...screened }),
    forked: (fork: Omit<Extract<RunEvent, { type: 'fork' }>, 'type'>) =>
      once(`fork ${fork.fork} ${fork.obstacle}`, { type: 'fork', ...fork }),
    switched: (change: Omit<Extract<RunEvent, { type: 'switched' }>, 'type'>) =>
      report({ type: 'switched', ...change }),
  };
}

export type RunReporter = ReturnType<typeof createReporter>;

function listOf(missing: readonly Missing[]): string {
  const counts = new Map<string, number>();
  for (const { what } of missing) counts.set(what, (counts.get(what) ?? 0) + 1);
  return [...counts].map(([what, count]) => plural(count, what)).join(', ');
}

/** Maximum refusals kept per round, so that a flood costs bounded memory. */
const MOST = 1000;

const VOTES: Readonly<Record<Extract<Refusal, { readonly key: string }>['code'], string>> = {
  'not-a-member': 'a vote by a key without a seat',
  'other-history': 'a vote that follows another outcome',
  'other-committee': 'a vote for another committee',
  'too-early': 'a vote for a view that cannot have begun yet',
  'too-many': 'more than two different votes in one view',
};

interface RefusalHost {
  readonly reporter: RunReporter;
  readonly branches: { hint(key?: string): void };
}

/** Refusals of a round: reported once each, at most 1,000 kept. */
export class Refusals {
  readonly list: Rejection[] = [];
  readonly #noted = new Set<string>();
  readonly #round: number;
  readonly #member: RefusalHost;

  constructor(round: number, member: RefusalHost) {
    this.#round = round;
    this.#member = member;
  }

  /** Records a refusal; with an id it counts once, since relays send the same event repeatedly. */
  note(rejection: Rejection, id: EventId | undefined): void {
    const name = id && `${rejection.reason} ${id}`;
    if (this.list.length >= MOST || (name && this.#noted.has(name))) return;
    if (name) this.#noted.add(name);
    this.list.push(rejection);
    this.#member.reporter.refused(this.#round, rejection);
  }

  /** Records an event whose content is unusable. */
  noteUnreadable({ id, key, reason }: Signed<Unreadable>): void {
    this.note({ reason, worker: key, detail: 'its content is unusable' }, id);
  }

  /** Records a message that the round machine refused. */
  noteRefusal(refusal: Refusal): void {
    const { reporter, branches } = this.#member;
    if (refusal.code === 'conflicting-finalize') {
      reporter.conflict(refusal.round, refusal.expected, refusal.got);
      branches.hint();
    } else if ('key' in refusal) {
      const { code, key } = refusal;
      if (code === 'other-history') branches.hint(key);
      this.note({ reason: code, worker: key, detail: VOTES[code] }, `vote of ${key}`);
    }
  }
}
