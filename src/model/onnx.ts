/** ONNX models as plain data, as far as training graphs need them, and their encoding. */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';

/** Element types, by the names used throughout `src/model`. */
export type DType = 'f16' | 'f32' | 'f64' | 'i64' | 'i32' | 'i8' | 'u8' | 'bool';

/** Element types by their number in the ONNX format. */
export const ELEMENT_TYPE: Readonly<Record<DType, number>> = {
  f32: 1,
  u8: 2,
  i8: 3,
  i32: 6,
  i64: 7,
  bool: 9,
  f16: 10,
  f64: 11,
};

/** Row-major dimensions; `[]` is a scalar. */
export type Shape = readonly number[];

export interface OnnxTensor {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  /** Little-endian elements; without them, they are given under this name when a session is created. */
  readonly bytes?: Uint8Array;
}

/** A named graph input or output; a dimension given as text is dynamic. */
export interface OnnxValue {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly (number | string)[];
}

export type OnnxAttribute =
  | { readonly int: number }
  | { readonly float: number }
  | { readonly text: string }
  | { readonly ints: readonly number[] }
  | { readonly graph: OnnxGraph };

export interface OnnxNode {
  readonly type: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, OnnxAttribute>>;
  /** Empty for the standard operators. */
  readonly domain: '' | 'com.microsoft';
}

export interface OnnxGraph {
  readonly name: string;
  readonly nodes: readonly OnnxNode[];
  readonly constants: readonly OnnxTensor[];
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
}

/**
 * Encodes a model: IR 9, opset 18, plus onnxruntime's com.microsoft operators. Fields are in ascending order of their
 * numbers in onnx.proto; defaults are left out, as in proto3.
 */
export function encodeModel(graph: OnnxGraph): Uint8Array {
  const to = new BinaryWriter();
  writeInt(to, 1, 9);
  writeText(to, 2, 'nostrain');
  writeGraph(to, 7, graph);
  const opsets = [
    ['', 18],
    ['com.microsoft', 1],
  ] as const;
  for (const [domain, version] of opsets) {
    writeMessage(to, 8, () => {
      writeText(to, 1, domain);
      writeInt(to, 2, version);
    });
  }
  return to.finish();
}

function writeGraph(to: BinaryWriter, field: number, graph: OnnxGraph): void {
  writeMessage(to, field, () => {
    for (const node of graph.nodes) writeNode(to, 1, node);
    writeText(to, 2, graph.name);
    for (const { name, dtype, shape, bytes } of graph.constants) {
      writeMessage(to, 5, () => {
        writeInts(to, 1, shape);
        writeInt(to, 2, ELEMENT_TYPE[dtype]);
        writeText(to, 8, name);
        if (bytes === undefined) writeExternal(to, name);
        else if (bytes.length > 0) to.tag(9, WireType.LengthDelimited).bytes(bytes);
      });
    }
    for (const input of graph.inputs) writeValue(to, 11, input);
    for (const output of graph.outputs) writeValue(to, 12, output);
  });
}

function writeExternal(to: BinaryWriter, name: string): void {
  writeMessage(to, 13, () => {
    writeText(to, 1, 'location');
    writeText(to, 2, name);
  });
  writeInt(to, 14, 1);
}

function writeNode(to: BinaryWriter, field: number, node: OnnxNode): void {
  const { type, inputs, outputs, attributes, domain } = node;
  writeMessage(to, field, () => {
    // an empty name stands for an optional input or output that is absent
    for (const name of inputs) to.tag(1, WireType.LengthDelimited).string(name);
    for (const name of outputs) to.tag(2, WireType.LengthDelimited).string(name);
    writeText(to, 3, outputs[0] ?? '');
    writeText(to, 4, type);
    for (const [name, value] of Object.entries(attributes)) {
      writeMessage(to, 5, () => {
        writeText(to, 1, name);
        writeAttribute(to, value);
      });
    }
    writeText(to, 7, domain);
  });
}

/** Writes an attribute, ending with its type (field 20), which onnxruntime requires. */
function writeAttribute(to: BinaryWriter, value: OnnxAttribute): void {
  if ('float' in value) {
    if (value.float !== 0) to.tag(2, WireType.Bit32).float(value.float);
    writeInt(to, 20, 1);
  } else if ('int' in value) {
    writeInt(to, 3, value.int);
    writeInt(to, 20, 2);
  } else if ('text' in value) {
    writeText(to, 4, value.text);
    writeInt(to, 20, 3);
  } else if ('graph' in value) {
    writeGraph(to, 6, value.graph);
    writeInt(to, 20, 5);
  } else {
    writeInts(to, 8, value.ints);
    writeInt(to, 20, 7);
  }
}

function writeValue(to: BinaryWriter, field: number, { name, dtype, shape }: OnnxValue): void {
  writeMessage(to, field, () => {
    writeText(to, 1, name);
    const tensorType = () => {
      writeInt(to, 1, ELEMENT_TYPE[dtype]);
      writeMessage(to, 2, () => {
        for (const dimension of shape) writeMessage(to, 1, () => writeDimension(to, dimension));
      });
    };
    writeMessage(to, 2, () => writeMessage(to, 1, tensorType));
  });
}

/** Writes a dimension as a size or a name; zero is written too. */
function writeDimension(to: BinaryWriter, dimension: number | string): void {
  if (typeof dimension === 'number') to.tag(1, WireType.Varint).int64(dimension);
  else to.tag(2, WireType.LengthDelimited).string(dimension);
}

function writeMessage(to: BinaryWriter, field: number, write: () => void): void {
  to.tag(field, WireType.LengthDelimited).fork();
  write();
  to.join();
}

function writeInt(to: BinaryWriter, field: number, value: number): void {
  if (value !== 0) to.tag(field, WireType.Varint).int64(value);
}

function writeInts(to: BinaryWriter, field: number, values: readonly number[]): void {
  if (values.length === 0) return;
  to.tag(field, WireType.LengthDelimited).fork();
  for (const value of values) to.int64(value);
  to.join();
}

function writeText(to: BinaryWriter, field: number, value: string): void {
  if (value !== '') to.tag(field, WireType.LengthDelimited).string(value);
}
