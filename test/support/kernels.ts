/**
 * Which operators onnxruntime 1.30 computes on CUDA and on WebGPU, for which types, at opset 18. CUDA: from docs/OperatorKernels.md of
 * its sources; WebGPU: from which sessions of one node open without the CPU, and that page's sources where none can be opened.
 */
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import type { DType } from 'nostrain/model';
import { ELEMENT_TYPE } from '../../src/model/onnx.ts';

export type Gpu = 'cuda' | 'webgpu';

const REAL = 'f32 f16';
const NUMBERS = 'f32 f16 i32';
const DOUBLE = 'f64 f32 f16';
const MULTIPLIED = 'f64 f32 f16 bf16';
const COMPARED = 'f64 f32 f16 i32 i64';
const ANYTHING = 'f64 f32 f16 i32 i64 i8 u8 bool';

/** The names of operators with one set of types. */
const typed = (types: string, names: string): Readonly<Record<string, string>> =>
  Object.fromEntries(names.split(' ').map((name) => [name, types]));

const kernels: Readonly<Record<Gpu, Readonly<Record<string, string>>>> = {
  cuda: {
    ...typed(DOUBLE, 'Cos Sin Erf Exp Floor Log Sqrt Sigmoid Tanh Relu Softmax LogSoftmax ArgMax'),
    ...typed(DOUBLE, 'LayerNormalization SimplifiedLayerNormalization'),
    ...typed(MULTIPLIED, 'Gemm MatMul com.microsoft.FusedMatMul'),
    ...typed(DOUBLE, 'Conv ConvTranspose MaxPool'),
    ...typed(REAL, 'com.microsoft.RotaryEmbedding'),
    ...typed('f64 f32 f16 i32 i64 i8 u8', 'Abs Sign Add Sub Mul Div'),
    ...typed('f64 f32 f16 i32 i64 i8', 'Neg'),
    ...typed(COMPARED, 'Greater Less Max Min Pow ReduceMax ReduceSum'),
    ...typed('f64 f32 f16 i32 i64 bool', 'Equal'),
    ...typed('f64 f32 f16 i32 i64 u8', 'Where'),
    ...typed('f64 f32 f16 i64 i8 u8', 'Clip'),
    ...typed('f64 f32 f16 bool', 'Pad'),
    ...typed('f64 f32 f16 i32', 'ReduceMean'),
    ...typed('i8 u8', 'DequantizeLinear'),
    ...typed('bool', 'Not And Or'),
    ...typed(`${ANYTHING} bf16`, 'Cast'),
    ...typed(ANYTHING, 'Concat Expand Gather GatherElements Identity Reshape ScatterElements'),
    ...typed(ANYTHING, 'Shape Slice Split Squeeze Transpose Unsqueeze Loop'),
  },
  webgpu: {
    ...typed(REAL, 'Abs Neg Cos Sin Erf Exp Floor Log Sqrt Sigmoid Tanh Relu Softmax MatMul Slice'),
    ...typed(REAL, 'Conv ConvTranspose MaxPool'),
    ...typed(REAL, 'GatherElements LayerNormalization SimplifiedLayerNormalization'),
    ...typed(REAL, 'com.microsoft.RotaryEmbedding'),
    ...typed(NUMBERS, 'Add Sub Mul Div Pow Max Min Equal Less Greater Gemm Clip ArgMax CumSum'),
    ...typed(NUMBERS, 'ReduceSum ReduceMean ReduceMax Split Concat Pad Transpose Squeeze Shape'),
    ...typed(NUMBERS, 'ScatterElements Identity'),
    ...typed('f32 f16 i32 bool', 'Where Unsqueeze'),
    ...typed('f32 f16 i32 u8 bool', 'Cast Gather Reshape Expand'),
    ...typed('i32 i8 u8', 'DequantizeLinear'),
    ...typed('bool', 'Not And'),
  },
};

/** Inputs that kernels of GPUs read in the memory of the CPU, from the second one on unless said. */
const READ_ON_CPU = new Set(
  'Reshape Expand Slice Split Squeeze Unsqueeze Pad ReduceSum ReduceMean ReduceMax Clip'.split(' '),
);

/** The standard promises a shader of WebGPU so many. */
const MOST_BUFFERS = 8;

/** What of a program a GPU could not do by itself: nodes without a kernel, copies between them, too many buffers. */
export function gapsOf(model: Uint8Array, gpu: Gpu): readonly string[] {
  const gaps = new Set<string>();
  audit(graphIn(fieldsOf(model)(7)[0]!), gpu, new Map(), gaps);
  return [...gaps].sort();
}

const decoder = new TextDecoder();

/** What a message of the format has in its length-delimited fields, and in those that are whole numbers. */
function fieldsOf(bytes: Uint8Array) {
  const reader = new BinaryReader(bytes);
  const parts = new Map<number, Uint8Array[]>();
  const numbers = new Map<number, number>();
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (type === WireType.LengthDelimited) {
      const list = parts.get(field);
      if (list) list.push(reader.bytes());
      else parts.set(field, [reader.bytes()]);
    } else if (type === WireType.Varint) numbers.set(field, Number(reader.int64()));
    else reader.skip(type, field);
  }
  const of = (field: number): readonly Uint8Array[] => parts.get(field) ?? [];
  return Object.assign(of, {
    texts: (field: number) => of(field).map((each) => decoder.decode(each)),
    number: (field: number) => numbers.get(field) ?? 0,
  });
}

interface GraphProto {
  readonly node: readonly NodeProto[];
  readonly initializer: readonly Named[];
  readonly input: readonly Named[];
}

interface Named {
  readonly name: string;
  readonly dataType: number;
}

interface NodeProto {
  readonly opType: string;
  readonly domain: string;
  readonly input: readonly string[];
  readonly output: readonly string[];
  readonly attribute: readonly {
    readonly name: string;
    readonly i: number;
    readonly g: GraphProto | undefined;
  }[];
}

/** Field numbers are those of onnx.proto. */
function graphIn(bytes: Uint8Array): GraphProto {
  const graph = fieldsOf(bytes);
  return {
    node: graph(1).map(nodeIn),
    initializer: graph(5).map((each) => {
      const tensor = fieldsOf(each);
      return { name: tensor.texts(8)[0]!, dataType: tensor.number(2) };
    }),
    input: graph(11).map((each) => {
      const value = fieldsOf(each);
      const tensorType = fieldsOf(fieldsOf(value(2)[0]!)(1)[0]!);
      return { name: value.texts(1)[0]!, dataType: tensorType.number(1) };
    }),
  };
}

function nodeIn(bytes: Uint8Array): NodeProto {
  const node = fieldsOf(bytes);
  return {
    input: node.texts(1),
    output: node.texts(2),
    opType: node.texts(4)[0]!,
    domain: node.texts(7)[0] ?? '',
    attribute: node(5).map((each) => {
      const attribute = fieldsOf(each);
      const [body] = attribute(6);
      return {
        name: attribute.texts(1)[0]!,
        i: attribute.number(3),
        g: body && graphIn(body),
      };
    }),
  };
}

/** What lies between the nodes of a program, one type more than its inputs and constants have. */
type Type = DType | 'bf16';

const names = Object.entries({ ...ELEMENT_TYPE, bf16: 16 }) as readonly (readonly [Type, number])[];
const dtypeOf = (type: number): Type => names.find(([, number]) => number === type)![0];

function audit(
  { node, initializer, input }: GraphProto,
  gpu: Gpu,
  outside: ReadonlyMap<string, Type>,
  gaps: Set<string>,
): void {
  const types = new Map(outside);
  for (const { name, dataType } of [...input, ...initializer]) types.set(name, dtypeOf(dataType));
  const onCpu = new Set(initializer.map(({ name }) => name));
  for (const each of node) {
    const type = types.get(each.input[each.opType === 'Where' ? 1 : 0]!)!;
    const name = each.domain === '' ? each.opType : `${each.domain}.${each.opType}`;
    if (each.opType === 'Loop') {
      if (gpu === 'webgpu') gaps.add('Loop');
      audit(each.attribute[0]!.g!, gpu, types, gaps);
    } else if (!kernels[gpu][name]?.split(' ').includes(type)) {
      gaps.add(`${name} of ${type}`);
    }
    const rest = READ_ON_CPU.has(each.opType) ? each.input.slice(1) : [];
    if (rest.some((read) => !onCpu.has(read))) gaps.add(`${name} reads a computed shape`);
    const buffers = each.input.length - rest.length + each.output.filter(Boolean).length;
    const isShader = gpu === 'webgpu' && each.opType !== 'Loop';
    if (isShader && buffers > MOST_BUFFERS) gaps.add(`${name} with ${buffers} buffers`);
    // a shape is known without looking at the elements
    if (each.opType === 'Shape') onCpu.add(each.output[0]!);
    // the kernel of WebGPU throws if positions are requested
    const isIndexed = each.opType === 'MaxPool' && each.output.filter(Boolean).length > 1;
    if (isIndexed && gpu === 'webgpu') gaps.add('MaxPool with positions');
    for (const [i, output] of each.output.entries()) {
      types.set(output, isIndexed && i === 1 ? 'i64' : resultOf(each, types));
    }
  }
}

function resultOf({ opType, input, attribute }: NodeProto, types: ReadonlyMap<string, Type>): Type {
  if (/^(Equal|Less|Greater|Not|And|Or)$/.test(opType)) return 'bool';
  if (/^(Shape|ArgMax)$/.test(opType)) return 'i64';
  if (opType === 'DequantizeLinear') return 'f32';
  if (opType === 'Where') return types.get(input[1]!)!;
  const to = attribute.find(({ name }) => opType === 'Cast' && name === 'to');
  return to ? dtypeOf(to.i) : types.get(input[0]!)!;
}
