/** The workers of this screen, which report everything; and other workers, as they are heard of. */
import type { RunEvent } from '../certified/rounds/events.ts';
import type { Digest, WorkerId } from '../run/ids.ts';

type Phase = 'starting' | 'joining' | 'training' | 'sending' | 'collecting' | 'done' | 'failed';

export interface WorkerView {
  readonly name: string;
  readonly phase: Phase;
  readonly worker?: WorkerId | undefined;
  /** From 0; equal to the number of rounds when there is none left. */
  readonly round: number;
  readonly step: number;
  readonly steps: number;
  /** Workers or gradients it has while joining or collecting, and how many it waits for. */
  readonly have: number;
  readonly want?: number | undefined;
  /** Who it waits for, as far as they are known. */
  readonly missing: readonly WorkerId[];
  /** All event JSON of its newest gradient. */
  readonly sentBytes?: number | undefined;
  /** Transfer progress: chunks sent or fetched so far, and how many there are. */
  readonly moved?: { readonly have: number; readonly of: number } | undefined;
  /** The newest training loss, and all of them. */
  readonly loss?: number | undefined;
  readonly losses: Curve;
  readonly tokensPerSecond?: number | undefined;
  readonly failure?: string | undefined;
}

/** A worker on another screen. */
export interface PeerView {
  readonly worker: WorkerId;
  readonly state: 'training' | 'sent' | 'away';
  readonly round: number;
  /** What it starts that round from. */
  readonly digest?: Digest | undefined;
  /** All event JSON of its newest gradient. */
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
      const { eventBytes: sentBytes } = event;
      // a slow relay may answer when the worker is long in another phase
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

/** A worker that starts, or starts again. */
function helloOf(
  { name, losses }: WorkerView,
  { worker, round, innerSteps }: Extract<RunEvent, { type: 'hello' }>,
): WorkerView {
  const start = { step: 0, steps: innerSteps, have: 0, missing: [] };
  return { name, phase: 'starting', worker, round, losses, ...start };
}

/** The others after one was heard of; a gradient that is here is not forgotten for a heartbeat of the same round. */
export function foldPeer(
  peers: readonly PeerView[],
  { worker, state, round, digest, eventBytes }: Extract<RunEvent, { type: 'peer' }>,
): readonly PeerView[] {
  const at = peers.findIndex((peer) => peer.worker === worker);
  const before = peers[at];
  const isOld = before !== undefined && before.round > round;
  const keeps = state === 'training' && before?.state === 'sent' && before.round === round;
  const peer: PeerView = {
    ...(isOld && state === 'sent'
      ? { worker, state: before.state, round: before.round }
      : { worker, state: keeps ? 'sent' : state, round }),
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

/** All points, the unfinished one included. */
export const pointsOf = ({ points, sum, count }: Curve): readonly number[] =>
  count === 0 ? points : [...points, sum / count];
