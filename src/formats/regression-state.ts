/**
 * Converts the two regression models of the Python reference to and from states, under their own or PyTorch's tensor
 * names. Reading accepts states that leave out dimensions of size one; writing always includes them.
 */
import { ConfigError } from '../base/errors.ts';
import type { RegressionTask } from '../model/data/regression.ts';
import { createLayout, type Layout, type Params } from '../tensor/params.ts';
import type { NamedTensor } from '../tensor/safetensors.ts';
import { stateOfTensors, tensorsOfState } from './state-json.ts';

/** The parameters of a regression by name; f64 copies. */
export type RegressionModel = LinearModel | MlpModel;

/** The parameters of a linear regression by name, as `readRegressionModel` gives them. */
export interface LinearModel {
  readonly runtime: 'linear-regression';
  readonly features: number;
  /** (F) */
  readonly weight: Float64Array;
  /** (1) */
  readonly bias: Float64Array;
}

/** The parameters of a network with one hidden layer by name, as `readRegressionModel` gives them. */
export interface MlpModel {
  readonly runtime: 'mlp-regression';
  readonly features: number;
  /** H */
  readonly hidden: number;
  /** (H, F) */
  readonly hiddenWeight: Float64Array;
  /** (H) */
  readonly hiddenBias: Float64Array;
  /** (H) */
  readonly outputWeight: Float64Array;
  /** (1) */
  readonly outputBias: Float64Array;
}

export const linearLayout = (features: number): Layout =>
  createLayout([
    { name: 'linear.bias', shape: [1] },
    { name: 'linear.weight', shape: [1, features] },
  ]);

export const mlpLayout = (features: number, hidden: number): Layout =>
  createLayout([
    { name: 'mlp.hidden.bias', shape: [hidden] },
    { name: 'mlp.hidden.weight', shape: [hidden, features] },
    { name: 'mlp.output.bias', shape: [1] },
    { name: 'mlp.output.weight', shape: [1, hidden] },
  ]);

const LINEAR = 'linear.bias,linear.weight';
const MLP = 'mlp.hidden.bias,mlp.hidden.weight,mlp.output.bias,mlp.output.weight';

/** Returns the model with these tensor names; undefined for any other. */
function runtimeOfLayout({ slots }: Layout): RegressionTask | undefined {
  const names = slots.map(({ name }) => name).sort();
  if (names.join() === LINEAR) return 'linear-regression';
  return names.join() === MLP ? 'mlp-regression' : undefined;
}

/**
 * Splits a state into its parameters by name. Throws a ConfigError that names the tensor, its shape and the shape it
 * must have.
 *
 * @example
 * ```ts
 * import { initializeLinearRegressionState, readRegressionModel } from 'nostrain/python';
 *
 * const model = readRegressionModel(initializeLinearRegressionState(2));
 * model.runtime === 'linear-regression' && model.weight; // => new Float64Array(2)
 * ```
 */
export function readModel(params: Params): RegressionModel {
  const runtime = runtimeOfLayout(params.layout);
  if (runtime === undefined) {
    const names = params.layout.slots.slice(0, 4).map(({ name }) => name);
    throw new ConfigError(
      'state/model',
      `a state with ${names.join(', ')} is neither a linear nor an mlp regression`,
      { hint: '`nostrain init-state --features N` makes one' },
    );
  }
  return runtime === 'linear-regression' ? readLinear(params) : readMlp(params);
}

function readLinear(params: Params): LinearModel {
  const { shape } = slotOf(params, 'linear.weight');
  const features = shape.at(-1) ?? 0;
  return {
    runtime: 'linear-regression',
    features,
    weight: read(params, 'linear.weight', [1, features], [features]),
    bias: read(params, 'linear.bias', [1], []),
  };
}

function readMlp(params: Params): MlpModel {
  const { shape } = slotOf(params, 'mlp.hidden.weight');
  const [hidden = 0, features = 0] = shape;
  return {
    runtime: 'mlp-regression',
    features,
    hidden,
    hiddenWeight: read(params, 'mlp.hidden.weight', [hidden, features]),
    hiddenBias: read(params, 'mlp.hidden.bias', [hidden]),
    outputWeight: read(params, 'mlp.output.weight', [1, hidden], [hidden]),
    outputBias: read(params, 'mlp.output.bias', [1], []),
  };
}

const slotOf = ({ layout }: Params, name: string) =>
  layout.slots.find((slot) => slot.name === name)!;

/** Returns a copy of one tensor, which must have one of the given shapes. */
function read(
  params: Params,
  name: string,
  ...shapes: readonly (readonly number[])[]
): Float64Array {
  const { shape, offset, size } = slotOf(params, name);
  const fits = shapes.some((accepted) => accepted.join() === shape.join());
  if (fits && size > 0) return Float64Array.from(params.values.subarray(offset, offset + size));
  const accepted = shapes.map((dims) => `[${dims}]`).join(' or ');
  throw new ConfigError('state/shape', `tensor ${name} is [${shape}], not ${accepted}`);
}

/**
 * Returns the model as a state in f64, with tensors sorted by name.
 *
 * @example
 * ```ts
 * import { writeRegressionModel } from 'nostrain/python';
 *
 * const [weight, bias] = [Float64Array.of(3, -1), Float64Array.of(0.5)];
 * const state = writeRegressionModel({ runtime: 'linear-regression', features: 2, weight, bias });
 * state.values; // => Float64Array.of(0.5, 3, -1)
 * ```
 */
export function writeModel(model: RegressionModel): Params {
  if (model.runtime === 'linear-regression') {
    return joined(linearLayout(model.features), [model.bias, model.weight]);
  }
  const { hiddenBias, hiddenWeight, outputBias, outputWeight } = model;
  const tensors = [hiddenBias, hiddenWeight, outputBias, outputWeight];
  return joined(mlpLayout(model.features, model.hidden), tensors);
}

function joined(layout: Layout, tensors: readonly Float64Array[]): Params {
  const values = new Float64Array(layout.size);
  tensors.forEach((tensor, i) => {
    values.set(tensor, layout.slots[i]!.offset);
  });
  return { layout, values };
}

/** This project's tensor names by PyTorch's. */
const names: Readonly<Record<RegressionTask, Readonly<Record<string, string>>>> = {
  'linear-regression': { bias: 'linear.bias', weight: 'linear.weight' },
  'mlp-regression': {
    'hidden.bias': 'mlp.hidden.bias',
    'hidden.weight': 'mlp.hidden.weight',
    'output.bias': 'mlp.output.bias',
    'output.weight': 'mlp.output.weight',
  },
};

/** Parses the name of a runtime; undefined for any other text. */
export function parseRuntime(text: string): RegressionTask | undefined {
  const name = text.trim().toLowerCase();
  return name === 'linear-regression' || name === 'mlp-regression' ? name : undefined;
}

/**
 * Returns the runtime of a state. Throws a ConfigError for any other state, or if it is not the expected runtime.
 *
 * @example
 * ```ts
 * import { inferTrainingRuntimeFromState, initializeLinearRegressionState } from 'nostrain/python';
 *
 * inferTrainingRuntimeFromState(initializeLinearRegressionState(2)); // => 'linear-regression'
 * ```
 */
export function runtimeOfState(params: Params, expected?: RegressionTask): RegressionTask {
  const { runtime } = readModel(params);
  if (expected === undefined || expected === runtime) return runtime;
  throw new ConfigError('state/runtime', `the state is ${runtime}, not ${expected}`, {
    hint: 'use a state and a dataset of the same runtime',
  });
}

/**
 * Returns a regression state under PyTorch's names, sorted by name. Throws a ConfigError for any other state.
 *
 * @example
 * ```ts
 * import { exportPytorchStateDict, initializeLinearRegressionState } from 'nostrain/python';
 *
 * const { layout } = exportPytorchStateDict(initializeLinearRegressionState(2));
 * layout.slots.map(({ name }) => name); // => ['bias', 'weight']
 * ```
 */
export function exportTorchStateDict(params: Params, expected?: RegressionTask): Params {
  const ours = Object.entries(names[runtimeOfState(params, expected)]);
  const renamed = tensorsOfState(params).map((tensor) => ({
    ...tensor,
    name: ours.find(([, name]) => name === tensor.name)![0],
  }));
  return sorted(renamed);
}

/**
 * Converts a state with PyTorch's names, with or without a common prefix (`module.`), to a regression state. Throws a
 * ConfigError if its names or shapes match no runtime.
 *
 * @example
 * ```ts
 * import { createLayout, importPytorchStateDict } from 'nostrain/python';
 *
 * const layout = createLayout([
 *   { name: 'module.bias', shape: [1] },
 *   { name: 'module.weight', shape: [1, 2] },
 * ]);
 * const state = importPytorchStateDict({ layout, values: Float64Array.of(1, 2, 3) });
 * state.layout.slots.map(({ name }) => name); // => ['linear.bias', 'linear.weight']
 * ```
 */
export function importTorchStateDict(stateDict: Params, expected?: RegressionTask): Params {
  const given = tensorsOfState(stateDict);
  const runtimes = expected === undefined ? runtimeNames : [expected];
  for (let tensors = given; tensors.length > 0; tensors = withoutPrefix(tensors)) {
    const nameSet = new Set(tensors.map(({ name }) => name));
    const runtime = runtimes.find((task) => {
      const theirs = Object.keys(names[task]);
      return theirs.length === tensors.length && theirs.every((name) => nameSet.has(name));
    });
    if (runtime === undefined) continue;
    const ours = names[runtime];
    const params = sorted(tensors.map((each) => ({ ...each, name: ours[each.name]! })));
    runtimeOfState(params, runtime);
    return params;
  }
  const examples = given.slice(0, 4).map(({ name }) => name.slice(0, 80));
  throw new ConfigError(
    'state/model',
    `no ${runtimes.join(' or ')} has tensors named ${examples}`,
    {
      hint: 'use a PyTorch state of nn.Linear, or of an mlp with a hidden and an output layer',
    },
  );
}

/**
 * Returns the runtime of a state with PyTorch's names. Throws a ConfigError if its names or shapes match none.
 *
 * @example
 * ```ts
 * import { createLayout, inferTrainingRuntimeFromPytorchStateDict } from 'nostrain/python';
 *
 * const layout = createLayout([
 *   { name: 'bias', shape: [1] },
 *   { name: 'weight', shape: [1, 2] },
 * ]);
 * const stateDict = { layout, values: new Float64Array(3) };
 * inferTrainingRuntimeFromPytorchStateDict(stateDict); // => 'linear-regression'
 * ```
 */
export const runtimeOfTorchStateDict = (stateDict: Params): RegressionTask =>
  runtimeOfState(importTorchStateDict(stateDict));

const runtimeNames: readonly RegressionTask[] = ['linear-regression', 'mlp-regression'];

/** Removes the first part of the names if all share it; returns no tensors if they do not. */
function withoutPrefix(tensors: readonly NamedTensor[]): readonly NamedTensor[] {
  const prefix = /^[^.]*\./.exec(tensors[0]?.name ?? '')?.[0];
  if (prefix === undefined || !tensors.every(({ name }) => name.startsWith(prefix))) return [];
  return tensors.map((each) => ({ ...each, name: each.name.slice(prefix.length) }));
}

function sorted(tensors: readonly NamedTensor[]): Params {
  const params = stateOfTensors(tensors);
  if (params.ok) return params.value;
  throw new ConfigError('state/model', `${params.issue.at}: ${params.issue.message}`);
}
