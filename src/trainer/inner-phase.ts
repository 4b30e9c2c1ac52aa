/** The inner phase of a round on an engine: slices of steps, each short, and between two of them whatever the worker has to do. */
import { TrainingError } from '../base/errors.ts';
import { drawRows } from '../model/batches.ts';
import { tokensPerRow } from '../model/data-form.ts';
import type { HeldData } from '../model/forms/form.ts';
import { hasGivenUp } from '../model/loss-scaling.ts';
import type { Vector } from '../tensor/params.ts';
import type { HalfPhase, TrainingResult, TrainProgress, TrainTask } from '../worker/ports.ts';
import type { OpenTrainer } from './open.ts';
import type { TrainerSetup } from './setup.ts';

export type TrainedSingle = TrainingResult & { readonly params: Float32Array };

/** The setup, with its data as the model reads it. */
export type OpenedSetup = TrainerSetup & { readonly held: HeldData };

/** How long one call into onnxruntime should take: progress, heartbeats and Ctrl-C wait for it. */
const SLICE_SECONDS = 1;

/** What the graphs hold. */
export const asFloat32 = (params: Vector): Float32Array =>
  params instanceof Float32Array ? params : Float32Array.from(params);

interface Training {
  readonly withEngine: <T>(task: () => Promise<T>) => Promise<T>;
  readonly signal: AbortSignal;
  /** State beside parameters and moments, which training moves. */
  readonly scaling: readonly Float32Array[];
  onProgress(progress: TrainProgress): void;
}

/** Steps until they are taken, or the task has no room for more. */
export async function train(
  setup: OpenedSetup,
  { engine, program }: OpenTrainer,
  task: TrainTask,
  { onProgress, withEngine, signal, scaling }: Training,
): Promise<TrainedSingle> {
  const { optimizer, layout } = program;
  const { steps, firstStep, keeping } = task;
  const { batch, model } = setup;
  const tokensPerStep = batch * tokensPerRow(model);
  const { vectors, seen } = readMoments(task, optimizer.moments, layout.size);
  signal.throwIfAborted();
  const losses = new Float32Array(steps);
  let { done, seconds, vectors: state } = beginningOf(task, { vectors, scaling }, losses);
  await engine.begin(state);
  let slice = 1;
  for (;;) {
    signal.throwIfAborted();
    const room = task.room?.(done) ?? Infinity;
    const count = Math.min(slice, steps - done, Math.max(done === 0 ? 1 : 0, room));
    if (count <= 0) break;
    const rates = new Float32Array(count * optimizer.rateCount);
    for (let i = 0; i < count; i++) {
      rates.set(optimizer.rates(firstStep + done + i, seen + done + i), i * optimizer.rateCount);
    }
    const rows = rowsOf(setup, task, { done, count });
    const part = await withEngine(() => engine.advance({ rates, rows }));
    requireFinite(part.losses, firstStep + done);
    losses.set(part.losses, done);
    done += count;
    seconds += part.seconds;
    slice = Math.max(1, Math.floor((SLICE_SECONDS * count) / Math.max(part.seconds, 1e-6)));
    onProgress({
      step: done,
      steps,
      loss: part.losses.reduce((sum, loss) => sum + loss, 0) / count,
      tokensPerSecond: (count * tokensPerStep) / Math.max(part.seconds, 1e-6),
    });
    if (done < steps && keeping?.isDue()) {
      state = await engine.finish();
      await keeping.keep({ done, vectors: state, losses: losses.slice(0, done), seconds });
      await engine.begin(state);
    }
  }
  const [params, ...others] = await engine.finish();
  requireFiniteParams(params!, firstStep + done - 1);
  const moments = others.slice(0, vectors.length);
  keepScaling(scaling, others.slice(vectors.length));
  const counted = moments.length === 0 ? [] : [...moments, Float32Array.of(seen + done)];
  const taken = { steps: done, losses: losses.slice(0, done), examples: done * batch };
  return { params: params!, moments: counted, ...taken, seconds };
}

/** The beginning of the phase, or where it was left; losses of steps that were taken are put in their places. */
function beginningOf(
  { params, steps, keeping }: TrainTask,
  own: Readonly<Record<'vectors' | 'scaling', readonly Float32Array[]>>,
  losses: Float32Array,
): Pick<HalfPhase, 'done' | 'seconds' | 'vectors'> {
  const vectors = [asFloat32(params), ...own.vectors, ...own.scaling];
  const from = keeping?.from;
  const left = from?.vectors ?? [];
  const isOfThis =
    from?.losses.length === from?.done &&
    left.length === vectors.length &&
    left.every(({ length }, i) => length === vectors[i]!.length);
  if (!from || !isOfThis || from.done > steps) return { done: 0, seconds: 0, vectors };
  losses.set(from.losses);
  return { ...from, vectors: left };
}

/** The rows of the next steps. */
function rowsOf(
  { held, batch }: OpenedSetup,
  { batchKey: key, round }: TrainTask,
  { done: firstStep, count: steps }: { readonly done: number; readonly count: number },
): Int32Array {
  const bound = held.bound('shard');
  return held.place('shard', drawRows({ key, round, firstStep, steps, batch, bound }));
}

/** The optimizer's vectors and how many steps they have seen; zeros before the first step. */
function readMoments({ moments }: TrainTask, names: readonly string[], size: number) {
  if (moments.length === 0) return { vectors: names.map(() => new Float32Array(size)), seen: 0 };
  const vectors = moments.slice(0, -1);
  const counts = moments.at(-1)!;
  if (
    vectors.length !== names.length ||
    counts.length !== 1 ||
    vectors.some(({ length }) => length !== size)
  ) {
    throw new TrainingError(
      'training/moments',
      'these moments belong to another optimizer or model',
      { hint: 'start with empty moments' },
    );
  }
  return { vectors, seen: counts[0]! };
}

const notFinite = (step: number, what: string): TrainingError =>
  new TrainingError('training/not-finite', `at step ${step} ${what} stopped being finite`, {
    hint: 'lower the learning rate, or clip the gradient norm',
    data: { step },
  });

function requireFinite(losses: Float32Array, firstStep: number): void {
  const at = losses.findIndex((loss) => !Number.isFinite(loss));
  if (at >= 0) throw notFinite(firstStep + at, 'the loss');
}

/** Throws where every scale that was tried left gradients infinite. */
function keepScaling(scaling: readonly Float32Array[], after: readonly Float32Array[]): void {
  scaling.forEach((vector, i) => {
    vector.set(after[i]!);
    if (!hasGivenUp(vector)) return;
    throw new TrainingError('training/not-finite', 'gradients are larger than f16 has numbers', {
      hint: 'leave --precision out, or take bf16 where the device has it',
    });
  });
}

function requireFiniteParams(params: Float32Array, step: number): void {
  if (!params.every(Number.isFinite)) throw notFinite(step, 'a parameter');
}
