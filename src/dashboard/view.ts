/** The state of the live view: a pure fold over the events of a run's workers. Rendering is in src/terminal. */

import type { CertifiedRound, RunEvent } from '../certified/events.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { roundName } from '../run/round-name.ts';
import { addPoint, type Curve, emptyCurve } from './curve.ts';

type Phase = 'starting' | 'joining' | 'training' | 'sending' | 'collecting' | 'done' | 'failed';

export interface WorkerView {
  readonly name: string;
  readonly phase: Phase;
  readonly worker?: WorkerId;
  /** From 0; equal to the number of rounds when there is none left. */
  readonly round: number;
  readonly step: number;
  readonly steps: number;
  /** Workers or gradients it has while joining or collecting, and how many it waits for. */
  readonly have: number;
  readonly want?: number;
  /** Transfer progress: chunks sent or fetched so far, and how many there are. */
  readonly moved?: { readonly have: number; readonly of: number };
  /** The newest training loss, and all of them. */
  readonly loss?: number;
  readonly losses: Curve;
  readonly tokensPerSecond?: number;
  /** Why it failed. */
  readonly failure?: string;
}

export interface RoundView {
  readonly index: number;
  /** Who finished it, with which state. */
  readonly digests: ReadonlyMap<string, Digest>;
  /** Mean over those who finished it. */
  readonly trainingLoss: number;
  readonly validationLoss?: number;
  /** Contributions counted: the fewest any worker had. */
  readonly accepted: number;
  /** Events refused: the most any worker had. */
  readonly refused: number;
  /** The largest payload and event any worker sent. */
  readonly payloadBytes: number;
  readonly eventBytes: number;
  readonly seconds: number;
  readonly sample?: string;
  /** How a committee ended it, where one did. */
  readonly certified?: CertifiedRound;
}

interface Notice {
  readonly name: string;
  readonly message: string;
}

export interface View {
  /** Empty until a worker has said hello. */
  readonly task: string;
  readonly parameters: number;
  readonly rounds: number;
  readonly workers: readonly WorkerView[];
  /** By index. */
  readonly finished: readonly RoundView[];
  /** Rounds from whose start two states are known to differ. */
  readonly diverged: ReadonlySet<number>;
  /** The newest last. */
  readonly notices: readonly Notice[];
}

/** `alone` where only one worker is seen, `open` while others have yet to finish the round. */
export type Agreement = 'same' | 'differ' | 'open' | 'alone';

const MAX_NOTICES = 20;

export const createView = (names: readonly string[]): View => ({
  task: '',
  parameters: 0,
  rounds: 0,
  workers: names.map((name) => ({
    name,
    phase: 'starting',
    round: 0,
    step: 0,
    steps: 0,
    have: 0,
    losses: emptyCurve,
  })),
  finished: [],
  diverged: new Set(),
  notices: [],
});

/** The view after an event of worker `name`; unknown names are ignored. */
export function fold(view: View, name: string, event: RunEvent): View {
  const at = view.workers.findIndex((worker) => worker.name === name);
  if (at < 0) return view;
  const workers = view.workers.with(at, foldWorker(view.workers[at]!, event));
  const next = { ...view, workers };
  switch (event.type) {
    case 'hello': {
      const { task, parameters, rounds } = event;
      return { ...next, task, parameters, rounds };
    }
    case 'notice':
      return notify(next, name, event.message);
    case 'refused':
      return notify(next, name, `refused an event (${event.reason}): ${event.detail}`);
    case 'divergence': {
      const peer = event.peer.slice(0, 8);
      const message = `holds another state than ${peer} at the start of ${roundName(event.round)}`;
      return notify({ ...next, diverged: new Set([...view.diverged, event.round]) }, name, message);
    }
    case 'round':
      return { ...next, finished: foldRound(view.finished, name, event) };
    case 'stalled':
    case 'voids':
    case 'fault':
    case 'conflict':
    case 'fork':
    case 'switched':
      return notify(next, name, troubleOf(event));
    case 'failed':
      return notify(next, name, event.message);
    default:
      return next;
  }
}

type Trouble = 'stalled' | 'voids' | 'fault' | 'conflict' | 'fork' | 'switched';

/** Describes a problem in a certified round. */
export function troubleOf(event: Extract<RunEvent, { type: Trouble }>): string {
  const at = roundName(event.round);
  switch (event.type) {
    case 'stalled': {
      const attempt = event.attempt === 0 ? '' : ` of recovery epoch ${event.attempt}`;
      const missing = event.missing.map(short).join(' ');
      return `${at}: no certificate in view ${event.view}${attempt}; not heard from ${missing}`;
    }
    case 'voids':
      return `${at}: ALERT, ${event.count} rounds in a row were void: nobody's work counts; give them more time, or find out who is missing`;
    case 'fault':
      return `${at}: FAULT, ${short(event.worker)} is proven to have broken the rules (${event.kind})`;
    case 'conflict':
      return `${at}: CONFLICT, ${short(event.expected)} is certified and so is ${short(event.got)}`;
    case 'fork':
      return `${at}: FORK since ${roundName(event.fork)}, ${STAYS[event.obstacle](event)}`;
    case 'switched': {
      const { fork, depth, ours, theirs } = event;
      const branches = `from ${short(ours)} to ${short(theirs)}`;
      return `${at}: SWITCHED ${branches}: the run forked in ${roundName(fork)}, ${depth} of this worker's rounds are undone`;
    }
  }
}

type Fork = Extract<RunEvent, { type: 'fork' }>;

/** Why a worker does not follow another branch automatically, and what its user can do. */
const STAYS: Readonly<Record<Fork['obstacle'], (fork: Fork) => string>> = {
  'too-deep': ({ depth, ours, theirs }) =>
    `${depth} rounds would be undone, more than the run lets a worker decide: start again with --branch ${theirs} to follow, --branch ${ours} to stay`,
  'ours-unseen': ({ theirs }) =>
    `and no relay here has this worker's branch to compare with: ask more relays, or start again with --branch ${theirs} to follow the other one`,
  'not-whole': ({ theirs }) =>
    `${short(theirs)} is better, but not all of what it counts is on a relay; it is asked for again`,
};

const short = (id: string): string => id.slice(0, 8);

/** Adds a notice about the run (`name` empty) or one worker. */
export const notify = (view: View, name: string, message: string): View => ({
  ...view,
  notices: [...view.notices, { name, message }].slice(-MAX_NOTICES),
});

/** Whether all workers that could have finished a round hold one state after it. */
export function agreementOf({ workers, diverged }: View, round: RoundView): Agreement {
  const { digests, index } = round;
  if (new Set(digests.values()).size > 1 || diverged.has(index + 1)) return 'differ';
  if (workers.length === 1) return 'alone';
  const missing = workers.some(({ name, phase }) => phase !== 'failed' && !digests.has(name));
  return missing || digests.size < 2 ? 'open' : 'same';
}

function foldWorker(before: WorkerView, event: RunEvent): WorkerView {
  switch (event.type) {
    case 'hello':
      return helloOf(before, event);
    case 'waiting': {
      const { want: _, ...rest } = before;
      const { what, round, have } = event;
      const phase = what === 'workers' ? 'joining' : 'collecting';
      return {
        ...rest,
        phase,
        round,
        have,
        ...(event.want === undefined ? {} : { want: event.want }),
      };
    }
    case 'progress': {
      const { round, step, steps, loss, tokensPerSecond } = event;
      const losses = addPoint(before.losses, loss);
      return { ...before, phase: 'training', round, step, steps, loss, losses, tokensPerSecond };
    }
    case 'trained': {
      const { round, loss, tokens, seconds } = event;
      // without progress events, the round's mean loss is the newest known
      const told = before.round === round && before.step > 0;
      return {
        ...before,
        phase: 'sending',
        round,
        step: before.steps,
        ...(told ? {} : { loss, losses: addPoint(before.losses, loss) }),
        ...(seconds > 0 ? { tokensPerSecond: tokens / seconds } : {}),
      };
    }
    case 'transfer': {
      const { have, of } = event;
      return { ...before, moved: { have, of } };
    }
    case 'published': {
      // a slow relay may answer when the worker is long in another phase
      if (before.phase !== 'sending' || before.round !== event.round) return before;
      const { want: _, moved: __, ...rest } = before;
      return { ...rest, phase: 'collecting', have: 0 };
    }
    case 'round': {
      const { moved: _, ...rest } = before;
      return { ...rest, phase: 'starting', round: event.index + 1, step: 0 };
    }
    case 'done':
      return { ...before, phase: 'done', round: event.rounds, step: before.steps };
    case 'failed':
      return { ...before, phase: 'failed', failure: event.message };
    default:
      return before;
  }
}

/** A worker that starts, or starts again. */
function helloOf(
  { name, losses }: WorkerView,
  { worker, round, innerSteps }: Extract<RunEvent, { type: 'hello' }>,
): WorkerView {
  return { name, phase: 'starting', worker, round, step: 0, steps: innerSteps, have: 0, losses };
}

function foldRound(
  finished: readonly RoundView[],
  name: string,
  event: Extract<RunEvent, { type: 'round' }>,
): readonly RoundView[] {
  const before = finished.find(({ index }) => index === event.index);
  const digests = new Map([...(before?.digests ?? []), [name, event.digest] as const]);
  const share = before?.digests.has(name) ? 0 : 1 / digests.size;
  // who only followed a round has no loss
  const isNew = Number.isFinite(event.trainingLoss);
  const isFirst = before === undefined || !Number.isFinite(before.trainingLoss);
  const trainingLoss =
    isFirst || !isNew
      ? (isNew ? event : (before ?? event)).trainingLoss
      : before.trainingLoss + share * (event.trainingLoss - before.trainingLoss);
  const certified = event.certified ?? before?.certified;
  const validationLoss = event.validationLoss ?? before?.validationLoss;
  const sample = event.sample ?? before?.sample;
  const round: RoundView = {
    index: event.index,
    digests,
    trainingLoss,
    accepted: Math.min(event.accepted.length, before?.accepted ?? Number.POSITIVE_INFINITY),
    refused: Math.max(
      event.refused.length,
      event.certified?.rejected.length ?? 0,
      before?.refused ?? 0,
    ),
    payloadBytes: Math.max(event.payloadBytes, before?.payloadBytes ?? 0),
    eventBytes: Math.max(event.eventBytes, before?.eventBytes ?? 0),
    seconds: Math.max(event.seconds, before?.seconds ?? 0),
    ...(validationLoss === undefined ? {} : { validationLoss }),
    ...(sample === undefined ? {} : { sample }),
    ...(certified === undefined ? {} : { certified }),
  };
  return [...finished.filter(({ index }) => index !== event.index), round].sort(
    (a, b) => a.index - b.index,
  );
}
