/** Turns an ONNX file into the canonical graph, and reads the elements of its tensors. */
import { ConfigError } from '../../base/errors.ts';
import { sizeOf } from '../graph/rule.ts';
import type { Attributes, Call } from './call.ts';
import { fold } from './fold.ts';
import { type ImportedGraph, type ImportedNode, MOST_CONSTANT, type Role } from './graph.ts';
import {
  badFile,
  type FileAttribute,
  type FileNode,
  type FileTensor,
  type OnnxFile,
  type ReadBeside,
  readOnnx,
} from './read-onnx.ts';
import type { Tensor } from './tensor.ts';

/** Opsets whose operators are read. */
const OPSETS = { first: 13, last: 23 } as const;

export interface Imported {
  readonly graph: ImportedGraph;
  /** Returns the elements of a tensor of the graph. */
  elementsOf(name: string): Float32Array;
}

/** Reads a model from its bytes. Throws a ConfigError that names what cannot be read, and what to do. */
export function importOnnx(bytes: Uint8Array, beside: ReadBeside): Imported {
  const file = readOnnx(bytes, beside);
  const opset = file.opsets.get('') ?? 0;
  if (opset < OPSETS.first || opset > OPSETS.last) {
    throw new ConfigError(
      'onnx/opset',
      `the model uses opset ${opset}; ${OPSETS.first} to ${OPSETS.last} are supported`,
      { hint: `export it with opset_version=${Math.min(OPSETS.last, 20)}` },
    );
  }
  return new Importer(file, opset).run();
}

/** A value while the file is read: a tensor, a constant, the input, or a result of a node. */
type Source =
  | { readonly from: 'input' }
  | { readonly from: 'tensor'; readonly stored: FileTensor; readonly role: Role }
  | { readonly from: 'constant'; readonly tensor: Tensor }
  | { readonly from: 'node'; readonly node: Recorded; readonly result: number };

interface Recorded {
  readonly type: string;
  readonly inputs: readonly (Source | undefined)[];
  readonly results: number;
  readonly attributes: Attributes;
}

interface Recording {
  readonly opset: number;
  readonly input: ImportedGraph['input'];
  readonly recorded: readonly Recorded[];
}

/** Operators with subgraphs. */
const CONTROL = new Set(['Loop', 'If', 'Scan', 'SequenceMap']);

class Importer {
  readonly #file: OnnxFile;
  readonly #opset: number;
  readonly #values = new Map<string, Source>();
  readonly #recorded: Recorded[] = [];
  /** Split tensors by the name of their sequence, which SequenceAt picks from. */
  readonly #sequences = new Map<string, Pick<Recorded, 'inputs' | 'attributes'>>();

  constructor(file: OnnxFile, opset: number) {
    this.#file = file;
    this.#opset = opset;
  }

  run(): Imported {
    const { nodes, outputs } = this.#file;
    const input = this.#input();
    const roles = rolesOf(this.#file);
    for (const stored of this.#file.initializers) {
      this.#values.set(stored.name, sourceOf(stored, roles.get(stored.name) ?? 'frozen'));
    }
    this.#values.set(input.name, { from: 'input' });
    for (const node of nodes) this.#add(node);
    const [output] = outputs;
    const end = output && this.#values.get(output.name);
    if (!end) throw badFile('it has no output');
    const recording = { opset: this.#opset, input, recorded: this.#recorded };
    return canonical(recording, { name: output.name, end });
  }

  /** Returns the only input that is not an initializer. */
  #input(): ImportedGraph['input'] {
    const own = new Set(this.#file.initializers.map(({ name }) => name));
    const [input, ...others] = this.#file.inputs.filter(({ name }) => !own.has(name));
    if (input === undefined || others.length > 0) {
      throw new ConfigError(
        'onnx/inputs',
        `the model has ${others.length + (input ? 1 : 0)} inputs; models with one can be trained`,
        { hint: 'wrap it in a module whose forward takes one tensor, and export that' },
      );
    }
    if (input.shape !== undefined && input.shape.length > 0) {
      return { name: input.name, kind: input.kind, shape: input.shape.map(positive) };
    }
    throw new ConfigError('onnx/shape', `the input ${input.name} has no shape`, {
      hint: 'export the model with an example input, whose shape becomes that of the input',
    });
  }

  #add(node: FileNode): void {
    const { type, domain, inputs, outputs } = node;
    const name = domain === '' ? type : `${domain}:${type}`;
    const hasGraph = Object.values(node.attributes).includes('graph');
    if (CONTROL.has(type) || hasGraph) {
      throw new ConfigError('onnx/control-flow', `the model contains ${type}: control flow`, {
        hint: 'export it without loops and branches that depend on data',
      });
    }
    const sequence = type === 'SequenceAt' ? this.#sequences.get(inputs[0]!) : undefined;
    const tensors = sequence ? inputs.slice(1) : inputs;
    const sources = tensors.map((each) => (each === '' ? undefined : this.#source(each)));
    if (type === 'SplitToSequence') {
      this.#sequences.set(outputs[0]!, { inputs: sources, attributes: plain(node) });
      return;
    }
    const constant = type === 'Constant' ? constantOf(node) : undefined;
    if (constant) {
      this.#values.set(outputs[0]!, sourceOf(constant, 'frozen'));
      return;
    }
    const [first] = sources;
    if (type === 'Identity' && first) {
      // exporters share equal weights through Identity, under the name that each has in PyTorch
      const isApart = first.from === 'tensor' && outputs[0]!.includes('.');
      const { stored, role } = first as Extract<Source, { from: 'tensor' }>;
      const apart = { from: 'tensor', stored: { ...stored, name: outputs[0]! }, role } as const;
      this.#values.set(outputs[0]!, isApart ? apart : first);
      return;
    }
    const recorded = sequence
      ? { ...sequence, type: name, inputs: [...sources, ...sequence.inputs], results: 1 }
      : { type: name, inputs: sources, results: outputs.length, attributes: plain(node) };
    const folded = this.#fold(recorded);
    if (!folded) this.#recorded.push(recorded);
    outputs.forEach((output, result) => {
      const tensor = folded?.[result];
      const source: Source = tensor
        ? { from: 'constant', tensor }
        : { from: 'node', node: recorded, result };
      if (output !== '') this.#values.set(output, source);
    });
  }

  #source(name: string): Source {
    const source = this.#values.get(name);
    if (source) return source;
    throw badFile(`a node reads ${JSON.stringify(name)}, which is not before it`);
  }

  /** Computes a node of which all inputs are small constants. */
  #fold({ type, inputs, results, attributes }: Recorded): readonly Tensor[] | undefined {
    const tensors = inputs.map((each) => (each?.from === 'constant' ? each.tensor : undefined));
    if (tensors.some((each, i) => !each && inputs[i])) return undefined;
    const call: Partial<Call> = {
      type,
      opset: this.#opset,
      inputs: tensors,
      attributes,
      results,
      batch: { exported: null, actual: 1 },
    };
    const made = fold(call as Call);
    return made?.every(({ elements }) => elements.length <= MOST_CONSTANT) ? made : undefined;
  }
}

const positive = (dim: number | null): number | null => (dim !== null && dim > 0 ? dim : null);

/** Returns the source of a tensor: small frozen ones are constants of the graph. */
function sourceOf(stored: FileTensor, role: Role): Source {
  const isSmall = sizeOf(stored.shape) <= MOST_CONSTANT;
  return role === 'frozen' && isSmall
    ? { from: 'constant', tensor: stored.read() }
    : { from: 'tensor', stored, role };
}

/** Inputs that are weights, by operator: all from the given one on. */
const WEIGHTS: Readonly<Record<string, number>> = {
  MatMul: 0,
  Gemm: 0,
  Conv: 1,
  ConvTranspose: 1,
  LSTM: 1,
  GRU: 1,
  RNN: 1,
  PRelu: 1,
  BatchNormalization: 1,
  InstanceNormalization: 1,
  GroupNormalization: 1,
  LayerNormalization: 1,
  RMSNormalization: 1,
  SimplifiedLayerNormalization: 1,
  SkipLayerNormalization: 2,
  SkipSimplifiedLayerNormalization: 2,
};

/** A name that an exporter made up for a constant that it computed. */
const MADE_UP = /^(?!.*\.)(?:.*(?:::|\/).*|[a-z_]+_\d+)$/;

/**
 * Returns the role of each float initializer. Weights of layers are trained; other tensors are too if they have a name
 * of their own and only finite elements, as parameters do.
 */
function rolesOf({ nodes, initializers }: OnnxFile): ReadonlyMap<string, Role> {
  const roles = new Map<string, Role>();
  for (const { name, kind, shape, read } of initializers) {
    if (kind !== 'float') continue;
    const isNamed = shape.length > 0 && !MADE_UP.test(name);
    if (isNamed && (name.includes('.') || read().elements.length > 1)) roles.set(name, 'trained');
  }
  const floats = new Set(
    initializers.filter(({ kind }) => kind === 'float').map(({ name }) => name),
  );
  for (const { type, inputs } of nodes) {
    const from = WEIGHTS[type] ?? Number.POSITIVE_INFINITY;
    inputs.forEach((name, i) => {
      if (!floats.has(name)) return;
      if (type === 'BatchNormalization' && i >= 3) roles.set(name, 'statistic');
      else if (i >= from || (type === 'Gather' && i === 0)) roles.set(name, 'trained');
    });
  }
  for (const { name, read } of initializers) {
    if (roles.get(name) !== 'trained') continue;
    if (!Array.from(read().elements).every(Number.isFinite)) roles.set(name, 'frozen');
  }
  return roles;
}

/** Returns the tensor of a Constant node. */
function constantOf({ attributes, outputs }: FileNode): FileTensor {
  const [name, attribute] = Object.entries(attributes)[0] ?? [];
  const as = (kind: Tensor['kind'], elements: readonly number[], isList: boolean): FileTensor => {
    const shape = isList ? [elements.length] : [];
    return { name: outputs[0]!, kind, type: 0, shape, read: () => ({ kind, shape, elements }) };
  };
  if (attribute !== undefined && attribute !== 'graph') {
    if ('tensor' in attribute) return { ...attribute.tensor, name: outputs[0]! };
    if ('numbers' in attribute) {
      const kind = name!.startsWith('value_int') ? 'int' : 'float';
      return as(kind, attribute.numbers, attribute.isList);
    }
  }
  throw badFile('a Constant has no numbers');
}

/** Returns the attributes of a node as plain data; the fill of ConstantOfShape is its only tensor. */
function plain({ type, attributes }: FileNode): Attributes {
  const entries = Object.entries(attributes).map(([name, attribute]) => [name, plainOf(attribute)]);
  const { value } = attributes;
  if (type === 'ConstantOfShape' && value !== undefined && value !== 'graph' && 'tensor' in value) {
    const { kind, elements } = value.tensor.read();
    return { kind: ['float', 'int', 'bool'].indexOf(kind), fill: elements[0] ?? 0 };
  }
  return Object.fromEntries(entries.filter(([, each]) => each !== undefined)) as Attributes;
}

function plainOf(attribute: FileAttribute) {
  if (attribute === 'graph' || 'tensor' in attribute) return undefined;
  if ('texts' in attribute) {
    return attribute.texts.length === 1 ? attribute.texts[0] : attribute.texts;
  }
  return attribute.isList ? attribute.numbers : attribute.numbers[0];
}

/** Numbers what the output depends on: tensors by name, constants, and nodes in the order of the file. */
function canonical(
  { opset, input, recorded }: Recording,
  { name, end }: { readonly name: string; readonly end: Source },
): Imported {
  const reached = new Map<string, FileTensor & { readonly role: Role }>();
  const constants = new Set<Tensor>();
  const used = new Set<Recorded>();
  const use = (source: Source | undefined): void => {
    if (source?.from === 'constant') constants.add(source.tensor);
    else if (source?.from === 'node') used.add(source.node);
    else if (source?.from === 'tensor') {
      reached.set(source.stored.name, { ...source.stored, role: source.role });
    }
  };
  use(end);
  for (const node of recorded.toReversed()) if (used.has(node)) node.inputs.forEach(use);
  const tensors = [...reached.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const numbers = new Map<string | Tensor | Recorded, number>();
  let count = 1;
  for (const each of tensors) numbers.set(each.name, count++);
  for (const each of constants) numbers.set(each, count++);
  const numberOf = (source: Source | undefined): number => {
    if (!source) return -1;
    if (source.from === 'input') return 0;
    if (source.from === 'tensor') return numbers.get(source.stored.name)!;
    if (source.from === 'constant') return numbers.get(source.tensor)!;
    return numbers.get(source.node)! + source.result;
  };
  const nodes: ImportedNode[] = [];
  for (const node of recorded) {
    if (!used.has(node)) continue;
    const { type, inputs, results, attributes } = node;
    numbers.set(node, count);
    count += results;
    nodes.push({ type, inputs: inputs.map(numberOf), results, attributes });
  }
  const named = tensors.map(({ name: each, shape, kind, role }) => ({
    name: each,
    shape,
    kind,
    role,
  }));
  const output = { name, value: numberOf(end) };
  return {
    graph: { opset, input, tensors: named, constants: [...constants], nodes, output },
    elementsOf: (wanted) => Float32Array.from(reached.get(wanted)!.read().elements),
  };
}
