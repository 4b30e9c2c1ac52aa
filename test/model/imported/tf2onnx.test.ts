/** A network of Keras that tf2onnx has written (test/vectors/make_tf2onnx.py): its logits, loss and gradients are TensorFlow's. */
import { inflateSync } from 'node:zlib';
import { compileTraining, initialParameters } from 'nostrain/model';
import { expect, test } from 'vitest';
import { importOnnx } from '../../../src/model/imported/import-onnx.ts';
import { importedModel } from '../../../src/model/imported/model.ts';
import { load } from '../../support/ort-run.ts';
import { readVectors } from '../../support/vectors.ts';

const vector = readVectors<{
  readonly onnx: string;
  readonly pixels: readonly number[];
  readonly labels: readonly number[];
  readonly logits: readonly number[];
  readonly loss: number;
  readonly gradients: readonly {
    readonly shape: readonly number[];
    readonly values: readonly number[];
  }[];
}>('tf2onnx.json');

const BATCH = 2;
const schedule = { learningRate: 0.1, warmupSteps: 0, totalSteps: 0, finalShare: 1 };

test('a network of Keras has the loss and gradients of TensorFlow', async () => {
  const bytes = new Uint8Array(inflateSync(Buffer.from(vector.onnx, 'base64')));
  const { graph, elementsOf } = importOnnx(bytes, () => bytes);
  const model = importedModel(graph, 'onnx-images');
  expect(model.data).toEqual({ kind: 'images', pixels: 8, channels: 1, classes: 3 });
  const program = compileTraining(model, { optimizer: 'sgd', schedule, clipNorm: 0 }, BATCH);
  const values = initialParameters(model, 1);
  for (const { name, offset } of program.layout.slots) values.set(elementsOf(name), offset);
  const { loss, gradient } = await (await load(program.gradient()))({
    params: { dtype: 'f32', shape: [values.length], elements: values },
    rows: { dtype: 'i32', shape: [BATCH], elements: [0, 1] },
    labels: { dtype: 'i32', shape: [BATCH], elements: vector.labels },
    pixels: { dtype: 'u8', shape: [BATCH, 8, 8, 1], elements: vector.pixels },
  });
  expect(loss![0]).toBeCloseTo(vector.loss, 5);
  for (const { shape, values: wanted } of vector.gradients) {
    const slot = program.layout.slots.find((each) => each.shape.join() === shape.join())!;
    const own = gradient!.subarray(slot.offset, slot.offset + slot.size);
    expect(Math.max(...wanted.map((value, i) => Math.abs(value - own[i]!)))).toBeLessThan(1e-5);
  }
});
