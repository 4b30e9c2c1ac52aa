/** Every program that training makes, beside the kernels that GPUs have: nothing falls back to the CPU, or is copied inside the loop. */

import {
  type AnyModel,
  type CompileOptions,
  compileTraining,
  dataFormOf,
  type LoraSpec,
  loraModel,
} from 'nostrain/model';
import type { OptimizerSpec, Precision } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { gapsOf } from '../support/kernels.ts';
import { adamwSpec, charGpt, muonSpec, tinyGpt2, tinyLlama } from '../support/ort-models.ts';
import { cases, programOf } from './graph/op-cases.ts';

const adapter: LoraSpec = { rank: 2, alpha: 4, targets: 'all-linear' };
const wide = { width: 32, headSize: 8, ffn: 32, vocabulary: 2000 } as const;
const llama = { ...tinyLlama, ...wide };
const gpt2 = { ...tinyGpt2, ...wide, heads: 4 };
const precisions: readonly Precision[] = ['f32', 'f16', 'q8', 'q4'];

const models: Readonly<Record<string, AnyModel>> = {
  'a linear model': { architecture: 'linear', features: 3 },
  'a forecaster': {
    ...{ architecture: 'forecaster', channels: 2, context: 16, horizon: 4, patch: 4 },
    ...{ width: 16, layers: 1, heads: 2, ffn: 32, error: 'quantile', scaling: 'window' },
  },
  'a vision transformer': {
    ...{ architecture: 'vit', pixels: 8, channels: 3, classes: 4, patch: 4 },
    ...{ width: 16, layers: 1, heads: 2, ffn: 32 },
  },
  'an MLP': { architecture: 'mlp', features: 3, hidden: [8, 8] },
  'char-gpt': charGpt,
  'a GPT with a large vocabulary': { ...charGpt, vocabulary: 3000 },
  'a Llama': llama,
  'a Llama with a window': { ...llama, window: 4, tied: false },
  'a GPT-2': gpt2,
  ...Object.fromEntries(
    precisions.flatMap((precision) =>
      [llama, gpt2].map((spec) => [
        `adapters of a ${spec.architecture} in ${precision}`,
        loraModel(spec, adapter, precision),
      ]),
    ),
  ),
};

const sgd: OptimizerSpec = { optimizer: 'sgd', clipNorm: 1, schedule: adamwSpec.schedule };
/** Divided by `accumulate`; the operators do not depend on it. */
const BATCH = 8;
const ways: readonly CompileOptions[] = [{}, { recompute: true, accumulate: 8 }, { masked: true }];
/** What each has; onnxruntime has no bf16 on WebGPU. */
const halves = { cuda: ['f16', 'bf16'], webgpu: ['f16'] } as const;

describe.each(Object.keys(models))('%s', (name) => {
  it.each(['cuda', 'webgpu'] as const)('stays on %s', (target) => {
    const model = models[name]!;
    const isText = dataFormOf(model).kind === 'tokens';
    for (const optimizer of [adamwSpec, muonSpec, sgd]) {
      for (const options of isText ? ways : ways.slice(0, 2)) {
        const program = compileTraining(model, optimizer, BATCH, { ...options, target });
        const steps = target === 'cuda' ? program.loop() : program.step();
        for (const bytes of [steps, program.evaluate(), program.forward()]) {
          expect(gapsOf(bytes, target)).toEqual([]);
        }
      }
    }
    for (const precision of halves[target]) {
      const program = compileTraining(model, adamwSpec, BATCH, { precision, target });
      expect(gapsOf(target === 'cuda' ? program.loop() : program.step(), target)).toEqual([]);
    }
  });
});

/** What falls back all the same: only graphs of a user's own have f64, or numbers of 64 bits. */
const left: Readonly<Record<string, readonly string[]>> = {
  argMax: ['Cast of i64'],
  'gather, a scalar index': ['Equal of i64', 'Reshape of i64', 'Unsqueeze of i64'],
  cast: ['Add of f64', 'Cast of f64', 'Expand of f64', 'Mul of f64', 'Reshape of f64'],
};

describe('an op with its derivative', () => {
  it.each(Object.values(cases).flat())('$title', ({ title, shapes, build }) => {
    const program = programOf({ shapes, build });
    expect(gapsOf(program('cuda'), 'cuda')).toEqual([]);
    expect(gapsOf(program('webgpu'), 'webgpu')).toEqual(left[title] ?? []);
  });
});

it('tells what would fall back', () => {
  const program = compileTraining(loraModel(llama, adapter, 'q4'), adamwSpec, 2);
  expect(gapsOf(program.loop(), 'cuda')).toEqual(['BitShift of u8', 'BitwiseAnd of u8']);
  const half = compileTraining({ architecture: 'mlp', features: 3, hidden: [8] }, adamwSpec, 2, {
    ...{ precision: 'bf16', target: 'webgpu' },
  });
  expect(gapsOf(half.step(), 'webgpu')).toEqual(['Cast of bf16', 'Gemm of bf16']);
  expect(gapsOf(program.loop(), 'webgpu')).toEqual(
    expect.arrayContaining(['Concat with 29 buffers', 'Gather of i8', 'Loop', 'Slice of i32']),
  );
});
