/** What a worker of a certified run reports, each thing once, and what it refused, in bounded number. */
import { Recent } from '../../base/bounded.ts';
import type { Effect, Refusal } from '../../consensus/round/round-state.ts';
import type { Rejection } from '../../run/contribution.ts';
import { type Digest, type EventId, roundName, type WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import type { Signed } from '../../run/vote.ts';
import type { RoundSummary, WorkerEvent } from '../../worker/events.ts';
import type { Ports, Session } from '../../worker/ports.ts';
import type { Invalid, Missing } from '../decisions/evidence.ts';
import type { ProtocolMessage, Unreadable } from '../wire/certified-events.ts';
import type { FaultProof } from '../wire/faults.ts';

/** A contribution that does harm, for people. */
export interface Screened {
  readonly worker: WorkerId;
  readonly manifest: EventId;
  /** Null where the loss is no number any more. */
  readonly gain: number | null;
  readonly bound: number;
}

/** What a certificate says of a round, for people. */
export interface CertifiedRound {
  readonly result: 'final' | 'void';
  readonly attempt: number;
  readonly view: number;
  /** Root of the model after the round. */
  readonly root: Digest;
  /** Whose commits certify it, ascending, and of how many. */
  readonly signers: readonly WorkerId[];
  readonly of: number;
  readonly rejected: readonly { readonly worker: WorkerId; readonly reason: string }[];
  /** Who left the roster for breaking the rules. */
  readonly faults: readonly WorkerId[];
  readonly joined: readonly WorkerId[];
  /** Who left the roster by its own wish. */
  readonly left: readonly WorkerId[];
  /** Whose work of the round before counts in this one. */
  readonly late: readonly WorkerId[];
  /** Whose listed work the rule of the run left out: it goes back to them. Absent where none. */
  readonly unused?: readonly WorkerId[];
  /** What the outer learning rate was multiplied with, where it follows how far the rows agree. */
  readonly rate?: number;
  /** Whose contribution more than half of the signers would not list as harmful; absent without screening. */
  readonly screened?: readonly WorkerId[];
  /**
   * Scores after the round, in millionths of a loss: the last one, and the mean of the last eight; absent without
   * scores.
   */
  readonly scores?: readonly {
    readonly worker: WorkerId;
    readonly last: number;
    readonly rolling: number;
    /** Under the floor: it does harm round after round, and has no seat two rounds on. */
    readonly isLow: boolean;
  }[];
}

/** A round that a committee ended. */
export interface CertifiedSummary extends RoundSummary {
  /** Absent in rounds of before the run was certified. */
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
      /** Who was not heard of in it. */
      readonly missing: readonly WorkerId[];
    }
  | {
      /** Rounds in a row that ended without counting anything: three or more, of the last 32. */
      readonly type: 'voids';
      /** The last of them. */
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
      /** By the loss that this worker measured, a contribution does more harm than it would propose. */
      readonly type: 'screened';
      readonly round: number;
    } & Screened)
  | {
      /** Two outcomes of one round have a certificate each. */
      readonly type: 'conflict';
      readonly round: number;
      readonly expected: Digest;
      readonly got: Digest;
    }
  | {
      /** Relays have another branch of the run that is better, or may be; this worker stays where it is. */
      readonly type: 'fork';
      readonly round: number;
      /** The first round in which they differ, and how many rounds going over would undo. */
      readonly fork: number;
      readonly depth: number;
      /** The last outcome of each. */
      readonly ours: Digest;
      readonly theirs: Digest;
      readonly obstacle: 'too-deep' | 'ours-unseen' | 'not-whole';
    }
  | {
      /** This worker went over to a better branch. */
      readonly type: 'switched';
      /** The round it plays next. */
      readonly round: number;
      readonly fork: number;
      readonly depth: number;
      readonly ours: Digest;
      readonly theirs: Digest;
    };

/** Everything that a worker of any run reports. */
export type RunEvent = Exclude<WorkerEvent, { readonly type: 'round' }> | CertifiedEvent;

export interface CertifiedPorts extends Ports {
  report(event: RunEvent): void;
}

export interface CertifiedSession extends Session {
  readonly ports: CertifiedPorts;
}

/** Things of a run that are remembered as told, those told last. */
const MAX_REPORTED = 1024;

function createOnce(report: (event: RunEvent) => void, reported = new Recent<true>(MAX_REPORTED)) {
  return (key: string, event: RunEvent) => {
    if (reported.get(key)) return;
    reported.set(key, true);
    report(event);
  };
}

/** Tells of contributions as they arrive, each once; what was told of older rounds is forgotten. */
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

/** Sentences for people about what a worker meets in a run; each is reported once. */
const wording = {
  unmeasured: (round: number, error: unknown) =>
    `${roundName(round)}: contributions cannot be measured here: ${String(error)}`,
  lacking: (round: number, missing: readonly Missing[]) =>
    `${roundName(round)} waits for ${listOf(missing)} that no relay has brought yet`,
  invalid: ({ round, proposer }: Outcome, { message }: Invalid) =>
    `refused what ${proposer.slice(0, 8)} proposed for ${roundName(round)}: ${message}`,
  uncomposable: (round: number, { code, message }: Invalid) =>
    code === 'nothing-accepted'
      ? `Nobody's work for ${roundName(round)} has arrived yet.`
      : `Nothing can be proposed for ${roundName(round)} yet: ${message}`,
  disclosed: (round: number, why?: string) =>
    why === undefined
      ? `${roundName(round)}: drawn for a check, showed what its steps start from`
      : `${roundName(round)}: drawn for a check, but no relay has what it asks for: ${why}`,
  checked: (round: number, finding: string) => `${roundName(round)}: ${finding}`,
  resting: (round: number) =>
    `${roundName(round)}: sits it out, to begin the next one together with the others`,
  unlisted: () => 'asked to join: it sends from the round on that lists it',
  partless: (hasStake: boolean) =>
    hasStake
      ? 'sent nothing yet: new workers are given parts of the model later'
      : 'sends nothing: its key has no stake in this run, so that its work counts for nothing',
  keyInUse: (round: number) =>
    `${roundName(round)}: another process signs with this key; stop it, or the key is thrown ` +
    'out of the run',
  sittingOut: (round: number) =>
    `${roundName(round)}: sits it out, for this key may have signed in it what is not on this disk`,
  left: (round: number) => `left the run with ${roundName(round)}; the same command joins it again`,
  unsaved: (round: number, why: string) =>
    `what decided ${roundName(round)} cannot be kept here: ${why}`,
  republished: (round: number, count: number) =>
    `${roundName(round)}: relays had forgotten earlier rounds; published again what decided ` +
    `${count} of them`,
  unread: (round: number, why: string) =>
    `${roundName(round)} keeps the stakes it has, the next ones cannot be read: ${why}`,
  unpublished: (round: number, snapshot: string) =>
    `no relay took the stakes ${snapshot.slice(0, 8)} of ${roundName(round)}: who reaches no ` +
    'chain needs them as a file',
  unknownBranch: (outcome: Digest) =>
    `no relay here has a certified outcome ${outcome}: --branch names none that is known`,
  branchesUnavailable: (round: number, why: string) =>
    `${roundName(round)}: cannot look for other branches of the run: ${why}`,
  unkept: (round: number) => `the checkpoint after ${roundName(round)} is on no relay as a whole`,
  unavailable: (round: number, what: string, why: string) =>
    what === 'snapshot'
      ? 'The stake table of this run is on none of its relays. Ask its author to publish it, or ' +
        `add --stake FILE. (${why})`
      : `${roundName(round)} waits for its ${what}: ${why}`,
};

type Notices = {
  readonly [K in keyof typeof wording]: (...args: Parameters<(typeof wording)[K]>) => void;
};

/** Reports what happens in a run: events as they are, each notice once. */
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
  return [...counts].map(([what, count]) => `${count} ${what}${count === 1 ? '' : 's'}`).join(', ');
}

/** A flood costs no more memory than this. */
const MOST = 1000;

const VOTES: Readonly<Record<Extract<Refusal, { readonly key: string }>['code'], string>> = {
  'not-a-member': 'a vote without a seat',
  'other-history': 'a vote after another outcome',
  'other-committee': 'a vote before another committee',
  'too-early': 'a vote from beyond what clocks allow',
  'too-many': 'more than two contents in one place',
};

interface RefusalHost {
  readonly reporter: RunReporter;
  readonly branches: { hint(key?: string): void };
}

/** What a round refused, reported once each and kept in bounded number. */
export class Refusals {
  readonly list: Rejection[] = [];
  readonly #noted = new Set<string>();
  readonly #round: number;
  readonly #member: RefusalHost;

  constructor(round: number, member: RefusalHost) {
    this.#round = round;
    this.#member = member;
  }

  /** With an id it counts once: relays bring the same again and again. */
  note(rejection: Rejection, id: EventId | undefined): void {
    const name = id && `${rejection.reason} ${id}`;
    if (this.list.length >= MOST || (name && this.#noted.has(name))) return;
    if (name) this.#noted.add(name);
    this.list.push(rejection);
    this.#member.reporter.refused(this.#round, rejection);
  }

  /** An event of a kind of ours that says nothing of any use. */
  noteUnreadable({ id, key, reason }: Signed<Unreadable>): void {
    this.note({ reason, worker: key, detail: 'it says nothing of any use' }, id);
  }

  /** What the round machine did not take. */
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
