/**
 * The canonical form of an imported graph: values are numbered, constants folded, unused nodes removed. It is plain
 * JSON, which is checked when it is read.
 */

import type { JsonObject } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import { isNumber, isObject, isText, isWithin, listOf, type Untyped } from '../../base/shape.ts';
import { isTensorName } from '../../run/spec/imported-shape.ts';
import { sizeOf } from '../graph/rule.ts';
import type { Attributes } from './call.ts';
import type { Tensor, TensorKind } from './tensor.ts';

/**
 * What a tensor of the file is: trained; a running statistic, which training steps average; or frozen, which never
 * changes.
 */
export type Role = 'trained' | 'statistic' | 'frozen';

export interface ImportedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly kind: TensorKind;
  readonly role: Role;
}

export interface ImportedNode {
  /** Operator, after its domain and a colon if that is not the standard one. */
  readonly type: string;
  /** Numbers of values; -1 is an absent input. */
  readonly inputs: readonly number[];
  readonly results: number;
  readonly attributes: Attributes;
}

/**
 * Values are numbered in this order: the input, the tensors, the constants, and the results of each node, which read
 * only values before them.
 */
export interface ImportedGraph {
  readonly opset: number;
  readonly input: {
    readonly name: string;
    readonly kind: TensorKind;
    /** Null is a dynamic dimension; the first one is the batch. */
    readonly shape: readonly (number | null)[];
  };
  readonly tensors: readonly ImportedTensor[];
  readonly constants: readonly Tensor[];
  readonly nodes: readonly ImportedNode[];
  readonly output: { readonly name: string; readonly value: number };
}

const MOST_NODES = 20_000;
const MOST_PARTS = 4096;
/** Maximum elements of a constant in the graph; larger ones are frozen tensors, whose elements are in the file. */
export const MOST_CONSTANT = 4096;
const MOST_RANK = 8;
/** Maximum elements of all tensors. */
const MOST_TOTAL = 2 ** 31;

const wrong = (what: string): ConfigError =>
  new ConfigError('onnx/graph', `the graph of the model is invalid: ${what}`, {
    hint: 'ask the creator of the run for a new one',
  });

/** Returns the graph as JSON: infinities, which JSON lacks, are texts. */
export function writeGraph(graph: ImportedGraph): JsonObject {
  const constants = graph.constants.map(({ kind, shape, elements }) => ({
    kind,
    shape,
    elements: Array.from(elements, spelled),
  }));
  return JSON.parse(JSON.stringify({ ...graph, constants }));
}

/** Spells numbers that JSON lacks, minus zero among them. */
const spelled = (each: number): number | string =>
  Object.is(each, -0) ? '-0' : Number.isFinite(each) ? each : String(each);

function itemsOf(value: unknown, what: string, most: number): readonly unknown[] {
  if (Array.isArray(value) && value.length <= most) return value;
  throw wrong(`${what} is not a list of at most ${most}`);
}

function membersOf(value: unknown, what: string, names: readonly string[]): Untyped {
  if (isObject(value) && Object.keys(value).sort().join() === [...names].sort().join()) {
    return value;
  }
  throw wrong(`${what} does not have exactly ${names.join(', ')}`);
}

function shapeIn(value: unknown, what: string): readonly number[] {
  const shape = itemsOf(value, `the shape of ${what}`, MOST_RANK);
  if (shape.every(isWithin(0, MOST_TOTAL)) && sizeOf(shape) <= MOST_TOTAL) return shape;
  throw wrong(`${what} is [${shape}]`);
}

function nameIn(value: unknown, what: string): string {
  if (typeof value === 'string' && isTensorName(value)) return value;
  throw wrong(`the name of ${what} is not 1 to 200 printable characters`);
}

function wordIn<T extends string>(value: unknown, what: string, words: readonly T[]): T {
  const chosen = words.find((word) => word === value);
  if (chosen !== undefined) return chosen;
  throw wrong(`${what} is none of ${words.join(', ')}`);
}

const KINDS = ['float', 'int', 'bool'] as const;

/** Reads a graph from untrusted JSON. Throws a ConfigError (`onnx/graph`) before any tensor is allocated. */
export function readGraph(json: unknown): ImportedGraph {
  const names = ['opset', 'input', 'tensors', 'constants', 'nodes', 'output'];
  const { opset, input, tensors, constants, nodes, output } = membersOf(json, 'it', names);
  if (!isWithin(1, 1000)(opset)) throw wrong('its opset is not a number');
  const graph = {
    opset,
    input: readInput(input),
    tensors: itemsOf(tensors, 'tensors', MOST_NODES).map(readTensor),
    constants: itemsOf(constants, 'constants', MOST_NODES).map(readConstant),
  };
  const total = graph.tensors.reduce((sum, { shape }) => sum + sizeOf(shape), 0);
  if (total > MOST_TOTAL) throw wrong(`its tensors have ${total} elements`);
  if (new Set(graph.tensors.map(({ name }) => name)).size < graph.tensors.length) {
    throw wrong('two tensors have the same name');
  }
  let count = 1 + graph.tensors.length + graph.constants.length;
  const read = itemsOf(nodes, 'nodes', MOST_NODES).map((each) => {
    const node = readNode(each, count);
    count += node.results;
    return node;
  });
  const end = membersOf(output, 'its output', ['name', 'value']);
  if (!isWithin(0, count - 1)(end.value)) throw wrong('its output does not exist');
  return { ...graph, nodes: read, output: { name: nameIn(end.name, 'output'), value: end.value } };
}

function readInput(json: unknown): ImportedGraph['input'] {
  const { name, kind, shape } = membersOf(json, 'its input', ['name', 'kind', 'shape']);
  const dims = itemsOf(shape, 'the shape of its input', MOST_RANK);
  const isGood = dims.every(
    (dim): dim is number | null => dim === null || isWithin(1, MOST_TOTAL)(dim),
  );
  if (!isGood || dims.length === 0) throw wrong(`its input is [${dims}]`);
  return { name: nameIn(name, 'its input'), kind: wordIn(kind, 'its input', KINDS), shape: dims };
}

function readTensor(json: unknown): ImportedTensor {
  const { name, shape, kind, role } = membersOf(json, 'a tensor', [
    'name',
    'shape',
    'kind',
    'role',
  ]);
  return {
    name: nameIn(name, 'a tensor'),
    shape: shapeIn(shape, 'a tensor'),
    kind: wordIn(kind, 'a kind', KINDS),
    role: wordIn(role, 'a role', ['trained', 'statistic', 'frozen']),
  };
}

function readConstant(json: unknown): Tensor {
  const { kind, shape, elements } = membersOf(json, 'a constant', ['kind', 'shape', 'elements']);
  const read = itemsOf(elements, 'the elements of a constant', MOST_CONSTANT).map(Number);
  const dims = shapeIn(shape, 'a constant');
  if (sizeOf(dims) !== read.length) throw wrong('a constant does not fill its shape');
  return { kind: wordIn(kind, 'a kind', KINDS), shape: dims, elements: read };
}

function readNode(json: unknown, before: number): ImportedNode {
  const names = ['type', 'inputs', 'results', 'attributes'];
  const { type, inputs, results, attributes } = membersOf(json, 'a node', names);
  const read = itemsOf(inputs, 'the inputs of a node', MOST_PARTS);
  if (!read.every(isWithin(-1, before - 1))) {
    throw wrong('a node reads a value that is not before it');
  }
  if (!isWithin(1, MOST_PARTS)(results)) throw wrong('a node has no results');
  if (!isObject(attributes)) throw wrong('the attributes of a node are not an object');
  const isItem = (item: unknown): item is number | string => isNumber(item) || isText(item);
  const isAttribute = (value: unknown) => isItem(value) || listOf(isItem, MOST_CONSTANT)(value);
  if (!Object.values(attributes).every(isAttribute)) {
    throw wrong('an attribute is not a number, a text or a list of them');
  }
  return {
    type: nameIn(type, 'an operator'),
    inputs: read,
    results,
    attributes: attributes as Attributes,
  };
}
