/** Trains models on the CPU and on WebGPU, and prints how far they are apart. Nothing may fall back to the CPU. */

import { deriveKey } from 'nostrain/base';
import {
  type AnyModel,
  compileTraining,
  dataFormOf,
  initialParameters,
  type LoraSpec,
  loraModel,
  modelOf,
  type TrainerData,
} from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import type { ModelSpec, OptimizerSpec, Precision } from 'nostrain/run';
import { InferenceSession } from 'onnxruntime-node';
import { rulesOf } from '../../../src/model/forms/table.ts';
import { adamwSpec, chainCorpus, muonSpec, smallGpt } from '../ort-models.ts';

/** A model and how it is trained. */
export interface Ask {
  readonly model: ModelSpec;
  /** Adapters of a decoder, whose base is held so. */
  readonly adapter?: LoraSpec;
  readonly precision?: Precision;
  readonly optimizer: OptimizerSpec;
  /** Only every second token counts. */
  readonly masked?: boolean;
  readonly accumulate?: number;
  readonly recompute?: boolean;
}

export interface Apart {
  /** Of the first and the last step, on WebGPU. */
  readonly losses: readonly [first: number, last: number];
  /** The most that a step's loss is apart. */
  readonly loss: number;
  /** The same after the last step, measured on validation data. */
  readonly validation: number;
  /** The length of what lies between the parameters, as a share of how far training moved them. */
  readonly params: number;
}

const STEPS = 20;
const BATCH = 4;

function openModel({ model, adapter, precision }: Ask): AnyModel {
  const isDecoder = model.architecture === 'llama' || model.architecture === 'gpt2';
  return adapter && isDecoder ? loraModel(model, adapter, precision) : model;
}

const compiling = ({ masked = false, accumulate = 1, recompute = false }: Ask) => ({
  ...{ masked, accumulate, recompute },
});

async function requireKernels(ask: Ask): Promise<void> {
  const options = { ...compiling(ask), target: 'webgpu' } as const;
  const program = compileTraining(openModel(ask), ask.optimizer, BATCH, options);
  for (const bytes of [program.step(), program.evaluate(), program.forward()]) {
    // never released: shaders are compiled anew for who comes after the last session
    await InferenceSession.create(bytes, {
      executionProviders: ['webgpu'],
      graphOptimizationLevel: 'disabled',
      logSeverityLevel: 3,
      extra: { session: { disable_cpu_ep_fallback: '1' } },
    });
  }
}

function dataFor({ model, masked }: Ask): TrainerData {
  if (model.architecture === 'mlp' || model.architecture === 'linear') {
    const { features } = model;
    const inputs = Float32Array.from({ length: 64 * features }, (_, i) => Math.sin(i * i));
    const targets = Float32Array.from({ length: 64 }, (_, i) => inputs[2 * i]! - inputs[i]!);
    return { kind: 'regression', features, inputs, targets, validation: { inputs, targets } };
  }
  if (!('vocabulary' in model)) return rulesOf(dataFormOf(model)).anything();
  const corpus = chainCorpus(400, model.vocabulary);
  const part = (tokens: Uint8Array) =>
    masked ? { tokens, counted: Uint8Array.from(tokens, (_, i) => i % 2) } : tokens;
  return {
    kind: 'tokens',
    shard: part(corpus.subarray(0, 300)),
    validation: part(corpus.subarray(300)),
  };
}

async function train(ask: Ask, device: 'cpu' | 'webgpu') {
  const model = openModel(ask);
  const { accumulate, recompute } = compiling(ask);
  const trainer = await createTrainer({
    ...{ model, optimizer: ask.optimizer, batch: BATCH, device, threads: 1, data: dataFor(ask) },
    ...{ accumulate, recompute },
    frozen: async () =>
      Object.fromEntries(
        (modelOf(model).frozen ?? []).map(({ name, shape }, i) => {
          const size = shape.reduce((product, dim) => product * dim, 1);
          return [name, Float32Array.from({ length: size }, (_, j) => Math.sin(i + j * j) / 4)];
        }),
      ),
  });
  const params = initialParameters(model, 1);
  const task = { params, moments: [], round: 0, steps: STEPS, firstStep: 0, batchKey };
  const trained = await trainer.train(task, () => undefined, new AbortController().signal);
  const validation = await trainer.evaluate(trained.params, 'validation', { batches: 2 });
  await trainer.close();
  return { ...trained, start: params, validation };
}

const batchKey = deriveKey('gpu');

async function compare(ask: Ask): Promise<Apart> {
  await requireKernels(ask);
  const [cpu, gpu] = [await train(ask, 'cpu'), await train(ask, 'webgpu')];
  const moved = Math.hypot(...cpu.params.map((value, i) => value - cpu.start[i]!));
  return {
    losses: [gpu.losses[0]!, gpu.losses.at(-1)!],
    loss: Math.max(...gpu.losses.map((loss, i) => Math.abs(loss - cpu.losses[i]!))),
    validation: Math.abs(gpu.validation - cpu.validation),
    params: Math.hypot(...cpu.params.map((value, i) => value - gpu.params[i]!)) / moved,
  };
}

/** Models of docs/results/webgpu.md. */
const usual: readonly Ask[] = [adamwSpec, muonSpec].map((optimizer) => ({
  model: smallGpt,
  optimizer,
}));

const [, , given] = process.argv;
const asks: readonly Ask[] = given === undefined ? usual : JSON.parse(given);
const answers: Apart[] = [];
for (const ask of asks) answers.push(await compare(ask));
process.stdout.write(JSON.stringify(answers));
