/** The inner phase of a round: H optimizer steps, the delta with what was left unsent before, and the gradient, signed and saved. */
import type { Clock } from '../base/async.ts';
import { deriveKey } from '../base/rng.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Pace } from '../run/pace.ts';
import { manifestTelemetry } from '../run/telemetry.ts';
import type { Vector } from '../tensor/params.ts';
import type { PhaseKeeper } from './half-phase.ts';
import type { Plan } from './plan.ts';
import type { Session, Trainer, TrainingResult, TrainTask } from './ports.ts';
import { deltaOf, localStart, takeSent } from './residual.ts';
import { isSealed, measuredBefore, type SealedState, type WorkerState } from './state.ts';
import type { RoundStart } from './strategy.ts';

/**
 * The gradient of the round: the one on disk after a restart, or a new one that is on disk before anybody sees it; undefined where this worker
 * does not train in the round, or only the rest of a phase was asked for, and there is none.
 */
export async function trainOrResume<S extends WorkerState>(
  state: S,
  start: RoundStart | undefined,
  session: Session,
  keeper: PhaseKeeper,
): Promise<SealedState<S> | undefined> {
  if (start === undefined) return undefined;
  if (isSealed(state)) return state;
  const inner = innerStart(state, session.ports.wire.me);
  if (start.onlyRest && !(await keeper.isLeft(taskOf(inner, session.plan)))) return undefined;
  const sealed = await trainAndSeal(state, start, session, keeper);
  await session.ports.store.save(sealed);
  return sealed;
}

/** Where an inner phase starts: everything that its end follows from, beside the data. */
export interface InnerStart {
  readonly round: number;
  /** The shared parameters. */
  readonly params: Vector;
  readonly residual: Float64Array;
  readonly moments: readonly Float32Array[];
  /** Whose batches are drawn. */
  readonly worker: WorkerId;
  /** Default as many as the plan says. */
  readonly steps?: number;
}

/** What an inner phase leads to. */
export interface InnerEnd {
  readonly trained: TrainingResult;
  /** What is packed: before - after, with what was left unsent before where the run adds it. */
  readonly delta: Float64Array;
}

const innerStart = (state: WorkerState, worker: WorkerId): InnerStart => ({
  ...state,
  params: state.params.values,
  worker,
});

type PhasePlan = Pick<Plan, 'innerSteps' | 'seed' | 'residual'>;

/** What an engine is asked for. */
const taskOf = (start: InnerStart, plan: PhasePlan): TrainTask => ({
  params: localStart(start.params, start.residual, plan.residual),
  moments: start.moments,
  ...stepsOf(start, plan),
});

/** The steps of a phase, wherever it begins. */
export const stepsOf = (
  { round, worker, steps }: Pick<InnerStart, 'round' | 'worker' | 'steps'>,
  { innerSteps, seed }: Pick<Plan, 'innerSteps' | 'seed'>,
): Omit<TrainTask, 'params' | 'moments'> => ({
  round,
  steps: steps ?? innerSteps,
  firstStep: round * innerSteps,
  batchKey: deriveKey('nostrain/batches', seed, worker),
});

/** What a worker has to say while an engine takes its steps. */
type Guidance = Pick<TrainTask, 'room' | 'keeping'>;

async function guidanceOf(
  task: TrainTask,
  { plan: { pace }, ports }: Session,
  keeper: PhaseKeeper,
): Promise<Guidance> {
  const keeping = await keeper.keepingOf(task);
  if (pace.innerSeconds === 0) return { keeping };
  return { keeping, room: roomIn(pace, ports.clock, keeping?.from?.seconds) };
}

/** How many more steps fit, by the time that those before them took; by the clock of the worker, restarts not counted. */
export function roomIn(
  { innerSeconds, leastSteps }: Pace,
  clock: Pick<Clock, 'now'>,
  secondsBefore = 0,
): (done: number) => number {
  const startedMs = clock.now() - 1000 * secondsBefore;
  return (done) => {
    if (done < leastSteps) return leastSteps - done;
    const seconds = (clock.now() - startedMs) / 1000;
    if (seconds >= innerSeconds) return 0;
    return seconds <= 0 ? Infinity : Math.round(((innerSeconds - seconds) * done) / seconds);
  };
}

/** H steps from the shared parameters, or from the local model ahead of them. */
export async function innerPhase(
  start: InnerStart,
  plan: PhasePlan,
  trainer: Pick<Trainer, 'train'>,
  onProgress: Parameters<Trainer['train']>[1],
  signal: AbortSignal,
  guide: (task: TrainTask) => Promise<Guidance> = async () => ({}),
): Promise<InnerEnd> {
  const { params, residual } = start;
  const task = taskOf(start, plan);
  const guided = { ...task, ...(await guide(task)) };
  const trained = await trainer.train(guided, onProgress, signal);
  return { trained, delta: deltaOf(params, trained.params, residual, plan.residual) };
}

/** Trains from the shared parameters and seals the gradient; nothing has been sent when this returns. */
async function trainAndSeal<S extends WorkerState>(
  state: S,
  start: RoundStart,
  session: Session,
  keeper: PhaseKeeper,
): Promise<SealedState<S>> {
  const { base, rings, roster, assignment, parent, keepsDelta, commit } = start;
  const { plan, ports, signal } = session;
  const { trainer, wire, report } = ports;
  const { round } = state;
  const { trained, delta } = await innerPhase(
    innerStart(state, wire.me),
    plan,
    trainer,
    (progress) => report({ type: 'progress', round, ...progress }),
    signal,
    (task) => guidanceOf(task, session, keeper),
  );
  const { examples, seconds, steps = plan.innerSteps } = trained;
  const tokens = examples * plan.tokensPerExample;
  const loss = mean(trained.losses);
  report({ type: 'trained', round, loss, tokens, seconds });

  const said = { round, base, assignment, parent, steps, examples };
  const own = plan.tiers?.own;
  const features = {
    ...manifestTelemetry(loss, trainer.device, measuredBefore(state)),
    ...(rings && { widths: { rings, ...(own !== undefined && { tier: own }) } }),
    ...(await commit?.({ delta, moments: trained.moments })),
  };
  const { sent, ...sealed } = await wire.seal({ ...said, features, prev: state.lastSent, delta });
  // takeSent changes the delta in place
  const unpacked = keepsDelta ? { unpacked: Float64Array.from(delta) } : {};
  const { residual, share } = takeSent(delta, sent, plan.residual, assignment.moving);
  return {
    ...state,
    ...unpacked,
    moments: trained.moments,
    residual,
    tokens: state.tokens + tokens,
    sent: {
      ...sealed,
      roster,
      trainingLoss: loss,
      secondsTraining: seconds,
      residualShare: share,
    },
  };
}

function mean(values: Vector): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}
