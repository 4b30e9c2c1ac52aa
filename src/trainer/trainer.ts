/** Training on onnxruntime: inner phases in short slices on a thread of their own, so that the caller stays live. */
import { ConfigError } from '../base/errors.ts';
import { type AnyModel, modelOf } from '../model/architectures/table.ts';
import { countParts, drawRows, evenRows } from '../model/batches.ts';
import type { OpenStored } from '../model/data/token-reader.ts';
import { storeTokens } from '../model/data/tokens.ts';
import { dataFormOf } from '../model/data-form.ts';
import type { DataName } from '../model/forms/form.ts';
import { rulesOf } from '../model/forms/table.ts';
import type { Half } from '../model/graph/half.ts';
import { continueText } from '../model/sample.ts';
import { compileTraining } from '../model/training-program.ts';
import type { Vector } from '../tensor/params.ts';
import type { RowDraw, Trainer as TrainerPort } from '../worker/ports.ts';
import { asFloat32, type OpenedSetup, type TrainedSingle, train } from './inner-phase.ts';
import type { Device } from './messages.ts';
import type { Opening, OpenTrainer } from './open.ts';
import { openReader } from './reading.ts';
import { checkFirstLosses, frozenOf, holdSetup, type TrainerSetup } from './setup.ts';

export interface TrainerDevice {
  readonly device: Device;
  readonly threads: number;
  /** What products of training are in, where not in f32. */
  readonly half?: Half;
  /** Why it is not the device one might have expected. */
  readonly notice?: string;
}

export interface Trainer extends TrainerPort {
  readonly device: TrainerDevice;
  /** Moment vectors after the first inner phase; the last one counts the steps they have seen, turn by turn. */
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

/** Starts the trainer threads of a machine and loads the model. Throws `training/no-device`, or a `ConfigError` for data that does not fit. */
export async function createTrainerOn(host: TrainerHost, given: TrainerSetup): Promise<Trainer> {
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
  const inTurn = createTurns();
  const withEngine = createTurns();
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
      inTurn(() => train(setup, opened, task, { onProgress, withEngine, signal, scaling })),
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

type Turns = <T>(task: () => Promise<T>) => Promise<T>;

/** Runs tasks one after the other, in the order they were asked for. */
function createTurns(): Turns {
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

/** Mean loss over evenly spaced rows that share nothing, and the share of them that is right; the f64 mean of all, also of a last partial batch. */
async function evaluate(
  setup: OpenedSetup,
  { engine }: OpenTrainer,
  params: Vector,
  on: DataName,
  batches: number,
): Promise<{ readonly loss: number; readonly accuracy: number }> {
  const { batch, held } = setup;
  const rows = held.spread(on, evenRows(held.bound(on), held.stride, batches * batch));
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
  const { losses, counts } = await lossesOf(engine, on, held.place(on, drawn));
  return Float32Array.from(drawn, (_, i) => (counts[i]! > 0 ? losses[i]! : 0));
}

/** The losses of rows, by the parameters that are held. Filled up with row 0, whose losses come after theirs. */
function lossesOf(engine: OpenTrainer['engine'], on: DataName, rows: Int32Array) {
  const padded = new Int32Array(Math.ceil(rows.length / engine.rows) * engine.rows);
  padded.set(rows);
  return engine.evaluate(on, padded);
}

const tooShort = (on: DataName): ConfigError =>
  new ConfigError('training/data', `the ${on} data is too short to evaluate on`, {
    hint: 'train on more data (--corpus FILE), or with a smaller --batch-size or --context',
  });
