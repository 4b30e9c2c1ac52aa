/** The data of a trainer thread, as its programs take it: all of it at once, or the windows of a file that some rows need. */
import { storeTokens } from '../model/data/tokens.ts';
import type { Data } from './messages.ts';
import { type Runtime, type Tensors, tensorOf, tensorsOf } from './runtime.ts';
import type { OpenStored } from './token-reader.ts';

export interface DataSource {
  /** What programs are fed, and the numbers by which these rows are found in it. */
  at(rows: Int32Array): { readonly tensors: Tensors; readonly rows: Int32Array };
}

export function openSource(
  data: Data | undefined,
  ort: Runtime,
  openStored: OpenStored,
): DataSource {
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
