/** Low-rank adapters against PEFT, by a stored fixture (test/vectors/make_lora.py), and against the weights they are merged into. */

import {
  compileTraining,
  type LoraSpec,
  loraModel,
  loraTensors,
  mergeLora,
  modelLayout,
  readModelConfig,
} from 'nostrain/model';
import { describe, expect, test } from 'vitest';
import { loraLayers } from '../../../src/model/adapters/lora.ts';
import { decoderOf } from '../../../src/model/architectures/table.ts';
import { cacheShape, compileDecoding } from '../../../src/model/decoding.ts';
import { createDraw, error, type LogitsCase, norm } from '../../support/decoder-cases.ts';
import { adamwSpec } from '../../support/ort-models.ts';
import { load } from '../../support/ort-run.ts';
import { readVectors } from '../../support/vectors.ts';

interface Case extends LogitsCase {
  readonly adapter: { readonly rank: number; readonly alpha: number; readonly targets: string };
}

const { cases } = readVectors<{ readonly cases: readonly Case[] }>('lora.json');

/** The decoder's numbers, the adapters' and the tokens by the fixture's formula. */
function draw(one: Case) {
  const spec = readModelConfig(one.config, { context: one.context });
  const { parameters, tokens } = createDraw(one.seed);
  const fill = (model: Parameters<typeof modelLayout>[0]) => {
    const layout = modelLayout(model);
    const values = parameters(layout);
    const tensors = layout.slots.map(
      ({ name, offset, size }) => [name, values.subarray(offset, offset + size)] as const,
    );
    return { values, tensors };
  };
  const base = fill(spec);
  const own = fill(loraModel(spec, one.adapter));
  const tensors = new Map([...base.tensors, ...own.tensors]);
  const drawn = { spec, base: base.values, own: own.values, tensors };
  return { ...drawn, tokens: tokens(one, spec.vocabulary) };
}

const flat = (elements: ArrayLike<number>) =>
  ({ dtype: 'f32', shape: [elements.length], elements }) as const;

describe.each(cases)('$name', (one) => {
  const { batch, context, adapter } = one;
  const { spec, base, own, tensors, tokens } = draw(one);
  const read = (name: string) => tensors.get(name)!;
  const feed = (named: readonly { name: string; shape: readonly number[] }[]) =>
    Object.fromEntries(
      named.map(({ name, shape }) => [
        name,
        { dtype: 'f32' as const, shape, elements: read(name) },
      ]),
    );
  const model = loraModel(spec, adapter);
  const program = compileTraining(model, adamwSpec, batch);
  const rows = Array.from({ length: batch }, (_, i) => i * (context + 1));
  const data = {
    corpus: { dtype: 'u8', shape: [tokens.length], elements: tokens },
    rows: { dtype: 'i32', shape: [batch], elements: rows },
  } as const;
  const window = (i: number) => ({
    dtype: 'i32' as const,
    shape: [1, context],
    elements: tokens.slice(i * (context + 1), (i + 1) * (context + 1) - 1),
  });

  test('has the tensors that PEFT saves', () => {
    const named = ({ name, shape }: { name: string; shape: readonly number[] }) => ({
      name,
      shape,
    });
    expect(program.layout.slots.map(named)).toEqual(one.tensors.map(named));
  });

  test('has the same logits, and so has the decoder they are merged into', async () => {
    const weights = base.slice();
    const merged = mergeLora(spec, adapter);
    for (const { name, offset } of modelLayout(spec).slots) {
      const values = merged.get(name)?.(read(name), read);
      if (values) weights.set(values, offset);
    }
    expect(merged.size).toBe(one.tensors.length / 2);
    expect(weights).not.toEqual(base);
    const beside = await load(program.forward());
    const within = await load(compileTraining(spec, adamwSpec, batch).forward());
    for (let i = 0; i < batch; i++) {
      const inputs = window(i);
      const { predictions } = await beside({
        ...{ params: flat(own), inputs },
        ...feed(model.frozen!),
      });
      const some = one.positions.flatMap((t) => [
        ...predictions!.subarray(t * spec.vocabulary, (t + 1) * spec.vocabulary),
      ]);
      const expected = one.logits.slice(i * some.length, (i + 1) * some.length);
      expect(error(some, expected)).toBeLessThan(1e-5);
      const plain = await within({ params: flat(weights), inputs });
      expect(error(plain.predictions!, [...predictions!])).toBeLessThan(2e-6);
    }
  });

  test('has the same gradient by every A and B', async () => {
    const run = await load(program.gradient());
    const { loss, gradient } = await run({ ...data, ...feed(model.frozen!), params: flat(own) });
    expect(Math.abs(loss![0]! - one.loss)).toBeLessThan(1e-6);
    program.layout.slots.forEach(({ name, offset, size }, k) => {
      const tensor = one.tensors[k]!;
      const values = gradient!.subarray(offset, offset + size);
      expect(Math.abs(norm(values) / tensor.norm - 1), name).toBeLessThan(1e-5);
      const { length } = tensor.samples;
      const some = tensor.samples.map((_, j) => values[Math.floor((j * size) / length)]!);
      expect(error(some, tensor.samples), name).toBeLessThan(1e-5);
    });
    const sparing = compileTraining(model, adamwSpec, batch, { recompute: true });
    const again = await load(sparing.gradient());
    const same = await again({ ...data, ...feed(model.frozen!), params: flat(own) });
    expect(same.gradient).toEqual(gradient);
  });

  test('continues a text with the same logits', async () => {
    const decoder = decoderOf(spec);
    const settings: LoraSpec = adapter;
    const all = [...decoder.tensors, ...loraTensors(spec, settings)];
    const run = await load(
      compileDecoding(decoder, {
        ...{ capacity: context, tokens: context },
        ...{ tensors: all, layers: loraLayers(spec, settings) },
      }),
    );
    const shape = cacheShape(decoder, context);
    const past = Object.fromEntries(
      Array.from({ length: decoder.layers }, (_, i) => i).flatMap((i) =>
        ['keys', 'values'].map((kind) => [
          `past.${kind}.${i}`,
          {
            dtype: 'f32' as const,
            shape,
            elements: new Float32Array(shape.reduce((a, b) => a * b)),
          },
        ]),
      ),
    );
    const at = (elements: readonly number[]) => ({ dtype: 'i32' as const, shape: [1], elements });
    const last = one.positions.at(-1)!;
    const text = { tokens: window(0), start: at([0]), last: at([last]) };
    const { logits } = await run({ ...feed(all), ...past, ...text });
    const from = (one.positions.length - 1) * spec.vocabulary;
    expect(error(logits!, one.logits.slice(from, from + spec.vocabulary))).toBeLessThan(1e-5);
  });
});
