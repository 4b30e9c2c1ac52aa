/** Models from PyTorch, written again as ONNX with other weights: onnxruntime for Python computes what this program does. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { compileTraining, initialParameters } from 'nostrain/model';
import { expect } from 'vitest';
import { withWeights } from '../../src/model/imported/export-onnx.ts';
import { cases, opened } from '../support/exported.ts';
import { itWith, type Missing } from '../support/needs.ts';
import { load } from '../support/ort-run.ts';
import { temporaryFolder } from '../support/processes.ts';

const python = process.env.NOSTRAIN_TORCH;
const missing: Missing =
  python === undefined ? 'NOSTRAIN_TORCH names no Python with onnxruntime' : undefined;
const script = fileURLToPath(new URL('onnx/run.py', import.meta.url));
const none = (): Uint8Array => {
  throw new Error('there is no data file');
};
const schedule = { learningRate: 0.1, warmupSteps: 0, totalSteps: 0, finalShare: 1 };

/** Writes a case with changed weights. Returns what Python runs, and the predictions of this program. */
async function exported(each: (typeof cases)[number], path: string) {
  const { file, imported, model } = opened(each);
  const program = compileTraining(model, { optimizer: 'sgd', schedule, clipNorm: 0 }, 1);
  const values = initialParameters(model, 1);
  for (const { name, offset, size } of program.layout.slots) {
    const changed = imported.elementsOf(name).map((value, i) => value * (1 + 0.05 * Math.cos(i)));
    values.set(changed.subarray(0, size), offset);
  }
  const slots = new Map(program.layout.slots.map((slot) => [slot.name, slot]));
  const trained = (name: string) => {
    const slot = slots.get(name);
    return slot && values.slice(slot.offset, slot.offset + slot.size);
  };
  await writeFile(path, withWeights(file, trained, none));
  const form = model.data;
  const shape =
    form.kind === 'images'
      ? [1, form.channels, form.pixels, form.pixels]
      : form.kind === 'rows'
        ? [1, form.features]
        : form.kind === 'tokens'
          ? [1, form.context]
          : [1, form.context, form.channels];
  const count = shape.reduce((a, b) => a * b, 1);
  const isText = form.kind === 'tokens';
  const input = Array.from({ length: count }, (_, i) => (isText ? (i * 7) % 11 : Math.sin(i)));
  const inputs = form.kind === 'images' ? channelsLast(input, form.channels) : input;
  const ownShape = form.kind === 'images' ? [1, form.pixels, form.pixels, form.channels] : shape;
  const params = { dtype: 'f32', shape: [values.length], elements: values } as const;
  const run = await load(program.forward());
  const { predictions } = await run({
    params,
    inputs: { dtype: isText ? 'i32' : 'f32', shape: ownShape, elements: inputs },
  });
  const type = isText ? 'int64' : 'float32';
  return { asked: { path, shape, type, input }, predictions: [...predictions!] };
}

/** Returns pixels (C, S, S) as (S, S, C). */
const channelsLast = (input: readonly number[], channels: number): readonly number[] => {
  const pixels = input.length / channels;
  return input.map((_, i) => input[(i % channels) * pixels + Math.floor(i / channels)]!);
};

itWith(missing)(
  'models written as ONNX have the same outputs in onnxruntime for Python',
  async () => {
    const home = temporaryFolder();
    const made = [];
    for (const [i, each] of cases.entries()) {
      made.push(await exported(each, join(home, `${i}.onnx`)));
    }
    const answer = promisify(execFile)(python!, [script], { maxBuffer: 1 << 26 });
    answer.child.stdin!.end(JSON.stringify(made.map(({ asked }) => asked)));
    const outputs: readonly (readonly number[])[] = JSON.parse((await answer).stdout);
    made.forEach(({ predictions }, i) => {
      const scale = Math.max(1, ...predictions.map(Math.abs));
      const far = predictions.map((value, k) => Math.abs(value - outputs[i]![k]!) / scale);
      expect(Math.max(...far), cases[i]!.name).toBeLessThan(1e-5);
    });
  },
  { timeout: 600_000 },
);
