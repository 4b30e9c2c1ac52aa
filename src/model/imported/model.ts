/** A model from an imported graph: records it for a batch size, and adds the loss of its task. */
import { ConfigError, NostrainError, wordsOf } from '../../base/errors.ts';
import type { ImportedModelName } from '../../run/data-forms.ts';
import type { Batch, CustomModel, DataForm, Weights } from '../architectures/architecture.ts';
import { createGraph, type Graph } from '../graph/builder.ts';
import { sizeOf, type Value } from '../graph/rule.ts';
import * as ops from '../graph/verbs.ts';
import type { Call, Statistic } from './call.ts';
import { canFold, fold } from './fold.ts';
import type { ImportedGraph, ImportedTensor } from './graph.ts';
import { operators } from './operators/table.ts';
import { type GraphOperand, isKnown, toValue } from './tensor.ts';

/** Where an operator without a derivative can be added. */
export const OPERATORS_PAGE =
  'https://github.com/nostrain/nostrain/blob/main/docs/own-models.md#operators';

interface Recording {
  readonly weights: Weights;
  readonly input: Value;
  readonly isTraining: boolean;
  /** Result to stop at; default: the output. */
  readonly until?: number;
  /** Called after each node. */
  onNode?(): void;
}

/** Maximum elements of all tensors that are computed while a graph is recorded. */
const MOST_KNOWN = 2 ** 26;
/** Maximum ops of a recorded graph: recurrent layers are unrolled. */
const MOST_STEPS = 2 ** 18;
/** Maximum bytes of the values of one example, which nothing here allocates, but onnxruntime does. */
const MOST_ACTIVATION_BYTES = 2 ** 36;

const tooLarge = (what: string): ConfigError =>
  new ConfigError('onnx/size', `the graph of the model makes ${what}`, {
    hint: 'export a smaller model, or one for shorter inputs',
  });

/** Records the graph for a batch. Returns its output, and the statistics that a training step moves. */
function record(
  { opset, input, tensors, constants, nodes, output }: ImportedGraph,
  { weights, input: given, isTraining, until = output.value, onNode }: Recording,
): { readonly output: Value; readonly statistics: readonly Statistic[] } {
  const { graph } = given;
  const float = weights(tensors[0]!.name).dtype as 'f32' | 'f64';
  const values: (GraphOperand | undefined)[] = [
    input.kind === 'int' ? ops.cast(given, 'i64') : given,
    ...tensors.map((tensor) => tensorValue(weights(tensor.name), tensor)),
    ...constants,
  ];
  const statistics: Statistic[] = [];
  let elements = 0;
  const batch = { exported: input.shape[0] ?? null, actual: given.shape[0]! };
  for (const { type, inputs, results, attributes } of nodes) {
    if (values[until] !== undefined) break;
    const call: Call = {
      type,
      graph,
      float,
      opset,
      attributes,
      results,
      isTraining,
      batch,
      inputs: inputs.map((at) => (at < 0 ? undefined : values[at])),
      track: (statistic) => statistics.push(statistic),
    };
    const made = resultsOf(call);
    for (let i = 0; i < results; i++) values.push(made[i]);
    for (const each of made) elements += each && isKnown(each) ? each.elements.length : 0;
    if (elements > MOST_KNOWN) throw tooLarge(`more than ${MOST_KNOWN} constants`);
    onNode?.();
  }
  const end = values[until];
  if (end) return { output: toValue(graph, end, float), statistics };
  throw new ConfigError('onnx/operator', 'the output is a result that operators here do not have', {
    hint: 'export the model with its first output only',
  });
}

const tensorValue = (stored: Value, { kind }: ImportedTensor): Value =>
  kind === 'float' ? stored : ops.cast(stored, kind === 'int' ? 'i64' : 'bool');

/** Computes a node whose inputs are known, else records it. Throws a ConfigError that names the operator. */
function resultsOf(call: Call): readonly (GraphOperand | undefined)[] {
  const { type, inputs } = call;
  try {
    const folded = inputs.every((each) => !each || isKnown(each)) ? fold(call) : undefined;
    if (folded) return folded;
    const operator = operators.get(type);
    if (operator) return operator(call);
  } catch (error) {
    if (error instanceof NostrainError) throw error;
    const shapes = inputs.map((each) => (each ? `[${each.shape}]` : 'nothing')).join(', ');
    throw unbuildable(`${type} of ${shapes} cannot be built: ${wordsOf(error)}`, error);
  }
  throw new ConfigError('onnx/operator', `${type} has no derivative here`, {
    hint: `replace it before exporting, or add it: ${OPERATORS_PAGE}`,
    data: { operator: type },
  });
}

/** Returns the name of the graph's first operator without a derivative; undefined if all operators have one. */
export const unknownOperator = ({ nodes }: ImportedGraph): string | undefined =>
  nodes.find(({ type }) => !operators.has(type) && !canFold(type))?.type;

const unbuildable = (message: string, cause: unknown): ConfigError =>
  new ConfigError('onnx/operator', message, {
    hint: 'check that onnxruntime runs the model',
    cause,
  });

/** Returns the model of a graph and a task. Throws a ConfigError (`onnx/…`) if the graph cannot be trained on it. */
export function importedModel(
  graph: ImportedGraph,
  name: ImportedModelName,
  context = 0,
): CustomModel {
  const tensors = graph.tensors.filter(({ role }) => role !== 'frozen');
  if (!tensors.some(({ role }) => role === 'trained')) {
    throw new ConfigError('onnx/weights', 'the model has no weights that can be trained', {
      hint: 'export it with its parameters (keep_initializers_as_inputs=False)',
    });
  }
  const { input, shape, statistics } = dryRun(graph, context);
  const rates = new Map(statistics.map((each) => [each.name, each.rate]));
  const task = taskOf(graph, name, { input, output: shape });
  const outputOf = (weights: Weights, given: Value, isTraining: boolean) =>
    record(graph, { weights, input: task.read(given), isTraining });
  const logitsEnd = endOfLogits(graph);
  return {
    architecture: 'own',
    data: task.data,
    tensors: tensors.map(({ name: each, shape: dims, role }) => ({
      name: each,
      shape: dims,
      start: 'zeros',
      ...(role === 'statistic' && { rate: rates.get(each) ?? 0 }),
    })),
    frozen: graph.tensors
      .filter(({ role }) => role === 'frozen')
      .map(({ name: each, shape: dims }) => ({ name: each, shape: dims })),
    predict: (weights, given) => task.predict(outputOf(weights, given, false).output),
    losses: (weights, batch, isTraining = false) => {
      const { output, statistics: moved } = record(graph, {
        weights,
        input: task.read(batch.inputs),
        isTraining,
        ...(task.isOfLogits && { until: logitsEnd }),
      });
      const losses = task.losses(output, batch);
      return moved.reduce(
        (total, { running, batch: now }) => ops.track(total, running, now),
        losses,
      );
    },
    ...(task.isOfLogits &&
      task.data.kind !== 'tokens' && {
        hits: (weights: Weights, batch: Batch) =>
          hitsOf(outputOf(weights, batch.inputs, false).output, batch),
      }),
  };
}

/** Returns the number of the value before a softmax at the end, whose logarithm the loss takes. */
function endOfLogits({ nodes, tensors, constants, output }: ImportedGraph): number {
  let count = 1 + tensors.length + constants.length;
  for (const { type, inputs, results } of nodes) {
    if (count === output.value && type === 'Softmax') return inputs[0]!;
    count += results;
  }
  return output.value;
}

const EXAMPLE_ROWS = 2;

/** Records the graph for two rows, to learn its shapes and statistics. */
function dryRun(imported: ImportedGraph, context: number) {
  const { input, tensors } = imported;
  const graph = createGraph();
  const open = input.shape.findIndex((dim, i) => i > 0 && dim === null);
  const isSequence = input.kind === 'int' && input.shape.length === 2;
  if (open >= 0 && !(isSequence && context > 0)) {
    throw new ConfigError('onnx/shape', `dimension ${open + 1} of ${input.name} is dynamic`, {
      hint: 'export the model with all dimensions fixed but the first, the batch',
    });
  }
  const shape = [EXAMPLE_ROWS, ...input.shape.slice(1).map((dim) => dim ?? context)];
  const dtype = input.kind === 'float' ? 'f32' : 'i32';
  const names = new Map<Value, string>();
  const opened = new Map<string, Value>();
  for (const { name, shape: dims } of tensors) {
    const value = graph.input(`tensor ${name}`, { dtype: 'f32', shape: dims });
    names.set(value, name);
    opened.set(name, value);
  }
  const made = record(imported, {
    weights: (name) => opened.get(name)!,
    input: graph.input('input', { dtype, shape }),
    isTraining: true,
    onNode: () => assertBounded(graph),
  });
  const bytes = bytesOf(graph);
  if (bytes > MOST_ACTIVATION_BYTES) throw tooLarge(`${bytes} bytes of values for each example`);
  const statistics = made.statistics.flatMap(({ running, rate }) => {
    const name = names.get(running);
    return name === undefined ? [] : [{ name, rate }];
  });
  return { input: shape, shape: made.output.shape, statistics, bytes };
}

/** Returns the bytes of the values that one example of a training step needs, without their gradients. */
export const activationBytes = (imported: ImportedGraph, context: number): number =>
  dryRun(imported, context).bytes;

function bytesOf({ steps }: Graph): number {
  const values = steps.flatMap(({ outputs }) => outputs);
  return (4 * values.reduce((sum, { shape }) => sum + sizeOf(shape), 0)) / EXAMPLE_ROWS;
}

/** Throws a ConfigError (`onnx/size`) if a graph has too many ops, or constants of too many elements. */
function assertBounded({ steps, constants }: Graph): void {
  const elements = constants.reduce((sum, each) => sum + each.elements.length, 0);
  if (steps.length <= MOST_STEPS && elements <= MOST_KNOWN) return;
  throw tooLarge(`${steps.length} operations with ${elements} constants`);
}

interface Task {
  readonly data: DataForm;
  readonly isOfLogits: boolean;
  /** Returns the input of the graph from the inputs of a batch. */
  read(inputs: Value): Value;
  losses(output: Value, batch: Batch): Value;
  predict(output: Value): Value;
}

interface Shapes {
  readonly input: readonly number[];
  readonly output: readonly number[];
}

function taskOf(graph: ImportedGraph, name: ImportedModelName, shapes: Shapes): Task {
  const task = tasks[name](graph, shapes);
  if (task) return task;
  const { input, output } = shapes;
  throw new ConfigError(
    'onnx/task',
    `the model maps [${['batch', ...input.slice(1)]}] to [${['batch', ...output.slice(1)]}]; ` +
      `${name} ${TASK_WORDS[name]}`,
    { hint: 'choose another --task: classify, regress or next-token' },
  );
}

const TASK_WORDS: Readonly<Record<ImportedModelName, string>> = {
  'onnx-images': 'maps square pictures (batch, channels, pixels, pixels) to (batch, classes)',
  'onnx-classes': 'maps rows of numbers (batch, features) to (batch, classes)',
  'onnx-rows': 'maps rows of numbers (batch, features) to one number each',
  'onnx-series': 'maps steps (batch, steps, channels) to (batch, horizon, channels)',
  'onnx-text': 'maps tokens (batch, tokens) to (batch, tokens, vocabulary)',
};

/** Returns the only model name that an input and a task allow. */
export function modelNameFor({ input }: ImportedGraph, task: string): ImportedModelName {
  const rank = input.shape.length;
  if (task === 'next-token') return 'onnx-text';
  if (task === 'classify') return rank === 4 ? 'onnx-images' : 'onnx-classes';
  return rank === 3 ? 'onnx-series' : 'onnx-rows';
}

const same = (value: Value): Value => value;

/** Losses of rows that belong to one of several classes. */
const classLosses = (logits: Value, { targets }: Batch): Value =>
  ops.crossEntropy(logits, ops.cast(targets, 'i32'));

const hitsOf = (logits: Value, { targets }: Batch): Value => {
  const [rows] = targets.shape as [number];
  const best = ops.cast(ops.reshape(ops.argMax(logits, 1), [rows]), 'i32');
  return ops.cast(ops.equal(best, ops.cast(targets, 'i32')), logits.dtype);
};

const tasks: Readonly<
  Record<ImportedModelName, (graph: ImportedGraph, shapes: Shapes) => Task | undefined>
> = {
  'onnx-images': (_, { input, output }) => {
    if (input.length !== 4 || output.length !== 2) return undefined;
    // tf2onnx writes channels last, as the data has them
    const isLast = input[1]! > 3 && input[3]! <= 3;
    const [channels, side] = isLast ? [input[3]!, input[1]!] : [input[1]!, input[2]!];
    if (![1, 3].includes(channels) || side !== (isLast ? input[2] : input[3])) return undefined;
    return {
      data: { kind: 'images', pixels: side, channels, classes: output[1]! },
      isOfLogits: true,
      read: (pictures) => (isLast ? pictures : ops.transpose(pictures, [0, 3, 1, 2])),
      losses: classLosses,
      predict: same,
    };
  },
  'onnx-classes': ({ input: { kind } }, { input, output }) =>
    input.length !== 2 || output.length !== 2 || kind !== 'float'
      ? undefined
      : {
          data: { kind: 'rows', features: input[1]! },
          isOfLogits: true,
          read: same,
          losses: classLosses,
          predict: same,
        },
  'onnx-rows': ({ input: { kind } }, { input, output }) => {
    const isNumber = output.length === 1 || (output.length === 2 && output[1] === 1);
    if (input.length !== 2 || kind !== 'float' || !isNumber) return undefined;
    const numbers = (made: Value) => ops.reshape(made, [made.shape[0]!]);
    return {
      data: { kind: 'rows', features: input[1]! },
      isOfLogits: false,
      read: same,
      losses: (made, { targets }) => ops.square(ops.sub(numbers(made), targets)),
      predict: numbers,
    };
  },
  'onnx-series': (_, { input, output }) => {
    if (input.length !== 3 || output.length !== 3 || input[2] !== output[2]) return undefined;
    return {
      data: { kind: 'series', context: input[1]!, channels: input[2]!, horizon: output[1]! },
      isOfLogits: false,
      read: same,
      losses: (made, { targets }) => ops.reduceMean(ops.square(ops.sub(made, targets)), [1, 2]),
      predict: (made) => ops.reshape(made, [...made.shape, 1]),
    };
  },
  'onnx-text': ({ input: { kind } }, { input, output }) => {
    const isOfTokens = input.length === 2 && output.length === 3 && input[1] === output[1];
    if (!isOfTokens || kind !== 'int') return undefined;
    const vocabulary = output[2]!;
    const flat = (made: Value) => ops.reshape(made, [-1, vocabulary]);
    return {
      data: { kind: 'tokens', context: input[1]!, vocabulary },
      isOfLogits: true,
      read: same,
      losses: (made, { targets }) =>
        ops.reshape(ops.crossEntropy(flat(made), ops.flatten(targets)), targets.shape),
      predict: flat,
    };
  },
};
