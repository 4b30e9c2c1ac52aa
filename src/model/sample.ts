/** Continues a text with whatever turns tokens into logits: one token after the other is drawn, shown and read. */
import { deriveKey, philox, unit } from '../base/rng.ts';

/** How the next token is taken from logits. */
export interface Choice {
  /** 0 always takes the likeliest token. */
  readonly temperature: number;
  readonly seed: number | string;
  /** Only the likeliest tokens that together have this share are drawn; 1 draws from all. */
  readonly topP?: number | undefined;
  /** Only so many of the likeliest tokens are drawn; 0 draws from all. */
  readonly topK?: number | undefined;
}

export interface Continuation extends Choice {
  readonly prompt: ArrayLike<number>;
  /** Tokens to add. */
  readonly length: number;
  /** Tokens that end the text, each given as the last one. */
  readonly ends?: ReadonlySet<number> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Reads a text in order and remembers what it read. */
export interface TextReader {
  /** The longest text, in tokens. */
  readonly capacity: number;
  /** Logits (V) after the last of these tokens, which follow those read before; the caller may change them. */
  read(tokens: ArrayLike<number>): Promise<Float32Array>;
  /** Begins a new text. */
  clear(): void;
}

/**
 * The tokens after the prompt, each as it is drawn. An empty prompt starts from token 0; a full reader goes on from the
 * last half of what it holds.
 */
export async function* continueText(
  reader: TextReader,
  { prompt, length, ends, signal, ...choice }: Continuation,
): AsyncGenerator<number, void> {
  const choose = createChooser(choice);
  const text = prompt.length === 0 ? [0] : Array.from(prompt);
  reader.clear();
  let unread = text.slice(-reader.capacity);
  let held = 0;
  for (let count = 0; count < length; count++) {
    signal?.throwIfAborted();
    if (held + unread.length > reader.capacity) {
      reader.clear();
      unread = text.slice(-Math.ceil(reader.capacity / 2));
      held = 0;
    }
    const token = choose(await reader.read(unread), count);
    held += unread.length;
    unread = [token];
    text.push(token);
    yield token;
    if (ends?.has(token)) return;
  }
}

/** Logits (T, V) of one window of exactly `context` tokens. */
export type Logits = (tokens: Int32Array) => Promise<Float32Array>;

/** Reads with a model that keeps nothing: the last `context` tokens at every call, so that no text is too long. */
export function createWindowReader(
  logits: Logits,
  { context, vocabulary }: { readonly context: number; readonly vocabulary: number },
): TextReader {
  let text: number[] = [];
  return {
    capacity: Number.POSITIVE_INFINITY,
    read: async (tokens) => {
      for (let i = 0; i < tokens.length; i++) text.push(tokens[i]!);
      text = text.slice(-context);
      // right padding is harmless: attention is causal
      const window = new Int32Array(context);
      window.set(text);
      const last = text.length - 1;
      return (await logits(window)).subarray(last * vocabulary, (last + 1) * vocabulary);
    },
    clear: () => {
      text = [];
    },
  };
}

/** The token that is drawn from the logits of the `count`-th draw, from 0. */
function createChooser({ temperature, seed, topP = 1, topK = 0 }: Choice) {
  const key = deriveKey('nostrain/sample', seed);
  return (logits: Float32Array, count: number): number => {
    if (temperature === 0) return likeliest(logits);
    const top = logits[likeliest(logits)]!;
    const floor =
      topK > 0 && topK < logits.length ? largest(logits, topK) : Number.NEGATIVE_INFINITY;
    const weights = Float64Array.from(logits, (value) =>
      value < floor ? 0 : Math.exp((value - top) / temperature),
    );
    if (topP < 1) keepShare(weights, topP);
    return drawn(weights, unit(philox(key, count, 0, 0, 0)[0]));
  };
}

const likeliest = (logits: Float32Array): number =>
  logits.reduce((best, value, i) => (value > logits[best]! ? i : best), 0);

/** The `rank`-th largest value. */
const largest = (values: Float32Array, rank: number): number =>
  Float32Array.from(values).sort()[values.length - rank]!;

const sum = (weights: Float64Array): number => weights.reduce((total, weight) => total + weight, 0);

/** Zeroes all but the largest weights that together have at least this share of the sum. */
function keepShare(weights: Float64Array, share: number): void {
  const total = sum(weights);
  // all smaller ones together have less than the rest of the share
  const least = ((1 - share) * total) / weights.length;
  const order = [...weights.keys()]
    .filter((i) => weights[i]! >= least)
    .sort((a, b) => weights[b]! - weights[a]! || a - b);
  const kept = new Map<number, number>();
  for (let left = share * total; left > 0 && kept.size < order.length; ) {
    const i = order[kept.size]!;
    kept.set(i, weights[i]!);
    left -= weights[i]!;
  }
  weights.fill(0);
  for (const [i, weight] of kept) weights[i] = weight;
}

/** The index at `draw` of the cumulative weights. */
function drawn(weights: Float64Array, draw: number): number {
  let left = draw * sum(weights);
  let last = 0;
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] === 0) continue;
    last = i;
    left -= weights[i]!;
    if (left < 0) return i;
  }
  return last;
}

/** A character that is cut, or bytes that are none. */
const CUT = '\ufffd';
/** More tokens than any character has are no character. */
const MOST_HELD = 8;

export interface TextStream {
  /** What can be shown of the text after this token. */
  push(token: number): string;
  /** What was held back. */
  end(): string;
}

/** Tokens as text while they arrive, after a shown prompt: a character is held back until all its tokens are there. */
export function createTextStream(decode: (tokens: ArrayLike<number>) => string): TextStream {
  // those before the new ones, as some tokens are written in another way at the start of a text
  let shown: number[] = [];
  let held: number[] = [];
  const flush = (): string => {
    if (held.length === 0) return '';
    const before = shown.length === 0 ? '' : decode(shown);
    const text = decode([...shown, ...held]).slice(before.length);
    [shown, held] = [held, []];
    return text;
  };
  return {
    push(token) {
      held.push(token);
      const isCut = decode([...shown, ...held]).endsWith(CUT) && held.length < MOST_HELD;
      return isCut ? '' : flush();
    },
    end: flush,
  };
}
