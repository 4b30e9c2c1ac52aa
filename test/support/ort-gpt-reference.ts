/** The GPT of `src/model/architectures/gpt.ts`, forward only, in plain f64 loops: what graphs are measured against. */
import { modelLayout } from 'nostrain/model';
import type { GptSpec } from 'nostrain/run';
import { erf } from './ort-erf.ts';

type Matrix = readonly Float64Array[];
type Read = (name: string) => { readonly shape: readonly number[]; readonly values: Float64Array };

/** Mean loss over the rows of a batch; `tokens[row]` holds context + 1 tokens. */
export function referenceLoss(
  spec: GptSpec,
  params: ArrayLike<number>,
  tokens: readonly (readonly number[])[],
): number {
  const slots = new Map(modelLayout(spec).slots.map((slot) => [slot.name, slot]));
  const read: Read = (name) => {
    const { shape, offset, size } = slots.get(name)!;
    return { shape, values: Float64Array.from({ length: size }, (_, i) => params[offset + i]!) };
  };
  let sum = 0;
  for (const row of tokens) sum += rowLoss(spec, read, row);
  return sum / tokens.length;
}

function rowLoss(spec: GptSpec, read: Read, tokens: readonly number[]): number {
  const { width, context, layers, vocabulary } = spec;
  const table = read('embedding.tokens.weight').values;
  const places = read('embedding.positions.weight').values;
  let h: Matrix = Array.from({ length: context }, (_, t) =>
    Float64Array.from(
      { length: width },
      (_, i) => table[tokens[t]! * width + i]! + places[t * width + i]!,
    ),
  );
  for (let i = 0; i < layers; i++) {
    const at = `blocks.${i}`;
    h = plus(h, attend(spec, read, `${at}.attention`, norm(read, `${at}.attention.norm`, h)));
    const hidden = dense(read, `${at}.feedforward.hidden`, norm(read, `${at}.feedforward.norm`, h));
    h = plus(
      h,
      dense(
        read,
        `${at}.feedforward.output`,
        hidden.map((row) => row.map(gelu)),
      ),
    );
  }
  const logits = dense(read, 'head', norm(read, 'norm', h), false);
  let loss = 0;
  for (let t = 0; t < context; t++) {
    const row = logits[t]!;
    const top = Math.max(...row);
    let total = 0;
    for (let j = 0; j < vocabulary; j++) total += Math.exp(row[j]! - top);
    loss += Math.log(total) + top - row[tokens[t + 1]!]!;
  }
  return loss / context;
}

const gelu = (z: number): number => (z / 2) * (1 + erf(z / Math.SQRT2));

const plus = (a: Matrix, b: Matrix): Matrix =>
  a.map((row, t) => row.map((value, i) => value + b[t]![i]!));

function norm(read: Read, name: string, h: Matrix): Matrix {
  const scale = read(`${name}.weight`).values;
  const shift = read(`${name}.bias`).values;
  return h.map((row) => {
    const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
    const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
    const inverse = 1 / Math.sqrt(variance + 1e-5);
    return row.map((value, i) => (value - mean) * inverse * scale[i]! + shift[i]!);
  });
}

function dense(read: Read, name: string, h: Matrix, biased = true): Matrix {
  const weight = read(`${name}.weight`);
  const columns = weight.shape[1]!;
  const bias = biased ? read(`${name}.bias`).values : new Float64Array(columns);
  return h.map((row) => {
    const out = Float64Array.from(bias);
    for (let i = 0; i < row.length; i++) {
      for (let j = 0; j < columns; j++) out[j]! += row[i]! * weight.values[i * columns + j]!;
    }
    return out;
  });
}

function attend(spec: GptSpec, read: Read, at: string, u: Matrix): Matrix {
  const { width, heads, context } = spec;
  const size = width / heads;
  const qkv = dense(read, `${at}.qkv`, u);
  const out = u.map(() => new Float64Array(width));
  for (let a = 0; a < heads; a++) {
    for (let t = 0; t < context; t++) {
      const scores: number[] = [];
      for (let j = 0; j <= t; j++) {
        let dot = 0;
        for (let i = 0; i < size; i++) {
          dot += qkv[t]![a * size + i]! * qkv[j]![width + a * size + i]!;
        }
        scores.push(dot / Math.sqrt(size));
      }
      const top = Math.max(...scores);
      const shares = scores.map((score) => Math.exp(score - top));
      const total = shares.reduce((sum, share) => sum + share, 0);
      shares.forEach((share, j) => {
        for (let i = 0; i < size; i++) {
          out[t]![a * size + i]! += (share / total) * qkv[j]![2 * width + a * size + i]!;
        }
      });
    }
  }
  return dense(read, `${at}.output`, out);
}
