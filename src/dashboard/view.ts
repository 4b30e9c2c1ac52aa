/** State of the live view: a pure fold over the events of a run's workers. src/terminal renders it. */

import type { CertifiedRound, RunEvent } from '../certified/rounds/events.ts';
import type { SharedMeasure } from '../run/contribution.ts';
import { type Digest, roundName, roundNumber, type WorkerId } from '../run/ids.ts';
import { shortName, withNames } from '../run/worker-names.ts';
import {
  createWorkerView,
  foldPeer,
  foldWorker,
  type PeerView,
  type WorkerView,
} from './worker-view.ts';

interface Notice {
  readonly name: string;
  readonly message: string;
  readonly about?: Cause | undefined;
}

/** What ends a notice: news of the relays, the end of the start, or the end of the round. */
type Cause = 'relays' | 'start' | 'round';

export interface View {
  /** Empty until the first `hello` event. */
  readonly task: string;
  readonly parameters: number;
  readonly rounds: number;
  /** Workers on this screen. */
  readonly workers: readonly WorkerView[];
  /** Other workers, in the order of their first event. */
  readonly peers: readonly PeerView[];
  /** Members that left the run and have not joined again; they are not shown. */
  readonly left: ReadonlySet<WorkerId>;
  /** State digests of others at the start of rounds whose previous round is not finished here, by round. */
  readonly early: ReadonlyMap<number, ReadonlyMap<WorkerId, Digest>>;
  /** Finished rounds, by index. */
  readonly finished: readonly RoundView[];
  /** Rounds at whose start two workers have different states. */
  readonly diverged: ReadonlySet<number>;
  /** Notices, the newest last. */
  readonly notices: readonly Notice[];
}

/** `alone` if no other worker reports its state, `open` while others have not finished the round. */
export type Agreement = 'same' | 'differ' | 'open' | 'alone';

/** Maximum number of notices kept. */
const MAX_NOTICES = 20;
/** Maximum number of rounds in `early`. */
const MAX_EARLY = 8;

export const createView = (names: readonly string[]): View => ({
  task: '',
  parameters: 0,
  rounds: 0,
  workers: names.map(createWorkerView),
  peers: [],
  left: new Set(),
  early: new Map(),
  finished: [],
  diverged: new Set(),
  notices: [],
});

/** Returns the view after an event of worker `name`; events of unknown names are ignored. */
export function fold(view: View, name: string, event: RunEvent): View {
  const at = view.workers.findIndex((worker) => worker.name === name);
  if (at < 0) return view;
  const workers = view.workers.with(at, foldWorker(view.workers[at]!, event));
  const next = { ...view, workers };
  switch (event.type) {
    case 'hello': {
      const { task, parameters, rounds } = event;
      const peers = next.peers.filter((peer) => peer.worker !== event.worker);
      return { ...forget(next, name, 'start'), task, parameters, rounds, peers };
    }
    case 'notice':
      return notify(forget(next, name, event.about), name, event.message, event.about);
    case 'published':
      return forget(next, name, 'relays');
    case 'refused': {
      const message = `refused an event (${event.reason}): ${event.detail}`;
      return notify(next, name, message, 'round');
    }
    case 'divergence': {
      const peer = shortName(event.peer);
      const message = `holds another state than ${peer} at the start of ${roundName(event.round)}`;
      return notify({ ...next, diverged: new Set([...view.diverged, event.round]) }, name, message);
    }
    case 'peer':
      return hear(next, event);
    case 'round': {
      const early = new Map(view.early);
      const peers = early.get(event.index + 1) ?? new Map();
      early.delete(event.index + 1);
      const finished = foldRound(view.finished, name, event, peers);
      return { ...withoutLeavers(forget(next, name, 'round'), event.certified), early, finished };
    }
    case 'stalled':
    case 'voids':
      return notify(next, name, troubleOf(event), 'round');
    case 'fault':
    case 'conflict':
    case 'fork':
    case 'switched':
    case 'screened':
      return notify(next, name, troubleOf(event));
    case 'failed':
      return notify(next, name, event.message);
    default:
      return next;
  }
}

function withoutLeavers(view: View, round: CertifiedRound | undefined): View {
  if (round === undefined || round.left.length + round.joined.length === 0) return view;
  const left = new Set([...view.left, ...round.left]);
  for (const key of round.joined) left.delete(key);
  return { ...view, left, peers: view.peers.filter(({ worker }) => !left.has(worker)) };
}

function hear(view: View, event: Extract<RunEvent, { type: 'peer' }>): View {
  const { worker, round, digest } = event;
  if (view.left.has(worker)) return view;
  if (view.workers.some((local) => local.worker === worker)) return view;
  const next = { ...view, peers: foldPeer(view.peers, event) };
  if (digest === undefined) return next;
  const at = view.finished.findIndex(({ index }) => index === round - 1);
  if (at < 0) {
    const of = new Map([...(view.early.get(round) ?? []), [worker, digest] as const]);
    return { ...next, early: new Map([...view.early, [round, of] as const].slice(-MAX_EARLY)) };
  }
  const before = view.finished[at]!;
  const peers = new Map([...before.peers, [worker, digest] as const]);
  return { ...next, finished: view.finished.with(at, { ...before, peers }) };
}

/** Adds a notice about the run (`name` empty) or one worker. */
export const notify = (view: View, name: string, message: string, about?: Cause): View => ({
  ...view,
  notices: [...view.notices, { name, message: withNames(message, namesIn(view)), about }].slice(
    -MAX_NOTICES,
  ),
});

/** Returns the names of the other workers, by key. */
const namesIn = ({ peers }: View): ReadonlyMap<WorkerId, string> =>
  new Map(peers.flatMap(({ worker, name }) => (name === undefined ? [] : [[worker, name]])));

/** Removes the notices of one worker whose cause is gone. */
const forget = (view: View, name: string, cause: Cause | undefined): View => ({
  ...view,
  notices: view.notices.filter(
    (each) => cause === undefined || each.name !== name || each.about !== cause,
  ),
});

/** Reports whether all workers that could have finished a round have the same state after it. */
export function agreementOf({ workers, peers, diverged }: View, round: RoundView): Agreement {
  const { digests, index } = round;
  if (new Set(digests.values()).size > 1 || diverged.has(index + 1)) return 'differ';
  const missing = workers.some(({ name, phase }) => phase !== 'failed' && !digests.has(name));
  const reporting = digests.size + round.peers.size;
  if (!missing && reporting > 1) return 'same';
  const tells = workers.length > 1 || peers.some(({ digest }) => digest !== undefined);
  return tells ? 'open' : 'alone';
}

/** Number of last rounds that the duration of a round is averaged over. */
const RECENT = 3;

/** Estimates the seconds until the last round ends, from the last rounds; undefined before the first has ended. */
export function secondsLeft({ workers, rounds, finished }: View): number | undefined {
  const recent = finished.slice(-RECENT);
  const active = workers.filter(({ phase }) => phase !== 'failed');
  if (recent.length === 0 || active.length === 0) return undefined;
  const seconds = recent.reduce((sum, round) => sum + round.seconds, 0) / recent.length;
  const played = Math.min(...active.map(playedBy));
  return Math.max(0, rounds - played) * seconds;
}

/** Returns the rounds that a worker has played, including the finished part of its current round. */
function playedBy({ phase, round, step, steps }: WorkerView): number {
  if (phase === 'training' && steps > 0) return round + step / steps;
  return phase === 'sending' || phase === 'collecting' ? round + 1 : round;
}

export interface RoundView extends SharedMeasure {
  readonly index: number;
  /** State digest of each worker that finished it. */
  readonly digests: ReadonlyMap<string, Digest>;
  /** State digests that other workers report after it. */
  readonly peers: ReadonlyMap<WorkerId, Digest>;
  /** Mean over the workers that finished it. */
  readonly trainingLoss: number;
  /** Contributions counted, the minimum over workers. */
  readonly accepted: number;
  /** Events refused, the maximum over workers. */
  readonly refused: number;
  /** Largest payload of any worker. */
  readonly payloadBytes: number;
  /** Largest event of any worker. */
  readonly eventBytes: number;
  readonly seconds: number;
  /** The certificate of the round, in a certified run. */
  readonly certified?: CertifiedRound | undefined;
}

/** Maximum number of finished rounds kept. */
const MOST_FINISHED = 256;

/** Adds a worker's round event to the finished rounds; `peers` are known state digests of others after that round. */
function foldRound(
  finished: readonly RoundView[],
  name: string,
  event: Extract<RunEvent, { type: 'round' }>,
  peers: ReadonlyMap<WorkerId, Digest>,
): readonly RoundView[] {
  const before = finished.find(({ index }) => index === event.index);
  const digests = new Map([...(before?.digests ?? []), [name, event.digest] as const]);
  const share = before?.digests.has(name) ? 0 : 1 / digests.size;
  // a worker that only followed a round has no loss
  const isNew = Number.isFinite(event.trainingLoss);
  const isFirst = before === undefined || !Number.isFinite(before.trainingLoss);
  const trainingLoss =
    isFirst || !isNew
      ? (isNew ? event : (before ?? event)).trainingLoss
      : before.trainingLoss + share * (event.trainingLoss - before.trainingLoss);
  const round: RoundView = {
    index: event.index,
    digests,
    peers: new Map([...(before?.peers ?? []), ...peers]),
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
    validationLoss: event.validationLoss ?? before?.validationLoss,
    bitsPerByte: event.bitsPerByte ?? before?.bitsPerByte,
    accuracy: event.accuracy ?? before?.accuracy,
    sample: event.sample ?? before?.sample,
    certified: event.certified ?? before?.certified,
  };
  return [...finished.filter(({ index }) => index !== event.index), round]
    .sort((a, b) => a.index - b.index)
    .slice(-MOST_FINISHED);
}

type Trouble = 'stalled' | 'voids' | 'fault' | 'conflict' | 'fork' | 'switched' | 'screened';

/** Describes a problem in a certified round. */
export function troubleOf(event: Extract<RunEvent, { type: Trouble }>): string {
  const at = roundName(event.round);
  switch (event.type) {
    case 'stalled': {
      const attempt = event.attempt === 0 ? '' : ` in recovery epoch ${event.attempt}`;
      const silent = event.missing.map(shortName).join(', ');
      const why = silent === '' ? '' : `: no vote from ${silent}`;
      return `Round ${roundNumber(event.round)} is not decided yet${attempt}${why}. Trying again.`;
    }
    case 'voids':
      return (
        `${at}: ALERT, ${event.count} rounds in a row were void, so no contribution counts: ` +
        'find out which workers are missing, or create a new run that waits longer ' +
        '(run create with a larger --timing-grace-min-ms)'
      );
    case 'fault':
      return (
        `${at}: FAULT, ${shortName(event.worker)} is proven to have broken the rules ` +
        `(${event.kind})`
      );
    case 'screened': {
      const { worker, gain, bound } = event;
      const loss =
        gain === null ? 'to a value that is not a number' : `by ${(-gain).toPrecision(3)}`;
      return (
        `${at}: SCREENED, the contribution of ${shortName(worker)} raises the loss ${loss} on ` +
        `this worker's data; the limit is ${(-bound).toPrecision(3)}`
      );
    }
    case 'conflict':
      return `${at}: CONFLICT, ${short(event.expected)} is certified and so is ${short(event.got)}`;
    case 'fork':
      return `${at}: FORK since ${roundName(event.fork)}, ${STAYS[event.obstacle](event)}`;
    case 'switched': {
      const { fork, depth, ours, theirs } = event;
      const branches = `from ${short(ours)} to ${short(theirs)}`;
      return (
        `${at}: SWITCHED ${branches}: the run forked in ${roundName(fork)}, ${depth} ` +
        `of this worker's rounds are undone`
      );
    }
  }
}

type Fork = Extract<RunEvent, { type: 'fork' }>;

/** Why a worker does not follow another branch automatically, and what its user can do. */
const STAYS: Readonly<Record<Fork['obstacle'], (fork: Fork) => string>> = {
  'too-deep': ({ depth, ours, theirs }) =>
    `${depth} rounds would be undone, more than a worker may undo automatically: restart ` +
    `with --branch ${theirs} to switch, or --branch ${ours} to stay`,
  'ours-unseen': ({ theirs }) =>
    `and no relay has this worker's branch to compare with: add relays, or ` +
    `restart with --branch ${theirs} to switch to the other branch`,
  'not-whole': ({ theirs }) =>
    `${short(theirs)} is better, but relays lack some of its contributions; trying again`,
};

const short = (id: string): string => id.slice(0, 8);
