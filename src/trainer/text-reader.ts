/** Decodes text with the parameters of a trainer thread, using a cache of keys and values. */
import type { InferenceSession } from 'onnxruntime-common';
import { ConfigError } from '../base/errors.ts';
import type { Decoding } from '../model/architectures/architecture.ts';
import { dataFormOf, modelOf } from '../model/architectures/table.ts';
import { cacheShape, PIECES } from '../model/decoding.ts';
import type { Feeds } from '../model/feeds.ts';
import { createWindowReader, type TextReader } from '../model/sample.ts';
import type { Layout } from '../tensor/params.ts';
import type { Engine } from './engine.ts';
import { floats, type Runtime, type Tensors } from './runtime.ts';
import type { TrainerSetup } from './setup.ts';

export interface TextReaderSetup {
  readonly ort: Runtime;
  readonly decoding: Omit<Decoding, 'inParts' | 'arrange'>;
  /** Parameters and frozen tensors, by name. */
  readonly tensors: Tensors;
  /** Constants of the program for one token, if the tensors are arranged. */
  readonly constants?: () => Feeds;
  /** Maximum length of a text, in tokens. */
  readonly capacity: number;
  /** Initial cache size in tokens, doubled whenever it is full; default `capacity`. */
  readonly first?: number;
  readonly threads: number;
}

/** Creates a reader of one text at a time. Programs are compiled when first needed. */
export function createTextReader(setup: TextReaderSetup): TextReader & { close(): Promise<void> } {
  const { ort, decoding, tensors, first = setup.capacity } = setup;
  const { Tensor } = ort;
  let cache = createCache(ort, decoding, Math.min(first, setup.capacity));
  let sessions = new Map<number, Promise<InferenceSession>>();
  let readCount = 0;

  const close = async () => {
    const opened = [...sessions.values()];
    sessions = new Map();
    for (const session of opened) await (await session).release();
  };

  /** Enlarges the cache to hold `needed` tokens. Throws a RangeError above the capacity. */
  const grow = async (needed: number) => {
    if (needed > setup.capacity) {
      throw new RangeError(`${needed} tokens exceed the capacity of ${setup.capacity}`);
    }
    let { capacity } = cache;
    while (capacity < needed) capacity *= 2;
    if (capacity === cache.capacity) return;
    await close();
    const larger = createCache(ort, decoding, Math.min(capacity, setup.capacity));
    larger.copy(cache, readCount);
    cache = larger;
  };

  const sessionFor = (piece: number) => {
    const { capacity } = cache;
    const { threads, constants } = setup;
    const compile = () => {
      const isArranged = constants !== undefined;
      const program = decoding.compile({ capacity, tokens: piece, isArranged });
      return ort.createSession(program, 'cpu', threads, [], piece === 1 ? constants?.() : {});
    };
    const session = sessions.get(piece) ?? compile();
    sessions.set(piece, session);
    return session;
  };

  const readPiece = async (tokens: ArrayLike<number>, piece: number): Promise<Float32Array> => {
    const session = await sessionFor(piece);
    const integer = (value: number) => new Tensor('int32', Int32Array.of(value), [1]);
    const filled = Int32Array.from({ length: piece }, (_, i) => tokens[i] ?? 0);
    const results = await session.run({
      ...tensors,
      ...cache.feeds,
      tokens: new Tensor('int32', filled, [1, piece]),
      start: integer(readCount),
      last: integer(tokens.length - 1),
    });
    cache.store(results, { start: readCount, count: tokens.length, piece });
    readCount += tokens.length;
    return floats(results.logits);
  };

  return {
    capacity: setup.capacity,
    async read(tokens) {
      const all = Array.from(tokens);
      await grow(readCount + all.length);
      let logits: Float32Array = new Float32Array(0);
      for (let at = 0; at < all.length; ) {
        const left = all.length - at;
        const piece =
          PIECES.find((size) => 2 * left > size && readCount + size <= cache.capacity) ?? 1;
        const part = all.slice(at, at + piece);
        logits = await readPiece(part, piece);
        at += part.length;
      }
      return logits;
    },
    clear: () => {
      readCount = 0;
    },
    close,
  };
}

interface CacheWrite {
  readonly start: number;
  readonly count: number;
  readonly piece: number;
}

/** Creates a cache of the keys and values of every layer, for `capacity` tokens. */
function createCache({ Tensor }: Runtime, decoding: TextReaderSetup['decoding'], capacity: number) {
  const { heads, size } = decoding.cached;
  const shape = cacheShape(decoding, capacity);
  const names = Array.from({ length: decoding.layers }, (_, i) => [`keys.${i}`, `values.${i}`]);
  const arrays = new Map(
    names.flat().map((name) => [name, new Float32Array(heads * capacity * size)]),
  );
  return {
    capacity,
    arrays,
    feeds: Object.fromEntries(
      [...arrays].map(([name, array]) => [`past.${name}`, new Tensor('float32', array, shape)]),
    ),
    /** Stores the keys and values of a call, for the tokens from `start` on. */
    store(results: Tensors, { start, count, piece }: CacheWrite): void {
      for (const [name, array] of arrays) {
        const fresh = floats(results[name]);
        for (let head = 0; head < heads; head++) {
          const from = head * piece * size;
          array.set(fresh.subarray(from, from + count * size), (head * capacity + start) * size);
        }
      }
    },
    /** Copies the first `count` tokens from a smaller cache. */
    copy(
      smaller: { readonly capacity: number; readonly arrays: typeof arrays },
      count: number,
    ): void {
      for (const [name, array] of arrays) {
        const old = smaller.arrays.get(name)!;
        for (let head = 0; head < heads; head++) {
          const from = head * smaller.capacity * size;
          array.set(old.subarray(from, from + count * size), head * capacity * size);
        }
      }
    },
  };
}

/**
 * Opens a reader of text. Published decoders cache keys and values; other models read the window again for every token.
 * Throws a ConfigError (`model/sample`) if the model does not generate text.
 */
export async function openReader(
  { model }: Pick<TrainerSetup, 'model'>,
  engine: Engine,
  layout: Layout,
): Promise<TextReader> {
  const form = dataFormOf(model);
  if (form.kind !== 'tokens') {
    throw new ConfigError('model/sample', `a ${model.architecture} model does not generate text`, {
      hint: 'sample a text model: char-gpt or gpt',
    });
  }
  const { context } = form;
  const { decoding } = modelOf(model);
  if (!decoding) {
    return createWindowReader(
      (tokens) => engine.forward({ elements: tokens, shape: [1, context] }),
      form,
    );
  }
  const { vocabulary, layers, cached } = decoding;
  const programs = new Map(
    PIECES.filter((piece) => piece <= context).map((tokens) => [
      tokens,
      decoding.compile({ capacity: context, tokens }),
    ]),
  );
  const sizes = { vocabulary, layers, cached, capacity: context };
  await engine.openReader({ ...sizes, programs, slots: layout.slots });
  let begins = true;
  return {
    capacity: context,
    read: async (tokens) => {
      const logits = await engine.read({ tokens: Int32Array.from(tokens), begins });
      begins = false;
      return logits;
    },
    clear: () => {
      begins = true;
    },
  };
}
