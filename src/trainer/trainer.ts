/** Training on onnxruntime: inner phases in short slices on a thread of their own, so that the caller stays live. */
import { ConfigError, TrainingError } from '../base/errors.ts';
import { type AnyModel, dataFormOf, modelOf } from '../model/architectures/table.ts';
import { countParts, drawRows, evenRows } from '../model/batches.ts';
import { type OpenStored, storeTokens } from '../model/data/tokens.ts';
import type { CheckedData, DataName } from '../model/forms/form.ts';
import { rulesOf, tokensPerRow } from '../model/forms/table.ts';
import type { Half } from '../model/graph/lower.ts';
import { hasGivenUp } from '../model/loss.ts';
import { continueText } from '../model/sample.ts';
import { compileTraining } from '../model/training-program.ts';
import type { Vector } from '../tensor/params.ts';
import type {
  HalfPhase,
  RowDraw,
  Trainer as TrainerPort,
  TrainingResult,
  TrainProgress,
  TrainTask,
} from '../worker/ports.ts';
import type { Device } from './messages.ts';
import {
  checkFirstLosses,
  frozenOf,
  holdSetup,
  type Opening,
  type OpenTrainer,
  type TrainerSetup,
} from './setup.ts';
import { openReader } from './text-reader.ts';

export interface TrainerDevice {
  readonly device: Device;
  readonly threads: number;
  /** What products of training are in, where not in f32. */
  readonly half?: Half;
  /** Why it is not the device one might have expected. */
  readonly notice?: string;
}

export interface EngineTrainer extends TrainerPort {
  readonly device: TrainerDevice;
  /** Moment vectors after the first inner phase; the last one counts the steps they have seen. */
  readonly momentSlots: number;
  train(...task: Parameters<TrainerPort['train']>): Promise<TrainedSingle>;
  /** What the model makes of one row: a forecast, or logits. */
  predict(params: Vector, inputs: Float32Array): Promise<Float32Array>;
}

/** Batches per call while evaluating. */
const EVALUATED_AT_ONCE = 4;

/** What trains on one kind of machine. */
export interface TrainerHost {
  /** Threads where the setup says nothing. */
  readonly threads: number;
  readonly openStored: OpenStored;
  /** Throws `training/no-device` when a device was named and does not work. */
  open(wanted: TrainerSetup['device'], opening: Opening): Promise<OpenTrainer>;
}

/**
 * Starts trainer threads and loads the model. Throws `training/no-device`, or a `ConfigError` if the data does not fit.
 */
export async function createTrainerOn(
  host: TrainerHost,
  given: TrainerSetup,
): Promise<EngineTrainer> {
  const setup = { ...given, held: holdSetup(given, host.openStored) };
  const { model, optimizer, batch, recompute = false, accumulate = 1, precision = 'f32' } = setup;
  const { masked, feeds } = setup.held;
  const threads = setup.threads ?? host.threads;
  const isWhole = accumulate > 1 || precision !== 'f32';
  const opened = await host.open(setup.device, {
    compile: (rows, target) =>
      compileTraining(model, optimizer, rows, { target, recompute, accumulate, masked, precision }),
    data: feeds,
    masked,
    frozen: () => frozenOf(setup),
    isOwn: model.architecture === 'own',
    batch,
    parts: isWhole ? 1 : countParts(model, batch),
    threads,
    ...(precision !== 'f32' && { half: precision }),
  });
  const { engine, program, device, notice } = opened;
  await checkFirstLosses(model, setup.held, engine).catch(async (error: unknown) => {
    await engine.close();
    throw error;
  });
  const moments = program.optimizer.moments.length;
  // of the loss, in f16: what one phase found out holds for the next, and nobody else hears of it
  const scaling = program.state.slice(1 + moments).map(({ first }) => first());
  // inner phases come one after the other; between two of their slices others may use the engine
  const queuePhase = createTaskQueue();
  const withEngine = createTaskQueue();
  const measured = (...[params, on, limit]: Parameters<TrainerPort['evaluate']>) =>
    withEngine(() => evaluate(setup, opened, params, on, limit?.batches ?? Infinity));
  return {
    device: {
      device,
      threads,
      ...(precision !== 'f32' && { half: precision }),
      ...(notice === undefined ? {} : { notice }),
    },
    layout: program.layout,
    momentSlots: moments === 0 ? 0 : moments + 1,
    train: (task, onProgress, signal) =>
      queuePhase(() => train(setup, opened, task, { onProgress, withEngine, signal, scaling })),
    evaluate: async (params, on, limit) => (await measured(params, on, limit)).loss,
    ...(modelOf(model).hits && {
      accuracy: async (...asked: Parameters<TrainerPort['evaluate']>) =>
        (await measured(...asked)).accuracy,
    }),
    predict: (params, inputs) =>
      withEngine(async () => {
        await engine.hold(asFloat32(params));
        const { shape } = rulesOf(dataFormOf(model)).single('f32');
        return engine.forward({ elements: inputs, shape });
      }),
    measure: (params, on, draw) => withEngine(() => measure(setup, opened, params, on, draw)),
    sample: (params, request, onToken) =>
      withEngine(async () => {
        await engine.hold(params);
        const reader = await openReader(setup, engine, program.layout);
        const tokens = request.prompt.length === 0 ? [0] : Array.from(request.prompt);
        for await (const token of continueText(reader, request)) {
          tokens.push(token);
          onToken?.(token);
        }
        return storeTokens(tokens, vocabularyOf(model));
      }),
    close: () => engine.close(),
  };
}

type TaskQueue = <T>(task: () => Promise<T>) => Promise<T>;

/** Returns a queue that runs tasks one at a time, in the order they were submitted. */
function createTaskQueue(): TaskQueue {
  let last: Promise<unknown> = Promise.resolve();
  return (task) => {
    const result = last.then(task);
    last = result.catch(() => undefined);
    return result;
  };
}

function vocabularyOf(model: AnyModel): number {
  const form = dataFormOf(model);
  return form.kind === 'tokens' ? form.vocabulary : 0;
}

/** Mean loss over evenly spaced rows that share nothing, in f64, and the share of them that is right. */
async function evaluate(
  setup: OpenedSetup,
  { engine }: OpenTrainer,
  params: Vector,
  on: DataName,
  batches: number,
): Promise<{ readonly loss: number; readonly accuracy: number }> {
  const { batch, held } = setup;
  const rows = held.evaluationRows(on, evenRows(held.bound(on), held.stride, batches * batch));
  if (rows.length === 0) throw tooShort(on);
  await engine.hold(asFloat32(params));
  let [sum, weight, right] = [0, 0, 0];
  for (let at = 0; at < rows.length; at += EVALUATED_AT_ONCE * batch) {
    const part = rows.subarray(at, at + EVALUATED_AT_ONCE * batch);
    const { losses, counts, hits } = await lossesOf(engine, on, part);
    for (let i = 0; i < part.length; i++) {
      sum += losses[i]! * counts[i]!;
      weight += counts[i]!;
      right += hits?.[i] ?? 0;
    }
  }
  return { loss: sum / weight, accuracy: right / weight };
}

/** One loss for each of the rows that a key draws; 0 where nothing of a row counts. */
async function measure(
  { held }: OpenedSetup,
  { engine }: OpenTrainer,
  params: Vector,
  on: DataName,
  { key, rows: batch }: RowDraw,
): Promise<Float32Array> {
  const bound = held.bound(on);
  if (bound < 1) throw tooShort(on);
  await engine.hold(asFloat32(params));
  const drawn = drawRows({ key, round: 0, firstStep: 0, steps: 1, batch, bound });
  const { losses, counts } = await lossesOf(engine, on, held.offsetsOf(on, drawn));
  return Float32Array.from(drawn, (_, i) => (counts[i]! > 0 ? losses[i]! : 0));
}

/** The losses of rows, by the parameters that are held. Filled up with row 0, whose losses come after theirs. */
function lossesOf(engine: OpenTrainer['engine'], on: DataName, rows: Int32Array) {
  const padded = new Int32Array(Math.ceil(rows.length / engine.rows) * engine.rows);
  padded.set(rows);
  return engine.evaluate({ on, rows: padded });
}

const tooShort = (on: DataName): ConfigError =>
  new ConfigError('training/data', `the ${on} data is too short to evaluate on`, {
    hint: 'train on more data (--corpus FILE), or with a smaller --batch-size or --context',
  });

export type TrainedSingle = TrainingResult & { readonly params: Float32Array };

/** The setup, with its data as the model reads it. */
export type OpenedSetup = TrainerSetup & { readonly held: CheckedData };

/** How long one call into onnxruntime should take: progress, heartbeats and Ctrl-C wait for it. */
const SLICE_SECONDS = 1;

/** What the graphs hold. */
const asFloat32 = (params: Vector): Float32Array =>
  params instanceof Float32Array ? params : Float32Array.from(params);

interface Training {
  readonly withEngine: <T>(task: () => Promise<T>) => Promise<T>;
  readonly signal: AbortSignal;
  /** State beside parameters and moments, which training moves. */
  readonly scaling: readonly Float32Array[];
  onProgress(progress: TrainProgress): void;
}

/** Runs steps until all are taken, or `remainingSteps` of the task is 0. */
async function train(
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
    const remaining = task.remainingSteps?.(done) ?? Infinity;
    const count = Math.min(slice, steps - done, Math.max(done === 0 ? 1 : 0, remaining));
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
  return held.offsetsOf('shard', drawRows({ key, round, firstStep, steps, batch, bound }));
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
