/**
 * The inner phase of a round: runs H optimizer steps, computes the delta, packs and signs it ("seals" it), and saves it
 * before it is published. Also saves unfinished phases at intervals, so that a restart continues to the same bits.
 */
import type { Clock } from '../base/async.ts';
import { toHex, utf8 } from '../base/bytes.ts';
import { createSha256 } from '../base/hash.ts';
import { deriveKey } from '../base/rng.ts';
import { manifestTelemetry } from '../run/contribution.ts';
import type { WorkerId } from '../run/ids.ts';
import type { LocalSteps } from '../run/settings.ts';
import type { Vector } from '../tensor/params.ts';
import { decodeSafetensors, encodeSafetensors } from '../tensor/safetensors.ts';
import type { Plan } from './plan.ts';
import type { HalfPhase, Keeping, Session, Trainer, TrainingResult, TrainTask } from './ports.ts';
import { deltaOf, takeSent } from './residual.ts';
import { isSealed, measuredBefore, type SealedState, type WorkerState } from './state.ts';
import type { RoundStart } from './strategy.ts';

/** Returns the round's gradient, saved before it is published; undefined if this worker does not train in the round. */
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

/** Start of an inner phase: everything its result depends on, apart from the data. */
export interface InnerStart
  extends Pick<TrainTask, 'round' | 'params' | 'moments' | 'trains' | 'without'> {
  readonly residual: Float64Array;
  /** Worker whose batches are drawn. */
  readonly worker: WorkerId;
  /** Number of steps; default from the plan. */
  readonly steps?: number;
}

export interface InnerEnd {
  readonly trained: TrainingResult;
  /** Delta to pack: before - after, plus the residual if the run uses feedback. */
  readonly delta: Float64Array;
}

const innerStart = (state: WorkerState, worker: WorkerId): InnerStart => ({
  ...state,
  params: state.params.values,
  worker,
});

type PhasePlan = Pick<Plan, 'innerSteps' | 'seed' | 'residual'>;

const taskOf = (start: InnerStart, plan: Pick<Plan, 'innerSteps' | 'seed'>): TrainTask => ({
  params: start.params.slice(),
  moments: start.moments,
  trains: start.trains,
  without: start.without,
  ...stepsOf(start, plan),
});

/** Returns the steps of a phase, independent of its start. */
export const stepsOf = (
  { round, worker, steps }: Pick<InnerStart, 'round' | 'worker' | 'steps'>,
  { innerSteps, seed }: Pick<Plan, 'innerSteps' | 'seed'>,
): Omit<TrainTask, 'params' | 'moments' | 'trains' | 'without'> => ({
  round,
  steps: steps ?? innerSteps,
  firstStep: round * innerSteps,
  batchKey: deriveKey('nostrain/batches', seed, worker),
});

type Guidance = Pick<TrainTask, 'remainingSteps' | 'keeping'>;

async function guidanceOf(
  task: TrainTask,
  { plan: { localSteps }, ports }: Session,
  keeper: PhaseKeeper,
): Promise<Guidance> {
  const keeping = await keeper.keepingOf(task);
  if (localSteps.innerSeconds === 0) return { keeping };
  return {
    keeping,
    remainingSteps: remainingStepsIn(localSteps, ports.clock, keeping?.from?.seconds),
  };
}

/**
 * Returns a function that estimates how many more steps fit, from the time of the previous ones; restarts do not count.
 */
export function remainingStepsIn(
  { innerSeconds, leastSteps }: LocalSteps,
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

/** Runs the inner phase from the shared parameters. */
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

/** Trains and seals the gradient; sends nothing. */
async function trainAndSeal<S extends WorkerState>(
  state: S,
  start: RoundStart,
  session: Session,
  keeper: PhaseKeeper,
): Promise<SealedState<S>> {
  const { base, sliceDigests, roster, assignment, parent, keepsDelta, commit } = start;
  const { trains, without } = start;
  const { plan, ports, signal } = session;
  const { trainer, wire, report } = ports;
  const { round } = state;
  const { trained, delta } = await innerPhase(
    { ...innerStart(state, wire.me), trains, without },
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

  const fields = { round, base, assignment, parent, steps, examples };
  const { tier } = plan;
  const features = {
    ...manifestTelemetry(loss, trainer.device, measuredBefore(state)),
    ...(sliceDigests && {
      widths: { rings: sliceDigests, ...(tier !== undefined && { tier }) },
    }),
    ...(await commit?.({ delta, moments: trained.moments })),
  };
  const { sent, ...sealed } = await wire.seal({ ...fields, features, prev: state.lastSent, delta });
  // takeSent changes the delta in place
  const unpacked = keepsDelta ? { unpacked: Float64Array.from(delta) } : {};
  const { residual, share } = takeSent(delta, sent, plan.residual);
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

const LEAST_MS = 5000;
/** Saving may take at most one part in this many of the time. */
const KEEPING_SHARE = 50;
/** Assumed disk speed in bytes per millisecond before the first save. */
const BYTES_PER_MS = 100_000;

const FORMAT = { format: 'nostrain-phase', version: '1' };

/** Saves the inner phases of one session, one after the other. */
export class PhaseKeeper {
  readonly #session: Session;
  /** Phase that an earlier session left; used only by the first phase of this one. */
  #left: Promise<StoredPhase | undefined> | undefined;
  #costMs: number | undefined;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Reports whether an earlier session left this phase unfinished. */
  async isLeft(task: TrainTask): Promise<boolean> {
    return (await this.#leftOf(() => this.#digestOf(task))) !== undefined;
  }

  /** Returns how to save this phase and where it was left; undefined if the store saves no phases. */
  async keepingOf(task: TrainTask): Promise<Keeping | undefined> {
    const { clock, store } = this.#session.ports;
    const { phase } = store;
    if (!phase) return undefined;
    let digest: string | undefined;
    const digestOf = () => {
      digest ??= this.#digestOf(task);
      return digest;
    };
    const from = await this.#leftOf(digestOf);
    this.#left = Promise.resolve(undefined);
    let keptMs = clock.now();
    let checkedMs = keptMs;
    const vectors = 1 + Math.max(2, task.moments.length - 1);
    const guessMs = (4 * vectors * task.params.length) / BYTES_PER_MS;
    return {
      from,
      isDue: () => {
        checkedMs = clock.now();
        return checkedMs - keptMs >= Math.max(LEAST_MS, KEEPING_SHARE * (this.#costMs ?? guessMs));
      },
      keep: async (half) => {
        await phase.save(encodePhase(half, digestOf(), this.#hash));
        keptMs = clock.now();
        this.#costMs = keptMs - checkedMs;
      },
    };
  }

  async #leftOf(digestOf: () => string): Promise<HalfPhase | undefined> {
    this.#left ??= this.#load();
    const left = await this.#left;
    return left && left.digest === digestOf() ? left.half : undefined;
  }

  async #load(): Promise<StoredPhase | undefined> {
    const bytes = await this.#session.ports.store.phase?.load();
    return bytes && decodePhase(bytes, this.#hash);
  }

  /** Returns a digest of everything that the result depends on, except the data, which run and shard fix. */
  #digestOf({ params, moments, round, steps, firstStep, batchKey }: TrainTask): string {
    const { plan, ports } = this.#session;
    const { device, origin } = ports.trainer;
    const context = { run: plan.run, rounds: plan.rounds, pace: plan.localSteps, device, origin };
    const task = { round, steps, firstStep, batchKey, sizes: moments.map(({ length }) => length) };
    return this.#hash(utf8(JSON.stringify({ ...context, ...task })), params, ...moments);
  }

  readonly #hash: Hash = (...parts) => {
    const hash = (this.#session.ports.createSha256 ?? createSha256)();
    for (const { buffer, byteOffset, byteLength } of parts)
      hash.update(new Uint8Array(buffer, byteOffset, byteLength));
    return toHex(hash.digest());
  };
}

type Hash = (...parts: readonly ArrayBufferView[]) => string;

interface StoredPhase {
  readonly digest: string;
  readonly half: HalfPhase;
}

function encodePhase({ done, vectors, losses, seconds }: HalfPhase, digest: string, hash: Hash) {
  const tensors = [losses, ...vectors].map((values, i) => {
    return { name: `${i}`, shape: [values.length], values };
  });
  const metadata = { ...FORMAT, digest, done: `${done}`, seconds: `${seconds}` };
  return encodeSafetensors({
    tensors,
    metadata: { ...metadata, hash: hash(losses, ...vectors) },
  });
}

/** Decodes a saved phase; undefined if it is incomplete, which only costs time. */
function decodePhase(bytes: Uint8Array, hash: Hash): StoredPhase | undefined {
  const read = decodeSafetensors(bytes);
  if (!read.ok) return undefined;
  const { tensors, metadata } = read.value;
  const [losses, ...vectors] = tensors.map(({ values }) => Float32Array.from(values));
  const { digest = '', done, seconds } = metadata;
  const half = { done: Number(done), vectors, losses: losses!, seconds: Number(seconds) };
  const isWhole =
    metadata.format === FORMAT.format &&
    metadata.version === FORMAT.version &&
    losses?.length === half.done &&
    half.done > 0 &&
    Number.isFinite(half.seconds) &&
    metadata.hash === hash(losses, ...vectors);
  return isWhole ? { digest, half } : undefined;
}
