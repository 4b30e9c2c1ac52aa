/** Fused operators of com.microsoft and Attention have the outputs of onnxruntime (test/vectors/make_fused.py). */
import { inflateSync } from 'node:zlib';
import { compileTraining, initialParameters } from 'nostrain/model';
import { expect, test } from 'vitest';
import { importOnnx } from '../../../src/model/imported/import-onnx.ts';
import { importedModel } from '../../../src/model/imported/model.ts';
import { load } from '../../support/ort-run.ts';
import { readVectors } from '../../support/vectors.ts';

interface Case {
  readonly name: string;
  readonly onnx: string;
  readonly x: readonly number[];
  readonly shape: readonly [number, number, number];
  readonly y: readonly number[];
}

const { cases } = readVectors<{ readonly cases: readonly Case[] }>('fused.json');
const schedule = { learningRate: 0.1, warmupSteps: 0, totalSteps: 0, finalShare: 1 };

test.each(cases)('$name', async ({ onnx, x, shape, y }) => {
  const bytes = new Uint8Array(inflateSync(Buffer.from(onnx, 'base64')));
  const { graph, elementsOf } = importOnnx(bytes, () => bytes);
  const model = importedModel(graph, 'onnx-series');
  const program = compileTraining(model, { optimizer: 'sgd', schedule, clipNorm: 0 }, 1);
  const values = initialParameters(model, 1);
  for (const { name, offset } of program.layout.slots) values.set(elementsOf(name), offset);
  const run = await load(program.forward());
  const [batch, steps, width] = shape;
  const own: number[] = [];
  for (let i = 0; i < batch; i++) {
    const elements = x.slice(i * steps * width, (i + 1) * steps * width);
    const { predictions } = await run({
      params: { dtype: 'f32', shape: [values.length], elements: values },
      inputs: { dtype: 'f32', shape: [1, steps, width], elements },
    });
    own.push(...predictions!);
  }
  expect(Math.max(...own.map((value, i) => Math.abs(value - y[i]!)))).toBeLessThan(1e-5);
});
