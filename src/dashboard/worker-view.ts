/** State of one worker on this screen, from all of its events, and of other workers, from what they publish. */
import type { RunEvent } from '../certified/rounds/events.ts';
import type { Digest, WorkerId } from '../run/ids.ts';

type Phase = 'starting' | 'joining' | 'training' | 'sending' | 'collecting' | 'done' | 'failed';

export interface WorkerView {
  readonly name: string;
  readonly phase: Phase;
  readonly worker?: WorkerId | undefined;
  /** Index of the current round, from 0; the number of rounds when all are played. */
  readonly round: number;
  readonly step: number;
  readonly steps: number;
  /** Workers it knows while joining, or gradients it has while collecting. */
  readonly have: number;
  /** How many it waits for. */
  readonly want?: number | undefined;
  /** Keys it waits for, as far as known. */
  readonly missing: readonly WorkerId[];
  /** Bytes of all events of its newest gradient. */
  readonly sentBytes?: number | undefined;
  /** Transfer progress: chunks sent or downloaded so far, and in all. */
  readonly moved?: { readonly have: number; readonly of: number } | undefined;
  /** The newest training loss. */
  readonly loss?: number | undefined;
  /** All training losses. */
  readonly losses: Curve;
  readonly tokensPerSecond?: number | undefined;
  readonly failure?: string | undefined;
}

/** A worker on another screen. */
export interface PeerView {
  readonly worker: WorkerId;
  /** What people call it. */
  readonly name?: string | undefined;
  readonly state: 'training' | 'sent' | 'away';
  readonly round: number;
  /** State digest at the start of that round. */
  readonly digest?: Digest | undefined;
  /** Bytes of all events of its newest gradient. */
  readonly sentBytes?: number | undefined;
}

export const createWorkerView = (name: string): WorkerView => ({
  name,
  phase: 'starting',
  round: 0,
  step: 0,
  steps: 0,
  have: 0,
  missing: [],
  losses: emptyCurve,
});

export function foldWorker(before: WorkerView, event: RunEvent): WorkerView {
  switch (event.type) {
    case 'hello':
      return helloOf(before, event);
    case 'waiting': {
      const { want: _, ...rest } = before;
      const { what, round, have, want, missing } = event;
      const phase = what === 'workers' ? 'joining' : 'collecting';
      return { ...rest, phase, round, have, missing, ...(want !== undefined && { want }) };
    }
    case 'progress': {
      const { round, step, steps, loss, tokensPerSecond } = event;
      const losses = addPoint(before.losses, loss);
      return { ...before, phase: 'training', round, step, steps, loss, losses, tokensPerSecond };
    }
    case 'trained': {
      const { round, loss, tokens, seconds } = event;
      // without progress events, the round's mean loss is the newest known
      const isKnown = before.round === round && before.step > 0;
      return {
        ...before,
        phase: 'sending',
        round,
        step: before.steps,
        ...(isKnown ? {} : { loss, losses: addPoint(before.losses, loss) }),
        ...(seconds > 0 ? { tokensPerSecond: tokens / seconds } : {}),
      };
    }
    case 'transfer': {
      const { have, of } = event;
      return { ...before, moved: { have, of } };
    }
    case 'published': {
      const { eventBytes: sentBytes } = event;
      // a slow relay may answer after the worker has entered another phase
      if (before.phase !== 'sending' || before.round !== event.round)
        return { ...before, sentBytes };
      const idle = { have: 0, want: undefined, moved: undefined, missing: [] };
      return { ...before, ...idle, phase: 'collecting', sentBytes };
    }
    case 'round':
      return { ...before, phase: 'starting', round: event.index + 1, step: 0, moved: undefined };
    case 'done':
      return { ...before, phase: 'done', round: event.rounds, step: before.steps };
    case 'failed':
      return { ...before, phase: 'failed', failure: event.message };
    default:
      return before;
  }
}

/** Returns the view of a worker that has started or restarted. */
function helloOf(
  { name, losses }: WorkerView,
  { worker, round, innerSteps }: Extract<RunEvent, { type: 'hello' }>,
): WorkerView {
  const start = { step: 0, steps: innerSteps, have: 0, missing: [] };
  return { name, phase: 'starting', worker, round, losses, ...start };
}

/** Adds an event of another worker. A known gradient is not replaced by a heartbeat of the same round. */
export function foldPeer(
  peers: readonly PeerView[],
  { worker, name, state, round, digest, eventBytes }: Extract<RunEvent, { type: 'peer' }>,
): readonly PeerView[] {
  const at = peers.findIndex((peer) => peer.worker === worker);
  const before = peers[at];
  const isOld = before !== undefined && before.round > round;
  const keeps = state === 'training' && before?.state === 'sent' && before.round === round;
  const peer: PeerView = {
    ...(isOld && state === 'sent'
      ? { worker, state: before.state, round: before.round }
      : { worker, state: keeps ? 'sent' : state, round }),
    name: name ?? before?.name,
    digest: digest ?? before?.digest,
    sentBytes: eventBytes ?? before?.sentBytes,
  };
  return at < 0 ? [...peers, peer] : peers.with(at, peer);
}

export interface Curve {
  /** Finished points, each the mean of `stride` values. */
  readonly points: readonly number[];
  readonly stride: number;
  /** Sum and number of the values after the last finished point. */
  readonly sum: number;
  readonly count: number;
}

/** Maximum number of points; above it, neighbors are averaged. */
const MAX_POINTS = 128;

export const emptyCurve: Curve = { points: [], stride: 1, sum: 0, count: 0 };

export function addPoint(curve: Curve, value: number): Curve {
  const sum = curve.sum + value;
  const count = curve.count + 1;
  if (count < curve.stride) return { ...curve, sum, count };
  const points = [...curve.points, sum / count];
  if (points.length < MAX_POINTS) return { ...curve, points, sum: 0, count: 0 };
  const halved = Array.from(
    { length: MAX_POINTS / 2 },
    (_, i) => (points[2 * i]! + points[2 * i + 1]!) / 2,
  );
  return { points: halved, stride: 2 * curve.stride, sum: 0, count: 0 };
}

/** Returns all points, including the unfinished one. */
export const pointsOf = ({ points, sum, count }: Curve): readonly number[] =>
  count === 0 ? points : [...points, sum / count];
