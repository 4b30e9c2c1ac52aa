/** Autoregressive sampling from a language model: draws one token after the other from the logits at the last position. */
import { deriveKey, philox, unit } from '../base/rng.ts';
import { storeTokens, type Tokens } from './data/tokens.ts';

export interface SampleOptions {
  readonly prompt: Tokens;
  /** Tokens to add. */
  readonly length: number;
  /** 0 always takes the likeliest token. */
  readonly temperature: number;
  readonly seed: number | string;
  /** Longest window the model can read. */
  readonly context: number;
  readonly vocabulary: number;
}

/** Logits (T, V) of one window of exactly `context` tokens. */
export type Logits = (tokens: Int32Array) => Promise<Float32Array>;

/** The prompt and the tokens drawn after it. An empty prompt starts from token 0. */
export async function sampleTokens(logits: Logits, options: SampleOptions): Promise<Tokens> {
  const { prompt, length, temperature, seed, context, vocabulary } = options;
  const key = deriveKey('nostrain/sample', seed);
  const start = prompt.length === 0 ? 1 : prompt.length;
  const tokens = storeTokens(new Int32Array(start + length), vocabulary);
  tokens.set(prompt);
  for (let end = start; end < tokens.length; end++) {
    // right padding is harmless: attention is causal
    const window = new Int32Array(context);
    const from = Math.max(0, end - context);
    window.set(tokens.subarray(from, end));
    const last = end - from - 1;
    const row = (await logits(window)).subarray(last * vocabulary, (last + 1) * vocabulary);
    const draw = unit(philox(key, end - start, 0, 0, 0)[0]);
    tokens[end] = temperature === 0 ? likeliest(row) : drawToken(row, temperature, draw);
  }
  return tokens;
}

const likeliest = (logits: Float32Array): number =>
  logits.reduce((best, value, i) => (value > logits[best]! ? i : best), 0);

/** The token at `draw` of the cumulative distribution softmax(logits / temperature). */
function drawToken(logits: Float32Array, temperature: number, draw: number): number {
  const top = logits[likeliest(logits)]!;
  const weights = Float64Array.from(logits, (value) => Math.exp((value - top) / temperature));
  let left = draw * weights.reduce((sum, weight) => sum + weight, 0);
  for (let token = 0; token < weights.length; token++) {
    left -= weights[token]!;
    if (left < 0) return token;
  }
  return weights.length - 1;
}
