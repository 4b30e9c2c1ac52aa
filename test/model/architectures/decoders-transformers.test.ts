/** Decoders of every family against Hugging Face's transformers, from a stored fixture (test/vectors/make_decoders.py). */

import { compileTraining, createGraph, modelOf, readModelConfig } from 'nostrain/model';
import { describe, expect, test } from 'vitest';
import { createDraw, distance, error, type LogitsCase, norm } from '../../support/decoder-cases.ts';
import { adamwSpec } from '../../support/ort-models.ts';
import { load, loadGraph } from '../../support/ort-run.ts';
import { readVectors } from '../../support/vectors.ts';

interface Case extends LogitsCase {
  readonly losses: readonly number[];
}

const { cases } = readVectors<{ readonly cases: readonly Case[] }>('decoders.json');

describe.each(cases)('$name', (one) => {
  const { config, batch, context } = one;
  const spec = readModelConfig(config, { context });
  const program = compileTraining(spec, adamwSpec, batch);
  const { layout } = program;
  const { vocabulary } = spec;
  const draw = createDraw(one.seed);
  const params = draw.parameters(layout);
  const tokens = draw.tokens(one, vocabulary);
  const feeds = {
    params: { dtype: 'f32', shape: [layout.size], elements: params },
    corpus: { dtype: 'u8', shape: [tokens.length], elements: tokens },
    rows: {
      dtype: 'i32',
      shape: [batch],
      elements: Array.from({ length: batch }, (_, i) => i * (context + 1)),
    },
  } as const;

  test('has the tensors of the files', () => {
    const named = ({ name, shape }: { name: string; shape: readonly number[] }) => ({
      name,
      shape,
    });
    expect(layout.slots.map(named)).toEqual(one.tensors.map(named));
  });

  test('has the same logits', async () => {
    const run = await load(program.forward());
    for (let i = 0; i < batch; i++) {
      const elements = tokens.slice(i * (context + 1), (i + 1) * (context + 1) - 1);
      const inputs = { dtype: 'i32', shape: [1, context], elements } as const;
      const { predictions } = await run({ params: feeds.params, inputs });
      const rows = one.positions.flatMap((t) => [
        ...predictions!.subarray(t * vocabulary, (t + 1) * vocabulary),
      ]);
      const count = rows.length;
      expect(error(rows, one.logits.slice(i * count, (i + 1) * count))).toBeLessThan(1e-5);
    }
  });

  test('has the same loss at every position', async () => {
    const graph = createGraph();
    const tensors = new Map(
      layout.slots.map(({ name, shape }) => [name, graph.input(name, { dtype: 'f32', shape })]),
    );
    const window = { dtype: 'i32', shape: [batch, context] } as const;
    const [inputs, targets] = [graph.input('inputs', window), graph.input('targets', window)];
    const weights = (name: string) => tensors.get(name)!;
    graph.output('losses', modelOf(spec).losses(weights, { inputs, targets }));
    const run = await loadGraph(graph);
    const from = (offset: number) =>
      [0, 1].flatMap((i) => [...tokens.subarray(i * (context + 1) + offset)].slice(0, context));
    const { losses } = await run({
      ...Object.fromEntries(
        layout.slots.map(({ name, shape, offset, size }) => [
          name,
          { dtype: 'f32' as const, shape, elements: params.subarray(offset, offset + size) },
        ]),
      ),
      inputs: { ...window, elements: from(0) },
      targets: { ...window, elements: from(1) },
    });
    expect(error(losses!, one.losses)).toBeLessThan(1e-5);
  });

  test('has the same gradient by every tensor', async () => {
    const run = await load(program.gradient());
    const { loss, gradient } = await run(feeds);
    expect(Math.abs(loss![0]! - one.loss)).toBeLessThan(1e-6);
    const whole = norm(one.tensors.map((tensor) => tensor.norm));
    layout.slots.forEach(({ name, offset, size }, k) => {
      const tensor = one.tensors[k]!;
      const values = gradient!.subarray(offset, offset + size);
      // a bias of keys moves nothing: its gradient is rounding alone
      const least = 1e-6 * whole;
      expect(Math.abs(norm(values) - tensor.norm), name).toBeLessThan(least + 1e-5 * tensor.norm);
      const { length } = tensor.samples;
      const some = tensor.samples.map((_, j) => values[Math.floor((j * size) / length)]!);
      expect(distance(some, tensor.samples), name).toBeLessThan(
        least + 1e-5 * norm(tensor.samples),
      );
    });
  });
});
