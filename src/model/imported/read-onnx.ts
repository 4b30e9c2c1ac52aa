/**
 * Reads the ONNX file format (onnx.proto3, IR 3 to 13). A file is hostile: every count and length is bounded before
 * anything is allocated for it, and subgraphs are named, not read.
 */
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { ConfigError, NostrainError, wordsOf } from '../../base/errors.ts';
import { readNumbers, type StoredType } from '../../tensor/dtype.ts';
import { MOST_ELEMENTS, type Tensor, type TensorKind } from './tensor.ts';

/** An attribute value; a subgraph only by the word `graph`. */
export type FileAttribute =
  | { readonly numbers: readonly number[]; readonly isList: boolean }
  | { readonly texts: readonly string[] }
  | { readonly tensor: FileTensor }
  | 'graph';

export interface FileNode {
  readonly type: string;
  /** Empty for the standard operators. */
  readonly domain: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, FileAttribute>>;
}

/** A tensor of a file, with its elements in the file or in one next to it. */
export interface FileTensor {
  readonly name: string;
  readonly kind: TensorKind;
  /** Number of its element type in the format. */
  readonly type: number;
  readonly shape: readonly number[];
  /** Decodes the elements. Throws a ConfigError (`onnx/file`) if their number differs from the shape. */
  read(): Tensor;
}

/** An input or output of the graph; null is a dynamic dimension. */
export interface FileValue {
  readonly name: string;
  readonly kind: TensorKind;
  readonly shape: readonly (number | null)[] | undefined;
}

export interface OnnxFile {
  readonly opsets: ReadonlyMap<string, number>;
  readonly nodes: readonly FileNode[];
  readonly initializers: readonly FileTensor[];
  readonly inputs: readonly FileValue[];
  readonly outputs: readonly FileValue[];
}

/** Returns the bytes of a file next to the model, named by the model. Throws if it is missing. */
export type ReadBeside = (name: string) => Uint8Array;

const MOST_NODES = 20_000;
const MOST_TENSORS = 20_000;
/** Maximum inputs, outputs, attributes or dimensions of one node or tensor. */
const MOST_PARTS = 4096;
const MOST_RANK = 8;

export const badFile = (what: string, hint = 'export the model again'): ConfigError =>
  new ConfigError('onnx/file', `the ONNX file is damaged: ${what}`, { hint });

/** Reads a model. Throws a ConfigError (`onnx/file`) with what is wrong. */
export function readOnnx(bytes: Uint8Array, beside: ReadBeside): OnnxFile {
  try {
    return readModel(bytes, beside);
  } catch (error) {
    if (error instanceof NostrainError) throw error;
    throw badFile(wordsOf(error), TRUNCATED);
  }
}

const TRUNCATED = 'export it again: the file is truncated, or it is not an ONNX model';

type Visit = (field: number, from: BinaryReader, wire: WireType) => boolean;

/** Calls `visit` for each field, and skips those for which it returns false. */
function eachField(bytes: Uint8Array, visit: Visit): void {
  const from = new BinaryReader(bytes);
  while (from.pos < from.len) {
    const [field, wire] = from.tag();
    if (!visit(field, from, wire)) from.skip(wire, field);
  }
}

function push<T>(list: T[], item: T, most: number, what: string): true {
  if (list.length >= most) throw badFile(`it has more than ${most} ${what}`);
  list.push(item);
  return true;
}

function readModel(bytes: Uint8Array, beside: ReadBeside): OnnxFile {
  const opsets = new Map<string, number>();
  let graph: Uint8Array | undefined;
  eachField(bytes, (field, from) => {
    if (field === 7) graph = from.bytes();
    else if (field === 8) readOpset(from.bytes(), opsets);
    else return false;
    return true;
  });
  if (graph === undefined || opsets.size === 0) throw badFile('it has no graph', TRUNCATED);
  return { opsets, ...readGraph(graph, beside) };
}

function readOpset(bytes: Uint8Array, opsets: Map<string, number>): void {
  let [domain, version] = ['', 0];
  eachField(bytes, (field, from) => {
    if (field === 1) domain = from.string();
    else if (field === 2) version = Number(from.int64());
    else return false;
    return true;
  });
  if (opsets.size < MOST_PARTS) opsets.set(domain === 'ai.onnx' ? '' : domain, version);
}

function readGraph(bytes: Uint8Array, beside: ReadBeside): Omit<OnnxFile, 'opsets'> {
  const nodes: FileNode[] = [];
  const initializers: FileTensor[] = [];
  const inputs: FileValue[] = [];
  const outputs: FileValue[] = [];
  eachField(bytes, (field, from) => {
    if (field === 1) return push(nodes, readNode(from.bytes(), beside), MOST_NODES, 'nodes');
    if (field === 5) {
      return push(initializers, readTensor(from.bytes(), beside), MOST_TENSORS, 'initializers');
    }
    if (field === 11) return push(inputs, readValue(from.bytes()), MOST_TENSORS, 'inputs');
    if (field === 12) return push(outputs, readValue(from.bytes()), MOST_PARTS, 'outputs');
    if (field === 15) throw badFile('it has sparse initializers', 'store them as dense tensors');
    return false;
  });
  return { nodes, initializers, inputs, outputs };
}

/** Reads one node. */
export function readNode(bytes: Uint8Array, beside: ReadBeside): FileNode {
  const inputs: string[] = [];
  const outputs: string[] = [];
  const attributes: [string, FileAttribute][] = [];
  let [type, domain] = ['', ''];
  eachField(bytes, (field, from) => {
    if (field === 1) return push(inputs, from.string(), MOST_PARTS, 'inputs of a node');
    if (field === 2) return push(outputs, from.string(), MOST_PARTS, 'outputs of a node');
    if (field === 5) {
      return push(attributes, readAttribute(from.bytes(), beside), MOST_PARTS, 'attributes');
    }
    if (field === 4) type = from.string();
    else if (field === 7) domain = from.string();
    else return false;
    return true;
  });
  const named = Object.fromEntries(attributes);
  return { type, domain: domain === 'ai.onnx' ? '' : domain, inputs, outputs, attributes: named };
}

/** Types of attributes by their number in the format. */
const ATTRIBUTES = {
  float: 1,
  int: 2,
  text: 3,
  tensor: 4,
  graph: 5,
  texts: 8,
  graphs: 10,
} as const;

function readAttribute(bytes: Uint8Array, beside: ReadBeside): [string, FileAttribute] {
  const numbers: number[] = [];
  const texts: string[] = [];
  let [name, type] = ['', 0];
  let tensor: FileTensor | undefined;
  const limit = (count: number) => {
    if (count > MOST_ELEMENTS) throw badFile(`an attribute has ${count} elements`);
  };
  eachField(bytes, (field, from, wire) => {
    if (field === 1) name = from.string();
    else if (field === 2) numbers.push(from.float());
    else if (field === 3) numbers.push(Number(from.int64()));
    else if (field === 4 || field === 9) texts.push(new TextDecoder().decode(from.bytes()));
    else if (field === 5) tensor = readTensor(from.bytes(), beside);
    else if (field === 7) each(from, wire, (item) => numbers.push(item.float()));
    else if (field === 8) each(from, wire, (item) => numbers.push(Number(item.int64())));
    else if (field === 20) type = from.int32();
    else return false;
    limit(numbers.length + texts.length);
    return true;
  });
  if (type === ATTRIBUTES.graph || type === ATTRIBUTES.graphs) return [name, 'graph'];
  if (tensor) return [name, { tensor }];
  if (type === ATTRIBUTES.text || type === ATTRIBUTES.texts) return [name, { texts }];
  // a single zero may be left out
  const isList = type !== ATTRIBUTES.float && type !== ATTRIBUTES.int;
  return [name, { numbers: isList || numbers.length > 0 ? numbers : [0], isList }];
}

/** Reads the items of a repeated field, packed or not. */
function each(from: BinaryReader, wire: WireType, read: (item: BinaryReader) => void): void {
  if (wire !== WireType.LengthDelimited) {
    read(from);
    return;
  }
  const packed = new BinaryReader(from.bytes());
  while (packed.pos < packed.len) read(packed);
}

interface ElementType {
  readonly kind: TensorKind;
  readonly stored: StoredType;
  readonly bytes: number;
}

const type = (kind: TensorKind, stored: StoredType, bytes: number): ElementType => ({
  kind,
  stored,
  bytes,
});

/** Element types by their number in the format. */
const TYPES: Readonly<Record<number, ElementType>> = {
  1: type('float', 'f32', 4),
  2: type('int', 'u8', 1),
  3: type('int', 'i8', 1),
  4: type('int', 'u16', 2),
  5: type('int', 'i16', 2),
  6: type('int', 'i32', 4),
  7: type('int', 'i64', 8),
  9: type('bool', 'bool', 1),
  10: type('float', 'f16', 2),
  11: type('float', 'f64', 8),
  12: type('int', 'u32', 4),
  13: type('int', 'u64', 8),
  16: type('float', 'bf16', 2),
};

/** Returns the kind of an element type by its number in the format. Throws if it cannot be read. */
export function kindOf(number: number): TensorKind {
  const known = TYPES[number];
  if (known) return known.kind;
  throw badFile(`it has a tensor of the element type ${number}`, 'use float, int or bool tensors');
}

/** Reads the description of a tensor, but not its elements. */
export function readTensor(bytes: Uint8Array, beside: ReadBeside): FileTensor {
  const shape: number[] = [];
  const listed: number[] = [];
  const external = new Map<string, string>();
  let [name, number] = ['', 0];
  let raw: Uint8Array | undefined;
  eachField(bytes, (field, from, wire) => {
    if (field === 1) {
      each(from, wire, (item) => push(shape, Number(item.int64()), MOST_RANK, 'dimensions'));
    } else if (field === 2) number = from.int32();
    else if (field === 4) each(from, wire, (item) => listed.push(item.float()));
    else if (field === 5) each(from, wire, (item) => listed.push(item.int32()));
    else if (field === 7) each(from, wire, (item) => listed.push(Number(item.int64())));
    else if (field === 10) each(from, wire, (item) => listed.push(item.double()));
    else if (field === 11) each(from, wire, (item) => listed.push(Number(item.uint64())));
    else if (field === 8) name = from.string();
    else if (field === 9) raw = from.bytes();
    else if (field === 13) readEntry(from.bytes(), external);
    else return false;
    return true;
  });
  const kind = kindOf(number);
  const { stored, bytes: width } = TYPES[number]!;
  const size = checkedSize(name, shape);
  return {
    name,
    kind,
    type: number,
    shape,
    read() {
      const from = external.size > 0 ? cut(beside, external, name, size * width) : raw;
      // halves are listed as the integers of their bits
      const isBits = from === undefined && (stored === 'f16' || stored === 'bf16');
      const listedBytes = isBits ? bitsOf(listed) : from;
      const count = listedBytes === undefined ? listed.length : listedBytes.length / width;
      if (count !== size) {
        throw badFile(`tensor ${name} is [${shape}], but has ${count} elements`, TRUNCATED);
      }
      const elements =
        listedBytes === undefined ? Float64Array.from(listed) : readNumbers(stored, listedBytes);
      return { kind, shape, elements: kind === 'float' ? Float32Array.from(elements) : elements };
    },
  };
}

const bitsOf = (listed: readonly number[]): Uint8Array =>
  new Uint8Array(Uint16Array.from(listed).buffer);

function checkedSize(name: string, shape: readonly number[]): number {
  const size = shape.reduce((product, dim) => product * dim, 1);
  const isGood = shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0);
  if (isGood && size <= MOST_ELEMENTS) return size;
  throw badFile(
    `tensor ${name} is [${shape}]; a tensor has at most ${MOST_ELEMENTS} elements`,
    'use a smaller model',
  );
}

function readEntry(bytes: Uint8Array, into: Map<string, string>): void {
  let [key, value] = ['', ''];
  eachField(bytes, (field, from) => {
    if (field === 1) key = from.string();
    else if (field === 2) value = from.string();
    else return false;
    return true;
  });
  if (into.size < MOST_RANK) into.set(key, value);
}

/** Returns the range of a file next to the model that holds a tensor. */
function cut(
  beside: ReadBeside,
  entry: ReadonlyMap<string, string>,
  name: string,
  size: number,
): Uint8Array {
  const location = entry.get('location') ?? '';
  if (!/^(?!\.{1,2}$)[^/\\\p{Cc}]{1,200}$/u.test(location)) {
    throw badFile(
      `tensor ${name} is in ${JSON.stringify(location)}, which is not a file next to the model`,
      'export the model with its data file in the same folder',
    );
  }
  const bytes = beside(location);
  const from = Number(entry.get('offset') ?? 0);
  if (Number.isSafeInteger(from) && from >= 0 && from + size <= bytes.length) {
    return bytes.subarray(from, from + size);
  }
  throw badFile(
    `tensor ${name} is at byte ${from} of ${location}, which has ${bytes.length} bytes`,
    'copy the data file again, complete',
  );
}

function readValue(bytes: Uint8Array): FileValue {
  let name = '';
  let element = 0;
  let shape: (number | null)[] | undefined;
  const readShape = (inner: Uint8Array) =>
    eachField(inner, (field, from) => {
      if (field !== 1) return false;
      return push(shape!, readDimension(from.bytes()), MOST_RANK, 'dimensions');
    });
  const readTensorType = (inner: Uint8Array) =>
    eachField(inner, (field, from) => {
      if (field === 1) element = from.int32();
      else if (field === 2) {
        shape = [];
        readShape(from.bytes());
      } else return false;
      return true;
    });
  eachField(bytes, (field, from) => {
    if (field === 1) name = from.string();
    else if (field === 2) {
      eachField(from.bytes(), (inner, reader) => {
        if (inner !== 1) return false;
        readTensorType(reader.bytes());
        return true;
      });
    } else return false;
    return true;
  });
  return { name, kind: element === 0 ? 'float' : kindOf(element), shape };
}

function readDimension(bytes: Uint8Array): number | null {
  let size: number | null = null;
  eachField(bytes, (field, from) => {
    if (field !== 1) return false;
    size = Number(from.int64());
    return true;
  });
  return size;
}
