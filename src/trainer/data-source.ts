/** The data of a trainer thread, as its programs take it: all of it at once, or the windows of a file that some rows need. */

import type { OpenStored } from '../model/data/token-reader.ts';
import { storeTokens } from '../model/data/tokens.ts';
import type { Data, Feed } from '../model/forms/form.ts';
import type { Device } from './messages.ts';
import { type Runtime, type Tensors, tensorOf, tensorsOf } from './runtime.ts';

export interface DataSource {
  /** What programs are fed, and the numbers by which these rows are found in it. */
  at(rows: Int32Array): { readonly tensors: Tensors; readonly rows: Int32Array };
}

interface Reading {
  readonly ort: Runtime;
  readonly openStored: OpenStored;
}

/** On WebGPU, where all data would be sent with every step, each step gets its own rows only. */
export function openSource(
  data: Data | undefined,
  device: Device,
  { ort, openStored }: Reading,
): DataSource {
  if (data?.kind === 'feeds' && device === 'webgpu') {
    const { feeds, window } = data;
    return {
      at: (rows) => {
        const own = Object.entries(feeds).map(([name, feed]) => [
          name,
          takeRows(feed, rows, window),
        ]);
        const tensors = tensorsOf(ort, Object.fromEntries(own));
        return { tensors, rows: rows.map((_, i) => i * window) };
      },
    };
  }
  if (data?.kind !== 'stored') {
    const tensors = tensorsOf(ort, data?.feeds);
    return { at: (rows) => ({ tensors, rows }) };
  }
  const { part, context } = data;
  const reader = openStored(part);
  const window = context + 1;
  return {
    at: (rows) => {
      const tokens = new Int32Array(rows.length * window);
      const counted = new Uint8Array(reader.isMasked ? tokens.length : 0);
      rows.forEach((row, i) => {
        tokens.set(reader.tokens(row, row + window), i * window);
        if (reader.isMasked) counted.set(reader.counted(row, row + window), i * window);
      });
      const corpus = storeTokens(tokens, part.vocabulary);
      const shape = [tokens.length];
      return {
        tensors: {
          corpus: tensorOf(ort, { elements: corpus, shape }),
          ...(reader.isMasked && { counted: tensorOf(ort, { elements: counted, shape }) }),
        },
        rows: rows.map((_, i) => i * window),
      };
    },
  };
}

/** The entries of these rows one after the other. */
function takeRows({ elements, shape: [, ...inner] }: Feed, rows: Int32Array, window: number): Feed {
  const width = inner.reduce((product, dim) => product * dim, 1);
  const taken = Reflect.construct(elements.constructor, [rows.length * window * width]);
  rows.forEach((row, i) => {
    taken.set(elements.subarray(row * width, (row + window) * width), i * window * width);
  });
  return { elements: taken, shape: [rows.length * window, ...inner] };
}
