/**
 * Compiles a model to the ONNX programs of a worker: forward pass, backward pass and optimizer in one graph.
 *
 * All programs take flat vectors and the whole data set, and select their batch by `rows`. Tokens: `corpus` (L), u8 or
 * i32 by vocabulary, and window offsets in it; if only some tokens count, `counted` (L) is 1 for those.
 * Regression: `inputs` (N, F), `targets` (N) and row numbers. L and N are dynamic. Frozen tensors are inputs by name.
 */
import { ConfigError } from '../base/errors.ts';
import type { Arithmetic, OptimizerSpec } from '../run/spec/model-spec.ts';
import type { Layout } from '../tensor/params.ts';
import type { Range } from '../tensor/partial-vector.ts';
import type { DataForm, Model } from './architectures/architecture.ts';
import { type AnyModel, dataFormOf, expertsOf, modelOf } from './architectures/table.ts';
import { rulesOf } from './forms/table.ts';
import { createGraph, type Graph } from './graph/builder.ts';
import { gradients } from './graph/grad.ts';
import { lower, lowerLoop, next } from './graph/lower.ts';
import { ANY, type GraphTarget, type Value } from './graph/rule.ts';
import {
  add,
  after,
  div,
  gather,
  gemm,
  mul,
  reduceSum,
  reshape,
  split,
  square,
  where,
} from './graph/verbs.ts';
import { batchLoss, openScaling, rowLosses, scalingState } from './loss.ts';
import { encodeModel, type OnnxGraph } from './onnx.ts';
import { withFrozen } from './optimizers/frozen.ts';
import {
  clipFactor,
  cutRanges,
  type Optimizer,
  scalars,
  type UpdateInput,
} from './optimizers/optimizer.ts';
import { withStatistics } from './optimizers/statistics.ts';
import { optimizerOf } from './optimizers/table.ts';
import { hiddenMatrices, modelLayout, statisticRanges } from './parameters.ts';
import { openWeights } from './precision.ts';

/** Options of `compileTraining`. */
export interface CompileOptions {
  /** f64 works only for linear and mlp; onnxruntime has no f64 kernel for the erf of gpt. */
  readonly dtype?: 'f32' | 'f64';
  /** Execution provider; results differ in the last bits. Default: the CPU. */
  readonly target?: GraphTarget;
  /** Recomputes activations in the backward pass: less memory, a third more time. */
  readonly recompute?: boolean;
  /** Micro-batches per step, run one after the other: less memory for the same mean gradient. */
  readonly accumulate?: number;
  /** Whether only tokens marked by the input `counted` enter losses and gradients; for token windows. */
  readonly masked?: boolean;
  /** Type of matrix products in a step of an f32 graph; the optimizer and evaluation stay in f32. */
  readonly precision?: Arithmetic;
}

/** ONNX models as bytes, each encoded when first used. Below, k is the number of rates and B the batch size. */
export interface TrainingProgram {
  readonly layout: Layout;
  readonly optimizer: Optimizer;
  /** State of `loop` and `step` with initial values: parameters, moments and, in f16, the loss `scaling`. */
  readonly state: readonly { readonly name: string; readonly first: () => Float32Array }[];
  /** steps i64, params, moments, rates (H, k), rows i32 (H, B), data -> params.next, moments.next, losses (H). */
  readonly loop: () => Uint8Array;
  /** One step without Loop: params, moments, rates (k), rows i32 (B), data -> params.next, moments.next, loss. */
  readonly step: () => Uint8Array;
  /**
   * params, rows i32 (B), data -> losses (B), the mean of each row; with `masked` counts (B) of their tokens; hits (B).
   */
  readonly evaluate: () => Uint8Array;
  /** params, rows i32 (B), data -> loss, gradient (flat); with `masked` also count, of the batch's tokens. */
  readonly gradient: () => Uint8Array;
  /**
   * gradients (parts, any) -> gradient (any), their mean, and the sum of squares; `masked` weighs by shares (1, parts).
   */
  readonly combine: (parts: number) => Uint8Array;
  /** Returns at most `count` ranges of the vectors that can be updated separately. Equal models are the same object. */
  readonly updates: (count: number) => readonly RangeUpdate[];
  /** params, inputs of one row: i32 (1, T) or (1, F) -> predictions: logits (T, V) or numbers (1). */
  readonly forward: () => Uint8Array;
}

/** Update of a range: params, moments and gradient of the range, rates (k), factor -> params.next, moments.next. */
export interface RangeUpdate extends Range {
  readonly model: Uint8Array;
}

/** Compiles the programs for training a model with batches of `batch` rows. */
export function compileTraining(
  spec: AnyModel,
  optimizerSpec: OptimizerSpec,
  batch: number,
  options: CompileOptions = {},
): TrainingProgram {
  const { accumulate, dtype, target } = { ...usual, ...options };
  if (!Number.isSafeInteger(accumulate) || accumulate < 1 || batch % accumulate !== 0) {
    throw new ConfigError(
      'training/accumulate',
      `a batch of ${batch} does not divide into ${accumulate} micro-batches`,
    );
  }
  const layout = modelLayout(spec);
  const whole = withStatistics(
    optimizerOf(optimizerSpec, hiddenMatrices(spec)),
    statisticRanges(spec),
  );
  const optimizer = expertsOf(spec) ? withFrozen(whole) : whole;
  const sources = { form: dataFormOf(spec), model: modelOf(spec), layout, optimizer, batch };
  const plan: Plan = { ...usual, ...options, ...sources };
  const encode = (name: string, build: (graph: Graph, plan: Plan) => void) => () => {
    const graph = createGraph();
    build(graph, plan);
    return encodeModel(lower(graph, name, { target }));
  };
  return {
    layout,
    optimizer,
    state: stateOf(plan),
    loop: () => encodeModel(lowerTraining(plan)),
    step: encode('step', (graph) => {
      const rates = graph.input('rates', { dtype, shape: [optimizer.rateCount] });
      const rows = graph.input('rows', { dtype: 'i32', shape: [batch] });
      buildStep(graph, plan, rates, rows);
    }),
    evaluate: encode('evaluate', buildEvaluation),
    gradient: encode('gradient', buildGradient),
    combine: (parts) => encode('combine', (graph, p) => buildCombine(graph, p, parts))(),
    updates: (count) => {
      const ranges = cutRanges(layout.size, count, optimizer.whole);
      const model = ({ from, to }: Range, size = to - from) =>
        encode('update', (graph, p) => buildUpdate(graph, p, from, size))();
      const common = optimizer.whole.length === 0 ? model(ranges[0]!, ANY) : undefined;
      return ranges.map((range) => ({ ...range, model: common ?? model(range) }));
    },
    forward: encode('forward', buildForward),
  };
}

const usual = {
  dtype: 'f32',
  target: 'cpu',
  recompute: false,
  accumulate: 1,
  masked: false,
  precision: 'f32',
} as const satisfies Required<CompileOptions>;

/** Everything the programs are built from. */
interface Plan extends Required<CompileOptions> {
  readonly form: DataForm;
  readonly model: Model;
  readonly layout: Layout;
  readonly optimizer: Optimizer;
  readonly batch: number;
}

function stateOf({ layout, optimizer, precision }: Plan): TrainingProgram['state'] {
  const first = () => new Float32Array(layout.size);
  const vectors = ['params', ...optimizer.moments].map((name) => ({ name, first }));
  return precision === 'f16' ? [...vectors, scalingState] : vectors;
}

function lowerTraining(plan: Plan): OnnxGraph {
  const { optimizer, dtype, batch, target } = plan;
  const body = createGraph();
  const iteration = body.input('iteration', { dtype: 'i64', shape: [] });
  const allRates = body.input('rates', { dtype, shape: [ANY, optimizer.rateCount] });
  const allRows = body.input('rows', { dtype: 'i32', shape: [ANY, batch] });
  buildStep(body, plan, gather(allRates, iteration), gather(allRows, iteration));
  const roles = {
    iteration: 'iteration',
    carried: stateOf(plan).map(({ name }) => name),
    collected: { loss: 'losses' },
  };
  return lowerLoop(body, roles, { target });
}

function buildStep(graph: Graph, plan: Plan, rates: Value, rows: Value): void {
  const { optimizer } = plan;
  const params = flatInput(graph, plan, 'params');
  const moments = optimizer.moments.map((name) => flatInput(graph, plan, name));
  const scaled = plan.precision === 'f16' ? openScaling(graph) : undefined;
  graph.products = plan.precision;
  const { loss, gradient } = differentiate(graph, plan, params, rows, scaled?.scale);
  graph.products = 'f32';
  const squares = () => reduceSum(square(gradient));
  const factor = optimizer.clipNorm > 0 ? clipFactor(squares(), optimizer.clipNorm) : undefined;
  const input = { params, gradient, moments, rates: scalars(rates), factor, from: 0 };
  outputUpdate(graph, plan, input, scaled?.outputNext(squares()));
  graph.output('loss', loss);
}

/** Returns the mean loss and gradient of a batch, micro-batch by micro-batch; `scale` multiplies the loss first. */
function differentiate(graph: Graph, plan: Plan, params: Value, rows: Value, scale?: Value) {
  const { model, layout, recompute, accumulate } = plan;
  const weights = openWeights(graph, params, layout, model);
  const read = rulesOf(plan.form).open(graph, plan);
  const counted = plan.masked ? read(rows).counted : undefined;
  const count = counted && reduceSum(counted);
  const sizes = new Array<number>(accumulate).fill(rows.shape[0]! / accumulate);
  let total: { readonly loss: Value; readonly gradient: Value } | undefined;
  for (const part of split(rows, 0, sizes)) {
    const partRows = total ? after(part, total.gradient) : part;
    const loss = batchLoss(model, weights, read(partRows), count);
    const [gradient] = gradients(graph, scale ? mul(loss, scale) : loss, [params], { recompute });
    total = total
      ? { loss: add(total.loss, loss), gradient: add(total.gradient, gradient!) }
      : { loss, gradient: gradient! };
  }
  const { loss } = total!;
  const gradient = scale ? mul(total!.gradient, div(1, scale)) : total!.gradient;
  if (accumulate === 1 || count) return { loss, gradient, count };
  return { loss: mul(loss, 1 / accumulate), gradient: mul(gradient, 1 / accumulate) };
}

/** Adds the update to the outputs. If `counts` is false, the state stays unchanged. */
function outputUpdate(graph: Graph, { optimizer }: Plan, input: UpdateInput, counts?: Value): void {
  const { params, moments } = optimizer.update(input);
  const kept = (now: Value, before: Value) => (counts ? where(counts, now, before) : now);
  graph.output(next('params'), kept(params, input.params));
  optimizer.moments.forEach((name, i) => {
    graph.output(next(name), kept(moments[i]!, input.moments[i]!));
  });
}

/** Builds the mean of several gradients, or of the same range of each. */
function buildCombine(graph: Graph, { dtype, masked }: Plan, parts: number): void {
  const all = graph.input('gradients', { dtype, shape: [parts, ANY] });
  const row = { dtype, shape: [1, parts] };
  const shares = masked
    ? graph.input('shares', row)
    : graph.constant(row, new Array(parts).fill(1 / parts));
  const mean = reshape(gemm(shares, all), [ANY]);
  graph.output('gradient', mean);
  graph.output('squares', reduceSum(square(mean)));
}

function buildUpdate(graph: Graph, plan: Plan, from: number, size: number): void {
  const { optimizer, dtype } = plan;
  const range = (name: string) => graph.input(name, { dtype, shape: [size] });
  outputUpdate(graph, plan, {
    params: range('params'),
    gradient: range('gradient'),
    moments: optimizer.moments.map(range),
    rates: scalars(graph.input('rates', { dtype, shape: [optimizer.rateCount] })),
    factor: graph.input('factor', { dtype, shape: [] }),
    from,
  });
}

function buildEvaluation(graph: Graph, plan: Plan): void {
  const params = flatInput(graph, plan, 'params');
  const rows = graph.input('rows', { dtype: 'i32', shape: [plan.batch] });
  const weights = openWeights(graph, params, plan.layout, plan.model);
  const batch = rulesOf(plan.form).open(graph, plan)(rows);
  const { losses, counts } = rowLosses(plan.model, weights, batch);
  graph.output('losses', losses);
  if (plan.model.hits) graph.output('hits', plan.model.hits(weights, batch));
  if (counts) graph.output('counts', counts);
}

function buildGradient(graph: Graph, plan: Plan): void {
  const params = flatInput(graph, plan, 'params');
  const rows = graph.input('rows', { dtype: 'i32', shape: [plan.batch] });
  const { loss, gradient, count } = differentiate(graph, plan, params, rows);
  graph.output('loss', loss);
  graph.output('gradient', gradient);
  if (count) graph.output('count', count);
}

function buildForward(graph: Graph, plan: Plan): void {
  const { form, dtype } = plan;
  const params = flatInput(graph, plan, 'params');
  const inputs = graph.input('inputs', rulesOf(form).single(dtype));
  graph.output(
    'predictions',
    plan.model.predict(openWeights(graph, params, plan.layout, plan.model), inputs),
  );
}

const flatInput = (graph: Graph, { layout, dtype }: Plan, name: string): Value =>
  graph.input(name, { dtype, shape: [layout.size] });
