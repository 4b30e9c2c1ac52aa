/** Training by one thread with many steps in one Loop; `resident.ts` takes them one by one where a device has no Loop. */
import type { Tensor } from 'onnxruntime-common';
import type { DataSource } from './data-source.ts';
import type { Advance, Advanced, Device, SingleTraining } from './messages.ts';
import { floats, type Runtime, type Tensors, vector } from './runtime.ts';

/** What a trainer thread trains on: rows of its shard, and the model's frozen tensors. */
export interface ShardFeeds {
  readonly source: DataSource;
  readonly frozen: Tensors;
}

/** How a trainer thread moves the state. */
export interface Stepper {
  begin(vectors: readonly Float32Array[]): Promise<void>;
  advance(task: Advance): Promise<Advanced>;
  finish(): Promise<readonly Float32Array[]>;
}

export async function createSingleStepper(
  training: SingleTraining,
  device: Device,
  threads: number,
  { source, frozen }: ShardFeeds,
  ort: Runtime,
): Promise<Stepper> {
  const { model, batch, rateCount } = training;
  const { Tensor } = ort;
  const session = await ort.createSession(model, device, threads);
  let state: Tensors = {};
  /** A second set of buffers, which results are written into; the two change places after every run. */
  let spare: Tensors = {};

  const run = async ({ rates, rows }: Advance): Promise<Float32Array> => {
    const steps = rows.length / batch;
    const own = source.at(rows);
    const feeds = {
      ...own.tensors,
      steps: new Tensor('int64', BigInt64Array.of(BigInt(steps)), []),
      rates: new Tensor('float32', rates, [steps, rateCount]),
      rows: new Tensor('int32', own.rows, [steps, batch]),
    };
    const fetches: Record<string, Tensor | null> = { losses: null };
    for (const name of training.state) fetches[`${name}.next`] = spare[name] ?? null;
    const results = await session.run({ ...state, ...frozen, ...feeds }, fetches);
    if (ort.writesInPlace) [state, spare] = [spare, state];
    else for (const name of training.state) state[name] = results[`${name}.next`]!;
    return floats(results.losses);
  };

  return {
    begin: async (vectors) => {
      state = Object.fromEntries(training.state.map((name, i) => [name, vector(ort, vectors[i]!)]));
      if (!ort.writesInPlace) return;
      spare = Object.fromEntries(
        training.state.map((name, i) => [name, vector(ort, new Float32Array(vectors[i]!.length))]),
      );
    },
    advance: async (task) => {
      const start = performance.now();
      const losses = await run(task);
      return { losses, seconds: (performance.now() - start) / 1000 };
    },
    finish: async () => {
      const vectors = training.state.map((name) => floats(state[name]));
      state = {};
      spare = {};
      return vectors;
    },
  };
}
