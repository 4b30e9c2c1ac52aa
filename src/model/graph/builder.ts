/** The graph builder: records inputs, constants and ops, and checks shapes and types as each op is added. */
import type { Arithmetic } from '../../run/spec/model-spec.ts';
import { ops } from './ops/table.ts';
import type { Derive, Emission, OpName } from './rule.ts';
import { type Recorder, sizeOf, type Value, type ValueType } from './rule.ts';

/** One recorded op, closed over its rule and attributes. */
export interface Step {
  readonly op: OpName;
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  emit(named: Omit<Emission<never>, 'attributes'>): void;
  /** Computes the gradients of the inputs from those of the outputs; undefined if gradients stop here. */
  readonly derive:
    | ((
        grads: readonly (Value | undefined)[],
        wants: (i: number) => boolean,
      ) => ReturnType<Derive<never>>)
    | undefined;
  /** Records the same op with other operands. */
  recompute(inputs: readonly Value[]): Step;
  /** Whether only the first output has a gradient; the others are saved for the derivative. */
  readonly saves: boolean;
  /** Type of its matrix products. */
  readonly products: Arithmetic;
}

export interface Constant {
  readonly value: Value;
  readonly elements: ArrayLike<number>;
}

/** The steps `from` to `to - 1`, which compute one value from another. */
export interface Segment {
  readonly from: number;
  readonly to: number;
  readonly input: Value;
  readonly output: Value;
}

/** A graph of ops under construction. */
export interface Graph extends Recorder {
  readonly inputs: ReadonlyMap<string, Value>;
  readonly outputs: ReadonlyMap<string, Value>;
  readonly constants: readonly Constant[];
  readonly externals: ReadonlyMap<string, Value>;
  readonly steps: readonly Step[];
  readonly segments: readonly Segment[];
  input(name: string, type: ValueType): Value;
  output(name: string, value: Value): void;
  /** Type of matrix products in ops recorded from now on. */
  products: Arithmetic;
}

/** Creates an empty graph. */
export function createGraph(): Graph {
  const inputs = new Map<string, Value>();
  const outputs = new Map<string, Value>();
  const constants: Constant[] = [];
  const steps: Step[] = [];
  const segments: Segment[] = [];
  const externals = new Map<string, Value>();
  const widened = new Map<Value, readonly Value[]>();
  let count = 0;
  const create = ({ dtype, shape }: ValueType): Value => ({ dtype, shape, id: count++, graph });
  const graph: Graph = {
    inputs,
    outputs,
    constants,
    externals,
    steps,
    segments,
    products: 'f32',
    input(name, type) {
      if (inputs.has(name)) throw new TypeError(`input ${name} exists already`);
      const value = create(type);
      inputs.set(name, value);
      return value;
    },
    output(name, value) {
      if (outputs.has(name)) throw new TypeError(`output ${name} exists already`);
      outputs.set(name, value);
    },
    constant(type, elements) {
      if (elements.length !== sizeOf(type.shape)) {
        throw new TypeError(`${elements.length} elements do not fill [${type.shape}]`);
      }
      const value = create(type);
      constants.push({ value, elements });
      return value;
    },
    external(part) {
      const value = externals.get(part.name) ?? create(part);
      externals.set(part.name, value);
      return value;
    },
    partsOf: (value) => widened.get(value),
    segment(input, build) {
      const from = steps.length;
      const output = build(input);
      segments.push({ from, to: steps.length, input, output });
      return output;
    },
    apply(op, operands, attributes) {
      if (operands.some((value) => value.graph !== graph)) {
        throw new TypeError(`${op} got a value of another graph`);
      }
      const rule = ops[op];
      const results = rule.infer(operands, attributes).map(create);
      if (op === 'widen') widened.set(results[0]!, operands);
      const { derive } = rule;
      const operation = { inputs: operands, outputs: results, attributes };
      steps.push({
        op,
        inputs: operands,
        outputs: results,
        saves: rule.saves === true,
        products: graph.products,
        recompute: (inputs) => {
          graph.apply(op, inputs, attributes);
          return steps.at(-1)!;
        },
        emit: (named) => rule.emit({ ...named, attributes }),
        derive:
          typeof derive === 'string'
            ? undefined
            : (grads, wants) => derive({ ...operation, grads, grad: grads[0]!, wants }),
      });
      return results;
    },
  };
  return graph;
}
