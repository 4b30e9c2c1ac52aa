/** Trained weights in the ONNX file that they came from. */
import { encodeModel } from 'nostrain/model';
import { describe, expect, test } from 'vitest';
import { withWeights } from '../../../src/model/imported/export-onnx.ts';
import { importOnnx } from '../../../src/model/imported/import-onnx.ts';
import { readOnnx } from '../../../src/model/imported/read-onnx.ts';
import { linearOnnx } from '../../support/imported.ts';
import { load } from '../../support/ort-run.ts';

const missing = (name: string): Uint8Array => {
  throw new Error(`${name} is missing`);
};

describe('an ONNX file with trained weights', () => {
  const file = linearOnnx(0.25);
  const trained = (name: string) =>
    name === 'layer.weight' ? Float32Array.of(1, 2, 3) : undefined;
  const written = withWeights(file, trained, missing);

  test('has them under their names, and the others as before', () => {
    const { graph, elementsOf } = importOnnx(written, missing);
    expect([...elementsOf('layer.weight')]).toEqual([1, 2, 3]);
    expect([...elementsOf('layer.bias')]).toEqual([0.5]);
    expect(graph).toEqual(importOnnx(file, missing).graph);
  });

  test('has the same inputs and outputs in onnxruntime', async () => {
    const x = { dtype: 'f32', shape: [2, 3], elements: [1, 1, 1, 0, 1, 0] } as const;
    const { y } = await (await load(written))({ x });
    expect([...y!]).toEqual([6.5, 2.5]);
  });

  test('is the same file without trained weights', () => {
    expect(withWeights(file, () => undefined, missing)).toEqual(file);
  });

  test('infers with batch norms and dropout that were exported for training', () => {
    const row = (name: string, value: number) => ({
      name,
      dtype: 'f32' as const,
      shape: [3],
      bytes: new Uint8Array(new Float32Array(3).fill(value).buffer),
    });
    const names = ['scale', 'bias', 'mean', 'variance'];
    const training = encodeModel({
      name: 'norm',
      nodes: [
        {
          type: 'BatchNormalization',
          inputs: ['x', ...names],
          outputs: ['y', 'mean.next', 'variance.next'],
          attributes: { training_mode: { int: 1 }, epsilon: { float: 0 } },
          domain: '',
        },
      ],
      constants: names.map((name, i) => row(name, i === 3 ? 4 : i)),
      inputs: [{ name: 'x', dtype: 'f32', shape: ['batch', 3] }],
      outputs: [{ name: 'y', dtype: 'f32', shape: ['batch', 3] }],
    });
    const { nodes } = readOnnx(
      withWeights(training, () => undefined, missing),
      missing,
    );
    expect(nodes).toMatchObject([{ outputs: ['y'], inputs: ['x', ...names] }]);
    expect(Object.keys(nodes[0]!.attributes)).toEqual(['epsilon']);
  });
});
