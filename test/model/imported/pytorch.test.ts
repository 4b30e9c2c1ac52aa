/**
 * Models exported by PyTorch (test/vectors/make_onnx.py): losses and gradients are those of float64, and steps of SGD
 * end at the same losses and running statistics.
 */
import { compileTraining, initialParameters } from 'nostrain/model';
import { describe, expect, test } from 'vitest';
import type { CustomModel } from '../../../src/model/architectures/architecture.ts';
import type { OptimizerSpec } from '../../../src/run/spec/model-spec.ts';
import { batch, cases, type ExportedCase, floats, opened } from '../../support/exported.ts';
import { load, type TestTensor } from '../../support/ort-run.ts';

const sgd: OptimizerSpec = {
  optimizer: 'sgd',
  schedule: { learningRate: 0.05, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
  clipNorm: 0,
};

/** Returns the feeds of a batch in the form that the model reads. */
function feedsOf(
  { data, targets }: ExportedCase,
  { data: form }: CustomModel,
  dtype: 'f32' | 'f64' = 'f32',
): Record<string, TestTensor> {
  const elements = typeof data === 'string' ? floats(data) : data;
  const rows = { dtype: 'i32', shape: [batch], elements: [0, 1, 2, 3] } as const;
  const labels = { dtype: 'i32', shape: [batch], elements: targets ?? [] } as const;
  switch (form.kind) {
    case 'images': {
      const shape = [batch, form.pixels, form.pixels, form.channels];
      return { rows, labels, pixels: { dtype: 'u8', shape, elements } };
    }
    case 'tokens': {
      const stride = form.context + 1;
      const corpus = { dtype: 'u8', shape: [elements.length], elements } as const;
      return { rows: { ...rows, elements: rows.elements.map((row) => row * stride) }, corpus };
    }
    case 'series': {
      const stride = form.context + form.horizon;
      const shape = [batch * stride, form.channels];
      const starts = rows.elements.map((row) => row * stride);
      return { rows: { ...rows, elements: starts }, series: { dtype, shape, elements } };
    }
    case 'rows':
      return {
        rows,
        inputs: { dtype, shape: [batch, form.features], elements },
        targets: { dtype, shape: [batch], elements: targets! },
      };
  }
}

const vector = (elements: ArrayLike<number>, dtype: 'f32' | 'f64' = 'f32') =>
  ({ dtype, shape: [elements.length], elements }) as const;

/** Models with operators that onnxruntime runs in f32 only: erf, and convolutions in groups. */
const SINGLE = /^(mlp, optimized|activations|mobilenet|vit|decoder|series)/;

/** Returns the parameters of the file in the order of the layout. */
function valuesOf({
  imported,
  model,
}: Pick<ReturnType<typeof opened>, 'imported' | 'model'>): Float32Array {
  const { layout } = compileTraining(model, sgd, batch);
  const values = initialParameters(model, 1);
  for (const { name, offset } of layout.slots) values.set(imported.elementsOf(name), offset);
  return values;
}

const distance = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  Math.hypot(...Array.from(a, (x, i) => x - b[i]!));
const norm = (a: ArrayLike<number>) => Math.hypot(...Array.from(a));

describe.each(cases)('$name ($exporter, opset $opset)', (each) => {
  test('has the losses and the gradient of PyTorch', async () => {
    const { model, imported } = opened(each);
    const program = compileTraining(model, sgd, batch);
    const params = vector(valuesOf({ imported, model }));
    const feeds = { ...feedsOf(each, model), params };
    const { losses } = await (await load(program.evaluate()))(feeds);
    each.losses.forEach((loss, i) => {
      expect(losses![i]).toBeCloseTo(loss, 5);
    });
    const { loss, gradient } = await (await load(program.gradient()))(feeds);
    expect(loss![0]).toBeCloseTo(each.loss, 5);
    const total = norm(Object.values(each.gradient).flatMap((text) => [...floats(text)]));
    let compared = 0;
    for (const { name, offset, size } of program.layout.slots) {
      const wanted = each.gradient[name];
      if (wanted === undefined) continue;
      compared += 1;
      const own = gradient!.subarray(offset, offset + size);
      expect(distance(own, floats(wanted)) / total, name).toBeLessThan(1e-5);
    }
    expect(compared).toBeGreaterThan(0);
    // without optimization every parameter has its name in PyTorch
    const isNamed = each.exporter !== 'optimized' && !/lstm|gru|rnn/.test(each.name);
    if (isNamed) expect(compared).toBe(Object.keys(each.gradient).length);
  });

  test('learns as PyTorch does', async () => {
    const { model, imported } = opened(each);
    // in f32 two implementations part where an input of ReLU is next to 0
    const isSingle = SINGLE.test(each.name);
    const dtype = isSingle ? 'f32' : 'f64';
    const margin = isSingle ? 1e-3 : 1e-6;
    const program = compileTraining(model, sgd, batch, { dtype });
    const step = await load(program.step());
    let values: ArrayLike<number> = valuesOf({ imported, model });
    for (const wanted of each.steps) {
      const rates = vector([0.05], dtype);
      const feeds = { ...feedsOf(each, model, dtype), params: vector(values, dtype), rates };
      const { loss, 'params.next': next } = await step(feeds);
      expect(Math.abs(loss![0]! - wanted)).toBeLessThan(margin);
      values = next!;
    }
    for (const [name, wanted] of Object.entries(each.statistics)) {
      const slot = program.layout.slots.find((one) => one.name === name)!;
      const own = Array.from({ length: slot.size }, (_, i) => values[slot.offset + i]!);
      expect(distance(own, floats(wanted)) / norm(floats(wanted)), name).toBeLessThan(margin);
    }
  });
});
