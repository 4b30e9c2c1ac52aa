/** Small specs and corpora for tests of the training engine. */
import { philox } from 'nostrain/base';
import type { AdamWSpec, Gpt2Spec, GptSpec, LlamaSpec } from 'nostrain/run';
import type { MuonSpec, Schedule } from '../../src/run/spec/model-spec.ts';

/** The model of the demos. */
export const charGpt: GptSpec = {
  architecture: 'gpt',
  vocabulary: 95,
  width: 128,
  layers: 4,
  heads: 4,
  context: 128,
  ffn: 512,
};

/** Large enough for two threads to share its products. */
export const smallGpt: GptSpec = {
  architecture: 'gpt',
  vocabulary: 30,
  width: 64,
  layers: 2,
  heads: 4,
  context: 32,
  ffn: 128,
};

/** Small enough for a finite difference by every parameter. */
export const tinyGpt: GptSpec = {
  architecture: 'gpt',
  vocabulary: 5,
  width: 4,
  layers: 2,
  heads: 2,
  context: 4,
  ffn: 8,
};

/** Small decoders of published families; tests say what else they want. */
export const tinyLlama: LlamaSpec = {
  architecture: 'llama',
  vocabulary: 30,
  width: 12,
  layers: 2,
  heads: 4,
  keyValueHeads: 2,
  headSize: 6,
  ffn: 20,
  context: 12,
  normEpsilon: 1e-5,
  rope: { base: 10_000 },
  tied: true,
  bias: { queryKeyValue: true, attentionOutput: false, feedforward: false },
  queryKeyNorm: true,
  deviation: 0.4,
};

export const tinyGpt2: Gpt2Spec = {
  architecture: 'gpt2',
  vocabulary: 30,
  width: 12,
  layers: 2,
  heads: 3,
  ffn: 20,
  context: 12,
  positions: 20,
  normEpsilon: 1e-5,
  activation: 'gelu-tanh',
  tied: false,
  deviation: 0.4,
};

export const constantRate = (learningRate: number): Schedule => ({
  learningRate,
  warmupSteps: 0,
  totalSteps: 0,
  finalShare: 1,
});

export const adamwSpec: AdamWSpec = {
  optimizer: 'adamw',
  schedule: constantRate(3e-3),
  clipNorm: 1,
  beta1: 0.9,
  beta2: 0.99,
  epsilon: 1e-8,
  weightDecay: 0.1,
};

export const muonSpec: MuonSpec = {
  ...adamwSpec,
  optimizer: 'muon',
  momentum: 0.9,
  stepSize: 1.5,
};

/** Tokens in which every one follows from the one before it, most of the time. */
export function chainCorpus(length: number, vocabulary: number): Uint8Array {
  const corpus = new Uint8Array(length);
  for (let i = 1; i < length; i++) {
    const [word] = philox([3, 5], i, 0, 0, 0);
    corpus[i] = word % 8 === 0 ? (word >>> 8) % vocabulary : (corpus[i - 1]! * 7 + 3) % vocabulary;
  }
  return corpus;
}
