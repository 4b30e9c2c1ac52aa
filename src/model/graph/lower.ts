/** Lowers a recorded graph to ONNX: one step, or many in a Loop; matrix products in half precision on request. */

import type { Arithmetic } from '../../run/spec/model-spec.ts';
import { halfToNumber, numberToHalf } from '../../tensor/dtype.ts';
import {
  type DType,
  ELEMENT_TYPE,
  type OnnxGraph,
  type OnnxNode,
  type OnnxTensor,
  type OnnxValue,
  type Shape,
} from '../onnx.ts';
import type { Graph, Step } from './builder.ts';
import {
  ANY,
  type Emitter,
  type GraphTarget,
  type NamedValue,
  type NodeOptions,
  type Value,
  type ValueType,
} from './rule.ts';

export interface Lowering {
  readonly target: GraphTarget;
}

/** Returns the ONNX graph. Inputs and outputs keep their declared names. */
export function lower(graph: Graph, name: string, { target }: Lowering): OnnxGraph {
  const names = new Map<Value, string>();
  for (const [input, value] of [...graph.inputs, ...graph.externals]) names.set(value, input);
  const sink = createSink(target);
  const produced = new Set(graph.steps.flatMap(({ outputs }) => outputs));
  for (const [output, value] of graph.outputs) {
    if (produced.has(value) && !names.has(value)) names.set(value, output);
  }
  const steps = needed(graph);
  const used = new Set([...graph.outputs.values(), ...steps.flatMap(({ inputs }) => inputs)]);
  for (const { value, elements } of graph.constants) {
    if (!used.has(value)) continue;
    const dtype = deviceType(value.dtype, target);
    const stored =
      dtype === value.dtype ? elements : Array.from(elements, deviceElement(value.dtype));
    names.set(value, sink.constant(dtype, value.shape, stored));
  }
  const named = (value: Value, op = 'value'): NamedValue => {
    const known = names.get(value) ?? `${op}.${value.id}`;
    names.set(value, known);
    return { name: known, dtype: deviceType(value.dtype, target), shape: value.shape };
  };
  const sinks = { f32: sink, f16: inHalf(sink, 'f16'), bf16: inHalf(sink, 'bf16') };
  for (const step of steps) {
    step.emit({
      inputs: step.inputs.map((value) => named(value)),
      outputs: step.outputs.map((value) => named(value, step.op)),
      to: sinks[step.products],
      uses: (i) => used.has(step.outputs[i]!),
    });
  }
  for (const [output, value] of graph.outputs) {
    const source = named(value).name;
    if (source !== output) sink.node('Identity', [source], { outputs: [output] });
  }
  return {
    name,
    nodes: sink.nodes,
    constants: [
      ...sink.constants,
      ...[...graph.externals].map(([name, { dtype, shape }]) => ({ name, dtype, shape })),
    ],
    inputs: [...graph.inputs].map(([input, { dtype, shape }]) =>
      declared([input, { dtype: deviceType(dtype, target), shape }]),
    ),
    outputs: [...graph.outputs].map(declared),
  };
}

/** Returns the type of data on a target. WebGPU gets f32 for f16, and unsigned bytes (value + 128) for signed ones. */
const deviceType = (dtype: DType, target: GraphTarget): DType =>
  target === 'webgpu' ? ((WEBGPU_TYPES as Partial<Record<DType, DType>>)[dtype] ?? dtype) : dtype;

const WEBGPU_TYPES = { f16: 'f32', i8: 'u8' } as const;

const deviceElement = (dtype: DType) => (element: number) =>
  dtype === 'i8' ? element + 128 : halfToNumber(numberToHalf(element));

/** Declares an input or output. Each dynamic dimension gets a unique name, so that no two must be equal. */
const declared = ([name, { dtype, shape }]: readonly [
  string,
  { readonly dtype: DType; readonly shape: Shape },
]): OnnxValue => ({
  name,
  dtype,
  shape: shape.map((dim, i) => (dim === ANY ? `${name}.${i}` : dim)),
});

/** Returns the steps that outputs depend on, in order. */
function needed(graph: Graph): readonly Step[] {
  const wanted = new Set(graph.outputs.values());
  const kept: Step[] = [];
  for (const step of [...graph.steps].reverse()) {
    if (!step.outputs.some((output) => wanted.has(output))) continue;
    for (const input of step.inputs) wanted.add(input);
    kept.push(step);
  }
  return kept.reverse();
}

interface Sink extends Emitter {
  readonly nodes: OnnxNode[];
  readonly constants: OnnxTensor[];
}

function createSink(target: GraphTarget): Sink {
  const nodes: OnnxNode[] = [];
  const constants: OnnxTensor[] = [];
  const known = new Map<string, string>();
  return {
    target,
    nodes,
    constants,
    node(type, inputs, options = {}) {
      const results = options.outputs ?? [`${type}.${nodes.length}`];
      const { attributes = {}, domain = '' } = options;
      nodes.push({ type, inputs, outputs: results, attributes, domain });
      return results[0]!;
    },
    constant(dtype, shape, elements) {
      const bytes = encodeElements(dtype, elements);
      const key = `${dtype} ${shape} ${new TextDecoder('latin1').decode(bytes)}`;
      const name = known.get(key) ?? `constant.${known.size}`;
      if (!known.has(key)) constants.push({ name, dtype, shape, bytes });
      known.set(key, name);
      return name;
    },
  };
}

/** Encodes elements as little-endian bytes. */
function encodeElements(dtype: DType, elements: ArrayLike<number>): Uint8Array {
  const width = { f16: 2, f32: 4, f64: 8, i64: 8, i32: 4, i8: 1, u8: 1, bool: 1 }[dtype];
  const bytes = new Uint8Array(width * elements.length);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < elements.length; i++) {
    const element = elements[i]!;
    if (dtype === 'f16') view.setUint16(2 * i, numberToHalf(element), true);
    else if (dtype === 'f32') view.setFloat32(4 * i, element, true);
    else if (dtype === 'f64') view.setFloat64(8 * i, element, true);
    else if (dtype === 'i64') view.setBigInt64(8 * i, BigInt(element), true);
    else if (dtype === 'i32') view.setInt32(4 * i, element, true);
    else bytes[i] = element;
  }
  return bytes;
}

/** The roles of the body's inputs and outputs; all other inputs come from outside the loop. */
export interface LoopRoles {
  /** i64 scalar input: the index of the step, from 0. */
  readonly iteration: string;
  /** Inputs `x` whose next value is the output `x.next`. */
  readonly carried: readonly string[];
  /** Outputs collected over all steps, with the names of the collections. */
  readonly collected: Readonly<Record<string, string>>;
}

/** Returns the name of the output with the next value of a carried input. */
export const next = (name: string): string => `${name}.next`;

const yes = { dtype: 'bool', shape: [], bytes: new Uint8Array([1]) } as const;

/** Returns a graph with an i64 scalar input `steps` that runs the body that many times. */
export function lowerLoop(body: Graph, roles: LoopRoles, lowering: Lowering): OnnxGraph {
  const { carried, iteration } = roles;
  const collected = Object.entries(roles.collected);
  const type = (name: string): ValueType => body.outputs.get(name)!;
  const stacked = collected.map(([name, plural]) => {
    const { dtype, shape } = type(name);
    return declared([plural, { dtype, shape: [ANY, ...shape] }]);
  });
  const outside: OnnxValue[] = [{ name: 'steps', dtype: 'i64', shape: [] }];
  for (const entry of body.inputs) if (entry[0] !== iteration) outside.push(declared(entry));
  return {
    name: 'train',
    nodes: [
      {
        type: 'Loop',
        inputs: ['steps', 'continue', ...carried],
        outputs: [...carried.map(next), ...stacked.map(({ name }) => name)],
        attributes: { body: { graph: loopBody(body, roles, lowering) } },
        domain: '',
      },
    ],
    constants: [{ ...yes, name: 'continue' }],
    inputs: outside,
    outputs: [...carried.map((name) => declared([next(name), type(next(name))])), ...stacked],
  };
}

/** Returns the body with names that do not shadow names outside the loop. */
function loopBody(body: Graph, { carried, iteration, collected }: LoopRoles, lowering: Lowering) {
  const plain = lower(body, 'step', lowering);
  const before = (name: string) => `${name}.before`;
  const after = (name: string) => `${name}.after`;
  const names = new Map(
    carried.flatMap((name) => [[name, before(name)] as const, [next(name), after(name)] as const]),
  );
  const inside = (list: readonly string[]) => list.map((name) => names.get(name) ?? name);
  const type = (name: string): ValueType => body.outputs.get(name)!;
  const state = carried.map((name) => ({ name, type: type(next(name)) }));
  const graph: OnnxGraph = {
    name: 'step',
    nodes: plain.nodes.map((node) => ({
      ...node,
      inputs: inside(node.inputs),
      outputs: inside(node.outputs),
    })),
    // a constant, because the loop reads it on the CPU; a GPU value would be copied after every step
    constants: [...plain.constants, { ...yes, name: 'continue.after' }],
    inputs: [
      { name: iteration, dtype: 'i64', shape: [] },
      { name: 'continue.before', dtype: 'bool', shape: [] },
      ...state.map(({ name, type }) => declared([before(name), type])),
    ],
    outputs: [
      { name: 'continue.after', dtype: 'bool', shape: [] },
      ...state.map(({ name, type }) => declared([after(name), type])),
      ...Object.keys(collected).map((name) => declared([name, type(name)])),
    ],
  };
  return graph;
}

export type Half = Exclude<Arithmetic, 'f32'>;

/** Type numbers in the ONNX format; no input or constant of a graph is bf16. */
const HALF_TYPE: Readonly<Record<Half, number>> = { f16: ELEMENT_TYPE.f16, bf16: 16 };

const PRODUCTS = new Set(['Gemm', 'MatMul', 'FusedMatMul']);

/**
 * Wraps an emitter so that matrix products are in half precision: operands and results are rounded to f16 or bf16 and
 * cast back to f32. Each operand is rounded once for all its readers. The CPU has no such kernels: there the same
 * roundings surround an f32 product, which differs from a GPU's only in the order of sums.
 */
function inHalf(to: Emitter, half: Half): Emitter {
  const rounded = new Map<string, string>();
  const cast = (name: string, type: number, options: NodeOptions = {}) =>
    to.node('Cast', [name], { ...options, attributes: { to: { int: type } } });
  const narrow = (name: string) => cast(name, HALF_TYPE[half]);
  const wide = (name: string, options?: NodeOptions) => cast(name, ELEMENT_TYPE.f32, options);
  const isCpu = to.target === 'cpu';
  const operand = (name: string): string => {
    const known = rounded.get(name) ?? (isCpu ? wide(narrow(name)) : narrow(name));
    rounded.set(name, known);
    return known;
  };
  return {
    target: to.target,
    constant: to.constant,
    node(type, inputs, options = {}) {
      if (!PRODUCTS.has(type) || options.exact) return to.node(type, inputs, options);
      const { outputs, ...productOptions } = options;
      const [a, b, c] = inputs;
      const product = to.node(type, [operand(a!), operand(b!)], productOptions);
      const last = outputs ? { outputs } : {};
      const halved = isCpu ? narrow(product) : product;
      if (c === undefined) return wide(halved, last);
      // the addend is not rounded
      const { beta } = productOptions.attributes ?? {};
      const share = beta && 'float' in beta ? beta.float : 1;
      const added = share === 1 ? c : to.node('Mul', [c, to.constant('f32', [], [share])]);
      return to.node('Add', [wide(halved), added], last);
    },
  };
}
