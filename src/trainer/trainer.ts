/** Trains on onnxruntime, in calls of about a second on threads of their own, so that the caller stays responsive. */
import { ConfigError, TrainingError } from '../base/errors.ts';
import { type AnyModel, dataFormOf, modelOf } from '../model/architectures/table.ts';
import { countParts, drawRows, evenRows } from '../model/batches.ts';
import { type OpenStored, storeTokens } from '../model/data/tokens.ts';
import type { CheckedData, DataName } from '../model/forms/form.ts';
import { rulesOf, tokensPerRow } from '../model/forms/table.ts';
import type { Half } from '../model/graph/lower.ts';
import { hasGivenUp } from '../model/loss.ts';
import { TRAINED, trainedMask } from '../model/optimizers/frozen.ts';
import { continueText } from '../model/sample.ts';
import { compileTraining } from '../model/training-program.ts';
import { allFinite, type Vector } from '../tensor/params.ts';
import type { TrainProgress } from '../worker/events.ts';
import type {
  EvaluationOptions,
  HalfPhase,
  RowDraw,
  Trainer as TrainerPort,
  TrainingResult,
  TrainTask,
} from '../worker/ports.ts';
import type { Device } from './messages.ts';
import {
  checkFirstLosses,
  checkSetup,
  frozenOf,
  type Opening,
  type OpenTrainer,
  type TrainerSetup,
} from './setup.ts';
import { openReader } from './text-reader.ts';

export interface TrainerDevice {
  readonly device: Device;
  readonly threads: number;
  /** Type of matrix products in training; default f32. */
  readonly half?: Half;
  /** Explains why an unexpected device is used. */
  readonly notice?: string;
}

/** A trainer over onnxruntime. */
export interface EngineTrainer extends TrainerPort {
  readonly device: TrainerDevice;
  /** Number of moment vectors after the first inner phase; the last one counts the steps taken. */
  readonly momentSlots: number;
  train(...task: Parameters<TrainerPort['train']>): Promise<TrainedSingle>;
  /** Returns the model's output for one row: a forecast, or logits. */
  predict(params: Vector, inputs: Float32Array): Promise<Float32Array>;
}

/** Batches per engine call in an evaluation. */
const BATCHES_PER_CALL = 4;

/** The environment of a trainer: Node.js or a browser. */
export interface TrainerHost {
  /** Default number of threads. */
  readonly threads: number;
  readonly openStored: OpenStored;
  /** Opens the engine. Throws `training/no-device` if the device was named and does not work. */
  open(wanted: TrainerSetup['device'], opening: Opening): Promise<OpenTrainer>;
}

/**
 * Starts the trainer threads and loads the model. Throws `training/no-device`, or a ConfigError if the data does not
 * fit the model.
 */
export async function createTrainerOn(
  host: TrainerHost,
  given: TrainerSetup,
): Promise<EngineTrainer> {
  const setup = { ...given, checked: checkSetup(given, host.openStored) };
  const { model, optimizer, batch, recompute = false, accumulate = 1, precision = 'f32' } = setup;
  const { masked, feeds } = setup.checked;
  const threads = setup.threads ?? host.threads;
  const isWhole = accumulate > 1 || precision !== 'f32';
  const opened = await host.open(setup.device, {
    compile: (rows, target) =>
      compileTraining(model, optimizer, rows, { target, recompute, accumulate, masked, precision }),
    data: feeds,
    masked,
    frozen: () => frozenOf(setup),
    isUserModel: model.architecture === 'own',
    batch,
    parts: isWhole ? 1 : countParts(model, batch),
    threads,
    ...(precision !== 'f32' && { half: precision }),
  });
  const { engine, program, device, notice } = opened;
  await checkFirstLosses(model, setup.checked, engine).catch(async (error: unknown) => {
    await engine.close();
    throw error;
  });
  const moments = program.optimizer.moments.length;
  // the loss scale of f16 is kept from one phase to the next, and stays local to this worker
  const scaling = program.state.slice(1 + moments).map(({ first }) => first());
  // inner phases run one at a time; between two of their calls other tasks may use the engine
  const queuePhase = createTaskQueue();
  const withEngine = createTaskQueue();
  const measured = (...[params, on, options]: Parameters<TrainerPort['evaluate']>) =>
    withEngine(() => evaluate(setup, opened, params, on, options));
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
    evaluate: async (...args) => (await measured(...args)).loss,
    ...(modelOf(model).hits && {
      accuracy: async (...args: Parameters<TrainerPort['evaluate']>) =>
        (await measured(...args)).accuracy,
    }),
    predict: (params, inputs) =>
      withEngine(async () => {
        await engine.setParams(asFloat32(params));
        const { shape } = rulesOf(dataFormOf(model)).single('f32');
        return engine.forward({ elements: inputs, shape });
      }),
    measure: (params, on, draw) => withEngine(() => measure(setup, opened, params, on, draw)),
    sample: (params, request, onToken) =>
      withEngine(async () => {
        await engine.setParams(params);
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

/** Returns the mean loss over evenly spaced rows without overlap, in f64, and the share classified correctly. */
async function evaluate(
  setup: OpenedSetup,
  { engine }: OpenTrainer,
  params: Vector,
  on: DataName,
  { batches = Infinity, onProgress }: EvaluationOptions = {},
): Promise<{ readonly loss: number; readonly accuracy: number }> {
  const { batch, checked } = setup;
  const rows = checked.evaluationRows(
    on,
    evenRows(checked.bound(on), checked.stride, batches * batch),
  );
  if (rows.length === 0) throw tooShort(on);
  await engine.setParams(asFloat32(params));
  let [sum, weight, right] = [0, 0, 0];
  for (let at = 0; at < rows.length; at += BATCHES_PER_CALL * batch) {
    const part = rows.subarray(at, at + BATCHES_PER_CALL * batch);
    const { losses, counts, hits } = await lossesOf(engine, on, part);
    for (let i = 0; i < part.length; i++) {
      sum += losses[i]! * counts[i]!;
      weight += counts[i]!;
      right += hits?.[i] ?? 0;
    }
    const batchesDone = Math.ceil(Math.min(at / batch + BATCHES_PER_CALL, rows.length / batch));
    onProgress?.({
      batch: batchesDone,
      batches: Math.ceil(rows.length / batch),
      loss: sum / weight,
    });
  }
  return { loss: sum / weight, accuracy: right / weight };
}

/** Returns the loss of each row drawn with a key; 0 for a row without counted tokens. */
async function measure(
  { checked }: OpenedSetup,
  { engine }: OpenTrainer,
  params: Vector,
  on: DataName,
  { key, rows: batch }: RowDraw,
): Promise<Float32Array> {
  const bound = checked.bound(on);
  if (bound < 1) throw tooShort(on);
  await engine.setParams(asFloat32(params));
  const drawn = drawRows({ key, round: 0, firstStep: 0, steps: 1, batch, bound });
  const { losses, counts } = await lossesOf(engine, on, checked.offsetsOf(on, drawn));
  return Float32Array.from(drawn, (_, i) => (counts[i]! > 0 ? losses[i]! : 0));
}

/** Evaluates rows with the current parameters. Pads them with row 0; its results come after those of the rows. */
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

/** The setup, with its data checked and in the form that the model reads. */
export type OpenedSetup = TrainerSetup & { readonly checked: CheckedData };

/** Target duration of one call into onnxruntime: progress, heartbeats and Ctrl-C wait for it. */
const CALL_SECONDS = 1;

/** Converts parameters to f32, the type of the graphs. */
const asFloat32 = (params: Vector): Float32Array =>
  params instanceof Float32Array ? params : Float32Array.from(params);

interface Training {
  readonly withEngine: <T>(task: () => Promise<T>) => Promise<T>;
  readonly signal: AbortSignal;
  /** Loss-scaling state, which training updates along with parameters and moments. */
  readonly scaling: readonly Float32Array[];
  onProgress(progress: TrainProgress): void;
}

/** Takes the steps of a task, until all are done or `remainingSteps` returns 0. */
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
  const mask = optimizer.moments.indexOf(TRAINED);
  if (mask >= 0) vectors[mask] = trainedMask(layout.size, task.trains);
  signal.throwIfAborted();
  const losses = new Float32Array(steps);
  let { done, seconds, vectors: state } = beginningOf(task, { vectors, scaling }, losses);
  await engine.begin(state);
  let stepsPerCall = 1;
  for (;;) {
    signal.throwIfAborted();
    const remaining = task.remainingSteps?.(done) ?? Infinity;
    const count = Math.min(stepsPerCall, steps - done, Math.max(done === 0 ? 1 : 0, remaining));
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
    stepsPerCall = Math.max(1, Math.floor((CALL_SECONDS * count) / Math.max(part.seconds, 1e-6)));
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
  const allMoments = moments.length === 0 ? [] : [...moments, Float32Array.of(seen + done)];
  const taken = { steps: done, losses: losses.slice(0, done), examples: done * batch };
  return { params: params!, moments: allMoments, ...taken, seconds };
}

/** Returns the state to start from: of the whole phase, or where a saved half phase stopped. Restores its losses. */
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

/** Draws the rows of the next steps. */
function rowsOf(
  { checked, batch }: OpenedSetup,
  { batchKey: key, round, without }: TrainTask,
  { done: firstStep, count: steps }: { readonly done: number; readonly count: number },
): Int32Array {
  const bound = checked.bound('shard');
  const drawn = drawRows({ key, round, firstStep, steps, batch, bound });
  return checked.offsetsOf('shard', drawn, without);
}

/** Returns the optimizer's moments and the steps they have seen; zeros before the first step. */
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
  new TrainingError('training/not-finite', `${what} is not finite at step ${step}`, {
    hint: 'lower the learning rate, or clip the gradient norm',
    data: { step },
  });

function requireFinite(losses: Float32Array, firstStep: number): void {
  const at = losses.findIndex((loss) => !Number.isFinite(loss));
  if (at >= 0) throw notFinite(firstStep + at, 'the loss');
}

/** Saves the loss-scaling state. Throws if gradients overflow even at the smallest scale. */
function keepScaling(scaling: readonly Float32Array[], after: readonly Float32Array[]): void {
  scaling.forEach((vector, i) => {
    vector.set(after[i]!);
    if (!hasGivenUp(vector)) return;
    throw new TrainingError(
      'training/not-finite',
      'gradients overflow f16 even with the smallest loss scale',
      {
        hint: 'leave --precision out, or use bf16 if the device supports it',
      },
    );
  });
}

function requireFiniteParams(params: Float32Array, step: number): void {
  if (!allFinite(params)) throw notFinite(step, 'a parameter');
}
