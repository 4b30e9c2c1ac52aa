/** Lowers a recorded graph to ONNX: removes dead ops, names values, deduplicates constants. */
import { halfToNumber, numberToHalf } from '../../tensor/dtype.ts';
import type { DType, OnnxGraph, OnnxNode, OnnxTensor, OnnxValue, Shape } from '../onnx.ts';
import type { Graph, Step } from './builder.ts';
import { inHalf } from './half.ts';
import type { Emitter, NamedValue, Target } from './rule.ts';
import { ANY, type Value } from './value.ts';

export interface Lowering {
  readonly target: Target;
}

/** A graph whose inputs and outputs keep the names they were declared with. */
export function lower(graph: Graph, name: string, { target }: Lowering): OnnxGraph {
  const names = new Map<Value, string>();
  for (const [input, value] of graph.inputs) names.set(value, input);
  const sink = createSink(target);
  const produced = new Set(graph.steps.flatMap(({ outputs }) => outputs));
  for (const [output, value] of graph.outputs) {
    if (produced.has(value) && !names.has(value)) names.set(value, output);
  }
  const steps = needed(graph);
  const used = new Set([...graph.outputs.values(), ...steps.flatMap(({ inputs }) => inputs)]);
  for (const { value, elements } of graph.constants) {
    if (!used.has(value)) continue;
    const dtype = heldType(value.dtype, target);
    const held = dtype === value.dtype ? elements : Array.from(elements, heldAs(value.dtype));
    names.set(value, sink.constant(dtype, value.shape, held));
  }
  const named = (value: Value, op = 'value'): NamedValue => {
    const known = names.get(value) ?? `${op}.${value.id}`;
    names.set(value, known);
    return { name: known, dtype: heldType(value.dtype, target), shape: value.shape };
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
    constants: sink.constants,
    inputs: [...graph.inputs].map(([input, { dtype, shape }]) =>
      declared([input, { dtype: heldType(dtype, target), shape }]),
    ),
    outputs: [...graph.outputs].map(declared),
  };
}

/**
 * How a target holds data of a type: WebGPU has f16 on some devices only, and takes f32 instead; it has no signed bytes, and takes
 * unsigned ones that are 128 higher.
 */
const heldType = (dtype: DType, target: Target): DType =>
  target === 'webgpu' ? ((HELD_BY_WEBGPU as Partial<Record<DType, DType>>)[dtype] ?? dtype) : dtype;

const HELD_BY_WEBGPU = { f16: 'f32', i8: 'u8' } as const;

const heldAs = (dtype: DType) => (element: number) =>
  dtype === 'i8' ? element + 128 : halfToNumber(numberToHalf(element));

/** Open dimensions get names of their own, so that none is forced to equal another. */
export const declared = ([name, { dtype, shape }]: readonly [
  string,
  { readonly dtype: DType; readonly shape: Shape },
]): OnnxValue => ({
  name,
  dtype,
  shape: shape.map((dim, i) => (dim === ANY ? `${name}.${i}` : dim)),
});

/** The steps some output depends on, in order. */
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

function createSink(target: Target): Sink {
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

/** Little-endian bytes of the elements. */
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
