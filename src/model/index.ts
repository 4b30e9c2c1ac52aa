/**
 * Models and training programs: architectures, adapters, the operator graph with its derivatives, ONNX export, batches,
 * text and synthetic data.
 *
 * @module nostrain/model
 */
export { type LoraSpec, loraModel, loraTensors, mergeLora } from './adapters/lora.ts';
export type {
  Batch,
  CustomModel,
  DataForm,
  FrozenTensor,
  Model,
  RowForm,
  TensorSpec,
  TokenForm,
  Weights,
} from './architectures/architecture.ts';
export { readModelConfig } from './architectures/config.ts';
export { llama } from './architectures/llama.ts';
export { type AnyModel, dataFormOf, modelOf } from './architectures/table.ts';
export { drawRows, evenRows } from './batches.ts';
export { writePlay } from './data/playwright.ts';
export {
  linearTruth,
  parseRegressionDataset,
  type RegressionDataset,
  type RegressionSet,
  type RegressionTask,
} from './data/regression.ts';
export { syntheticSeries, syntheticShapes } from './data/synthetic.ts';
export { type ShardForm, shardText, splitText } from './data/text.ts';
export { type Tokenizer, type TokenPart, type Tokens, tokenizers } from './data/tokens.ts';
export { holdData, type TrainerData } from './forms/table.ts';
export { gptSpec, layoutOfRun, modelOfRun, optimizerOf } from './from-settings.ts';
export { createGraph, type Graph } from './graph/builder.ts';
export { gradients } from './graph/grad.ts';
export { lower } from './graph/lower.ts';
export { type GraphTarget, sizeOf, type Value } from './graph/rule.ts';
export { type DType, encodeModel } from './onnx.ts';
export {
  countParameters,
  expertRanges,
  initialParameters,
  modelLayout,
} from './parameters.ts';
export { type CompileOptions, compileTraining, type TrainingProgram } from './training-program.ts';
