/** What the programs of `training-program.ts` read: the trained tensors in one flat vector, frozen ones apart, and the data. */
import { ConfigError } from '../base/errors.ts';
import type { Layout } from '../tensor/params.ts';
import type {
  Batch,
  DataForm,
  FrozenTensor,
  Model,
  Weights,
} from './architectures/architecture.ts';
import { tokenType } from './data/tokens.ts';
import type { Graph } from './graph/builder.ts';
import { ANY, type Value } from './graph/value.ts';
import { add, cast, gather, reshape, slice, split, widen } from './graph/verbs.ts';
import { partsOf } from './precision.ts';

/** The model's tensors: slices of the flat vector, or inputs of their own names where they are frozen. */
export function openWeights(
  graph: Graph,
  flat: Value,
  layout: Layout,
  { frozen = [] }: Model,
): Weights {
  const tensors = slices(flat, layout);
  for (const tensor of frozen) {
    tensors.set(tensor.name, openFrozen(graph, tensor, flat.dtype as 'f32' | 'f64'));
  }
  return (name) => {
    const tensor = tensors.get(name);
    if (tensor) return tensor;
    throw new ConfigError(
      'model/tensor',
      `Your model asks for weights(${JSON.stringify(name)}), but its tensors are: ${[...tensors.keys()].join(', ')}.`,
    );
  };
}

/** The inputs of one frozen tensor, as its numbers. */
export function openFrozen(graph: Graph, tensor: FrozenTensor, dtype: 'f32' | 'f64'): Value {
  const [first, ...others] = partsOf(tensor);
  if (first.dtype === 'f32') return graph.input(first.name, { ...first, dtype });
  return widen(
    [graph.input(first.name, first), ...others.map((part) => graph.input(part.name, part))],
    dtype,
  );
}

function slices(flat: Value, { slots }: Layout): Map<string, Value> {
  const pieces = split(
    flat,
    0,
    slots.map(({ size }) => size),
  );
  return new Map(slots.map(({ name, shape }, i) => [name, reshape(pieces[i]!, shape)] as const));
}

/** What decides over the data inputs of a program. */
interface Reading {
  readonly form: DataForm;
  readonly model: Model;
  readonly dtype: 'f32' | 'f64';
  /** Only some tokens count. */
  readonly masked: boolean;
}

/** Names of the inputs that hold data, or frozen tensors, as opposed to state. */
export const dataInputs = ({
  form,
  masked,
  model: { frozen = [] },
}: Reading): readonly string[] => [
  ...(form.kind === 'tokens' ? ['corpus', ...(masked ? ['counted'] : [])] : ['inputs', 'targets']),
  ...frozen.flatMap((tensor) => partsOf(tensor).map(({ name }) => name)),
];

/** Declares the data inputs, and gives the batch at any rows of them. */
export function openData(
  graph: Graph,
  { form, dtype, masked }: Omit<Reading, 'model'>,
): (rows: Value) => Batch {
  if (form.kind === 'rows') {
    if (masked) throw new ConfigError('training/data', 'only tokens can be left uncounted');
    const inputs = graph.input('inputs', { dtype, shape: [ANY, form.features] });
    const targets = graph.input('targets', { dtype, shape: [ANY] });
    return (rows) => ({ inputs: gather(inputs, rows), targets: gather(targets, rows) });
  }
  const { context, vocabulary } = form;
  const corpus = graph.input('corpus', { dtype: tokenType(vocabulary), shape: [ANY] });
  const mask = masked ? graph.input('counted', { dtype: 'u8', shape: [ANY] }) : undefined;
  const places = graph.constant({ dtype: 'i32', shape: [1, context + 1] }, [
    ...Array(context + 1).keys(),
  ]);
  return (rows) => {
    const at = add(reshape(rows, [rows.shape[0]!, 1]), places);
    const windows = cast(gather(corpus, at), 'i32'); // (B, T + 1)
    const batch = {
      inputs: slice(windows, 1, 0, context),
      targets: slice(windows, 1, 1, context + 1),
    };
    if (!mask) return batch;
    return { ...batch, counted: cast(slice(gather(mask, at), 1, 1, context + 1), dtype) };
  };
}
