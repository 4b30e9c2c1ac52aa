/** Generates text from logits, token by token, and decodes it for display while it arrives. */
import { deriveKey, philox, unit } from '../base/rng.ts';

/** How the next token is drawn from logits. */
export interface Choice {
  /** 0 always takes the most likely token. */
  readonly temperature: number;
  readonly seed: number | string;
  /** Nucleus sampling: draws from the most likely tokens with this total probability; default 1, all tokens. */
  readonly topP?: number | undefined;
  /** Number of most likely tokens to draw from; default 0, all tokens. */
  readonly topK?: number | undefined;
}

export interface Continuation extends Choice {
  readonly prompt: ArrayLike<number>;
  /** Number of tokens to generate. */
  readonly length: number;
  /** Tokens that end the text; the one drawn is still returned. */
  readonly ends?: ReadonlySet<number> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Reads the tokens of a text in order, and keeps the state of the text so far. */
export interface TextReader {
  /** Maximum length of a text, in tokens. */
  readonly capacity: number;
  /** Reads further tokens and returns the logits (V) after the last one; the caller may modify them. */
  read(tokens: ArrayLike<number>): Promise<Float32Array>;
  /** Starts a new text. */
  clear(): void;
}

/**
 * Generates the tokens after the prompt, yielding each as it is drawn. An empty prompt starts from token 0. A full
 * reader continues from the second half of the text.
 */
export async function* continueText(
  reader: TextReader,
  { prompt, length, ends, signal, ...choice }: Continuation,
): AsyncGenerator<number, void> {
  const choose = createChooser(choice);
  const text = prompt.length === 0 ? [0] : Array.from(prompt);
  reader.clear();
  let unread = text.slice(-reader.capacity);
  let readCount = 0;
  for (let count = 0; count < length; count++) {
    signal?.throwIfAborted();
    if (readCount + unread.length > reader.capacity) {
      reader.clear();
      unread = text.slice(-Math.ceil(reader.capacity / 2));
      readCount = 0;
    }
    const token = choose(await reader.read(unread), count);
    readCount += unread.length;
    unread = [token];
    text.push(token);
    yield token;
    if (ends?.has(token)) return;
  }
}

/** Returns the logits (T, V) of a window of exactly `context` tokens. */
export type Logits = (tokens: Int32Array) => Promise<Float32Array>;

/** Creates a reader for a model without a cache: every call reads the last `context` tokens, of texts of any length. */
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

/** Returns a function that draws a token from logits; `count` numbers the draws from 0. */
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

/** Returns the `rank`-th largest value. */
const largest = (values: Float32Array, rank: number): number =>
  Float32Array.from(values).sort()[values.length - rank]!;

const sum = (weights: Float64Array): number => weights.reduce((total, weight) => total + weight, 0);

/** Keeps the largest weights that together reach this share of the sum, and sets the others to zero. */
function keepShare(weights: Float64Array, share: number): void {
  const total = sum(weights);
  // all weights below `least` together are less than the rest
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

/** Returns the index of the weight that `draw` falls into, cumulatively. */
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

/** Replacement character: decoders return it for an incomplete or invalid character. */
const CUT = '\ufffd';
/** Maximum tokens to wait for the rest of a character; more are invalid bytes. */
const MAX_PENDING = 8;

export interface TextStream {
  /** Adds a token and returns the text that can be shown now. */
  push(token: number): string;
  /** Returns the text that was held back. */
  end(): string;
}

/** Creates a stream that decodes tokens as they arrive, and holds a character back until all its tokens are there. */
export function createTextStream(decode: (tokens: ArrayLike<number>) => string): TextStream {
  // context for decoding: some tokens decode differently at the start of a text
  let shown: number[] = [];
  let readCount: number[] = [];
  const flush = (): string => {
    if (readCount.length === 0) return '';
    const before = shown.length === 0 ? '' : decode(shown);
    const text = decode([...shown, ...readCount]).slice(before.length);
    [shown, readCount] = [readCount, []];
    return text;
  };
  return {
    push(token) {
      readCount.push(token);
      const isCut =
        decode([...shown, ...readCount]).endsWith(CUT) && readCount.length < MAX_PENDING;
      return isCut ? '' : flush();
    },
    end: flush,
  };
}
