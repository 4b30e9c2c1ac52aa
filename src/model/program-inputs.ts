/** What the programs of `training-program.ts` read: the trained tensors in one flat vector, frozen ones apart; the data is in `forms`. */
import { ConfigError } from '../base/errors.ts';
import type { Layout } from '../tensor/params.ts';
import type { DataForm, FrozenTensor, Model, Weights } from './architectures/architecture.ts';
import type { Reading } from './forms/form.ts';
import { rulesOf } from './forms/table.ts';
import type { Graph } from './graph/builder.ts';
import type { Value } from './graph/value.ts';
import { reshape, split, widen } from './graph/verbs.ts';
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

/** Names of the inputs that hold data, or frozen tensors, as opposed to state. */
export const dataInputs = (
  form: DataForm,
  { frozen = [] }: Model,
  { masked }: Pick<Reading, 'masked'>,
): readonly string[] => [
  ...rulesOf(form).inputs(masked),
  ...frozen.flatMap((tensor) => partsOf(tensor).map(({ name }) => name)),
];
