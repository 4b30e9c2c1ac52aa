/** Files written by hand: what is read from them, and the sentence for each that cannot be trained. */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { encodeModel } from 'nostrain/model';
import { describe, expect, test } from 'vitest';
import { readGraph, writeGraph } from '../../../src/model/imported/graph.ts';
import { importOnnx } from '../../../src/model/imported/import-onnx.ts';
import { importedModel, modelNameFor } from '../../../src/model/imported/model.ts';
import type { OnnxGraph, OnnxNode, OnnxTensor } from '../../../src/model/onnx.ts';
import { modelLayout } from '../../../src/model/parameters.ts';

const tensor = (name: string, shape: readonly number[], of: readonly number[]): OnnxTensor => ({
  name,
  dtype: 'f32',
  shape,
  bytes: new Uint8Array(Float32Array.from(of).buffer),
});

const node = (
  type: string,
  inputs: readonly string[],
  outputs: readonly string[],
  attributes: OnnxNode['attributes'] = {},
): OnnxNode => ({ type, inputs, outputs, attributes, domain: '' });

const numbers = (length: number) => Array.from({ length }, (_, i) => Math.sin(i));

/** A layer of weights [3, 2] under a ReLU. */
const plain: OnnxGraph = {
  name: 'plain',
  nodes: [
    node('Gemm', ['x', 'layer.weight', 'layer.bias'], ['h'], { transB: { int: 1 } }),
    node('Relu', ['h'], ['y']),
    node('Neg', ['h'], ['unused']),
  ],
  constants: [tensor('layer.weight', [3, 2], numbers(6)), tensor('layer.bias', [3], numbers(3))],
  inputs: [{ name: 'x', dtype: 'f32', shape: ['batch', 2] }],
  outputs: [{ name: 'y', dtype: 'f32', shape: ['batch', 3] }],
};

const missing = (name: string): Uint8Array => {
  throw new Error(`${name} is missing`);
};
const read = (graph: OnnxGraph) => importOnnx(encodeModel(graph), missing);

/** Encodes a model of these fields of its graph, for what `encodeModel` cannot write. */
function encode(opset: number, writeGraphTo: (to: BinaryWriter) => void): Uint8Array {
  const to = new BinaryWriter();
  to.tag(7, WireType.LengthDelimited).fork();
  writeGraphTo(to);
  to.join().tag(8, WireType.LengthDelimited).fork();
  to.tag(2, WireType.Varint).int64(opset).join();
  return to.finish();
}

const codeOf = (run: () => unknown): string => {
  try {
    run();
  } catch (error) {
    const { code, hint } = error as { code?: string; hint?: string };
    expect(hint).toBeTruthy();
    return code ?? String(error);
  }
  return 'none';
};

describe('an ONNX file', () => {
  test('becomes a model with the names and numbers of its weights', () => {
    const { graph, elementsOf } = read(plain);
    expect(graph.nodes.map(({ type }) => type)).toEqual(['Gemm', 'Relu']);
    expect(modelNameFor(graph, 'classify')).toBe('onnx-classes');
    const model = importedModel(graph, 'onnx-classes');
    expect(model.data).toEqual({ kind: 'rows', features: 2 });
    expect(modelLayout(model).slots.map(({ name, shape }) => [name, shape])).toEqual([
      ['layer.bias', [3]],
      ['layer.weight', [3, 2]],
    ]);
    expect([...elementsOf('layer.bias')]).toEqual([...Float32Array.from(numbers(3))]);
  });

  test('has the same canonical graph after JSON', () => {
    const { graph } = read(plain);
    const again = readGraph(JSON.parse(JSON.stringify(writeGraph(graph))));
    expect(writeGraph(again)).toEqual(writeGraph(graph));
  });

  test('keeps weights apart that the exporter shares through Identity', () => {
    const shared = {
      ...plain,
      nodes: [
        node('Identity', ['layer.bias'], ['other.bias']),
        ...plain.nodes.slice(0, 1),
        node('Add', ['h', 'other.bias'], ['y']),
      ],
    };
    const { graph } = read(shared);
    expect(graph.tensors.map(({ name }) => name)).toContain('other.bias');
  });

  test('computes shapes in the graph for any batch', () => {
    const shape = (elements: readonly number[]): OnnxTensor => ({
      name: 'tail',
      dtype: 'i64',
      shape: [elements.length],
      bytes: new Uint8Array(BigInt64Array.from(elements, BigInt).buffer),
    });
    const reshaping = {
      ...plain,
      nodes: [
        node('Shape', ['x'], ['size'], { start: { int: 0 }, end: { int: 1 } }),
        node('Concat', ['size', 'tail'], ['shape'], { axis: { int: 0 } }),
        ...plain.nodes.slice(0, 1),
        node('Reshape', ['h', 'shape'], ['y']),
      ],
      constants: [...plain.constants, shape([3])],
    };
    const { graph } = read(reshaping);
    expect(importedModel(graph, 'onnx-classes').data).toEqual({ kind: 'rows', features: 2 });
  });
});

describe('what cannot be trained is refused with the next step', () => {
  const broken: readonly (readonly [string, string, () => unknown])[] = [
    ['a truncated file', 'onnx/file', () => importOnnx(encodeModel(plain).slice(0, 60), missing)],
    ['other bytes', 'onnx/file', () => importOnnx(new Uint8Array(100).fill(0xff), missing)],
    ['an empty file', 'onnx/file', () => importOnnx(new Uint8Array(), missing)],
    [
      'a future opset',
      'onnx/opset',
      () =>
        importOnnx(
          encode(99, () => {}),
          missing,
        ),
    ],
    [
      'a tensor of 2^40 elements',
      'onnx/file',
      () =>
        importOnnx(
          encode(18, (to) => {
            to.tag(5, WireType.LengthDelimited).fork();
            to.tag(1, WireType.Varint).int64(2 ** 40);
            to.tag(2, WireType.Varint).int32(1).join();
          }),
          missing,
        ),
    ],
    [
      'a tensor that is shorter than its shape',
      'onnx/file',
      () =>
        read({ ...plain, constants: [tensor('layer.weight', [1000, 2], []), plain.constants[1]!] }),
    ],
    [
      'more nodes than the limit',
      'onnx/file',
      () =>
        importOnnx(
          encode(18, (to) => {
            for (let i = 0; i < 20_001; i++) to.tag(1, WireType.LengthDelimited).fork().join();
          }),
          missing,
        ),
    ],
    [
      'a data file in another folder',
      'onnx/file',
      () =>
        importOnnx(
          encode(18, (to) => {
            to.tag(5, WireType.LengthDelimited).fork();
            to.tag(1, WireType.Varint).int64(1);
            to.tag(2, WireType.Varint).int32(1);
            to.tag(8, WireType.LengthDelimited).string('layer.weight');
            to.tag(13, WireType.LengthDelimited).fork();
            to.tag(1, WireType.LengthDelimited).string('location');
            to.tag(2, WireType.LengthDelimited).string('../../secret').join().join();
            to.tag(1, WireType.LengthDelimited).fork();
            to.tag(1, WireType.LengthDelimited).string('layer.weight');
            to.tag(4, WireType.LengthDelimited).string('Relu').join();
            to.tag(11, WireType.LengthDelimited).fork();
            to.tag(2, WireType.LengthDelimited).fork();
            to.tag(1, WireType.LengthDelimited).fork();
            to.tag(2, WireType.LengthDelimited).fork();
            to.tag(1, WireType.LengthDelimited).fork().join().join().join().join().join();
          }),
          missing,
        ),
    ],
    [
      'control flow',
      'onnx/control-flow',
      () => read({ ...plain, nodes: [node('Loop', ['x'], ['y'], { body: { graph: plain } })] }),
    ],
    [
      'two inputs',
      'onnx/inputs',
      () => read({ ...plain, inputs: [...plain.inputs, { ...plain.inputs[0]!, name: 'z' }] }),
    ],
    [
      'a node before its input',
      'onnx/file',
      () => read({ ...plain, nodes: plain.nodes.toReversed() }),
    ],
    [
      'a dynamic shape',
      'onnx/shape',
      () =>
        importedModel(
          read({ ...plain, inputs: [{ name: 'x', dtype: 'f32', shape: ['batch', 'size'] }] }).graph,
          'onnx-classes',
        ),
    ],
    [
      'an operator without a derivative',
      'onnx/operator',
      () =>
        importedModel(
          read({ ...plain, nodes: [node('Det', ['layer.weight'], ['y'])] }).graph,
          'onnx-classes',
        ),
    ],
    ['another task', 'onnx/task', () => importedModel(read(plain).graph, 'onnx-text')],
  ];
  test.each(broken)('%s', (_, code, run) => {
    expect(codeOf(run)).toBe(code);
  });

  test('the operator is named, with a page on how to add it', () => {
    const nodes = [node('Det', ['layer.weight'], ['y'])];
    expect(() => importedModel(read({ ...plain, nodes }).graph, 'onnx-rows')).toThrow(/Det/);
  });
});

describe('a graph from a stranger', () => {
  const valid = writeGraph(read(plain).graph) as Record<string, unknown>;
  const changed: readonly (readonly [string, object])[] = [
    ['an unknown member', { ...valid, more: 1 }],
    ['a tensor of 2^40 elements', { ...valid, tensors: [tensorOf([2 ** 20, 2 ** 20])] }],
    ['a node that reads a later value', { ...valid, nodes: [nodeOf([9])] }],
    ['an output that does not exist', { ...valid, output: { name: 'y', value: 99 } }],
    ['a nested attribute', { ...valid, nodes: [{ ...nodeOf([0]), attributes: { a: [[1]] } }] }],
    ['no list of nodes', { ...valid, nodes: 'Gemm' }],
  ];
  function tensorOf(shape: readonly number[]) {
    return { name: 'w', shape, kind: 'float', role: 'trained' };
  }
  function nodeOf(inputs: readonly number[]) {
    return { type: 'Relu', inputs, results: 1, attributes: {} };
  }
  test.each(changed)('is refused: %s', (_, json) => {
    expect(codeOf(() => readGraph(json))).toBe('onnx/graph');
  });

  const constantOf = (shape: readonly number[], elements: readonly number[]) => ({
    kind: 'int',
    shape,
    elements,
  });
  const size = 2 ** 20;
  const many = Array.from({ length: 4096 }, () => 1);
  const large: readonly (readonly [string, string, number, object])[] = [
    ['CumSum', 'onnx/operator', size, { constants: [constantOf([], [1])], inputs: [0, 3] }],
    [
      'Expand',
      'onnx/size',
      2,
      { constants: [constantOf([4], [size, size, 2, 2])], inputs: [0, 3] },
    ],
    [
      'Where',
      'onnx/operator',
      2,
      { constants: [constantOf([4096, 1], many), constantOf([1, 4096], many)], inputs: [3, 4, 4] },
    ],
  ];
  test.each(large)(
    'is refused before memory is allocated: %s',
    (type, code, width, { ...more }) => {
      const { constants, inputs } = more as { constants: readonly object[]; inputs: number[] };
      const graph = readGraph({
        ...valid,
        input: { name: 'x', kind: 'float', shape: [null, width] },
        constants,
        nodes: [{ type, inputs, results: 1, attributes: {} }],
        output: { name: 'y', value: 3 + constants.length },
      });
      expect(codeOf(() => importedModel(graph, 'onnx-classes'))).toBe(code);
    },
  );
});
