/**
 * Reads decoder fixtures that other programs made: the fields of a case, its numbers by the formula in the file, and
 * the error of a result.
 */
import type { Layout } from 'nostrain/tensor';

/** One tensor's gradient, in short. */
export interface TensorCase {
  readonly name: string;
  readonly shape: readonly number[];
  readonly norm: number;
  readonly samples: readonly number[];
}

export interface DecoderCase {
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly seed: number;
  readonly batch: number;
  readonly context: number;
  readonly loss: number;
  readonly tensors: readonly TensorCase[];
}

/** A case with the logits of some positions of each sequence. */
export interface LogitsCase extends DecoderCase {
  readonly positions: readonly number[];
  readonly logits: readonly number[];
}

const NORMS = /(norm|ln_1|ln_2|ln_f)\.weight$/;

/** Draws by the fixtures' formula: parameters first, then tokens. */
export function createDraw(seed: number, { scale = 1 / 2 ** 17, norms = NORMS } = {}) {
  let state = seed;
  const next = () => {
    state = (Math.imul(1664525, state) + 1013904223) >>> 0;
    return state >>> 16;
  };
  return {
    /** Returns `length` draws from 0 to 65535. */
    numbers: (length: number): readonly number[] => Array.from({ length }, next),
    parameters({ size, slots }: Pick<Layout, 'size' | 'slots'>): Float32Array {
      const params = new Float32Array(size);
      for (const { name, offset, size: length } of slots) {
        const base = norms.test(name) ? 1 : 0;
        for (let i = offset; i < offset + length; i++) params[i] = base + (next() - 32768) * scale;
      }
      return params;
    },
    /** Sequences of `context + 1` tokens, one after the other. */
    tokens: ({ batch, context }: Pick<DecoderCase, 'batch' | 'context'>, vocabulary: number) =>
      Uint8Array.from({ length: batch * (context + 1) }, () => next() % vocabulary),
  };
}

export const norm = (values: ArrayLike<number>) =>
  Math.sqrt(Array.from(values).reduce((sum, value) => sum + value * value, 0));

/** |a - b|. */
export const distance = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  norm(Array.from(b, (value, i) => a[i]! - value));

/** |actual - expected| / |expected|. */
export const error = (actual: ArrayLike<number>, expected: readonly number[]) =>
  distance(actual, expected) / norm(expected);
