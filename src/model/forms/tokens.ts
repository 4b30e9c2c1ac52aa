/** The token form: windows of tokens, with the next token as target. With a mask, only some targets count. */

import type { Range } from '../../tensor/partial-vector.ts';
import type { TokenForm } from '../architectures/architecture.ts';
import {
  assertTokens,
  fitWindow,
  isMasked,
  nextCounted,
  type OpenStored,
  openTokens,
  storeTokens,
  type TokenPart,
  tokensIn,
  tokenType,
} from '../data/tokens.ts';
import { ANY } from '../graph/rule.ts';
import { add, cast, gather, reshape, slice } from '../graph/verbs.ts';
import { type CheckedData, type Data, type FormRules, type Reading, unfit } from './form.ts';

/** A worker's shard of a text, and the validation part. */
export interface TokenData {
  readonly kind: 'tokens';
  readonly shard: TokenPart;
  readonly validation: TokenPart;
  /** Where the documents of the corpus are in the shard, by position; absent if only their text is known. */
  readonly documents?: ReadonlyMap<number, Range> | undefined;
}

export const tokens = (form: TokenForm): FormRules<TokenData> => ({
  data: 'tokens',
  says: 'tokens',
  tokensPerRow: form.context,
  open: (graph, { dtype, masked }: Reading) => {
    const { context, vocabulary } = form;
    const corpus = graph.input('corpus', { dtype: tokenType(vocabulary), shape: [ANY] });
    const mask = masked ? graph.input('counted', { dtype: 'u8', shape: [ANY] }) : undefined;
    const offsets = graph.constant({ dtype: 'i32', shape: [1, context + 1] }, [
      ...Array(context + 1).keys(),
    ]);
    return (rows) => {
      const at = add(reshape(rows, [rows.shape[0]!, 1]), offsets);
      const windows = cast(gather(corpus, at), 'i32'); // (B, T + 1)
      const batch = {
        inputs: slice(windows, 1, 0, context),
        targets: slice(windows, 1, 1, context + 1),
      };
      if (!mask) return batch;
      return { ...batch, counted: cast(slice(gather(mask, at), 1, 1, context + 1), dtype) };
    };
  },
  single: () => ({ dtype: 'i32', shape: [1, form.context] }),
  hold: (data, { openStored }) => {
    check(data, form, openStored);
    return hold(data, form, openStored);
  },
  anything: () => {
    const length = 2 * (form.context + 1);
    const any = Int32Array.from({ length }, (_, i) => (7 * i) % form.vocabulary);
    return { kind: 'tokens', shard: any, validation: any };
  },
});

function hold(
  data: TokenData,
  { context, vocabulary }: TokenForm,
  openStored: OpenStored,
): CheckedData {
  const feedOf = (part: TokenPart): Data => {
    if ('file' in part) return { kind: 'stored', part, context };
    const stored = storeTokens('tokens' in part ? part.tokens : part, vocabulary);
    const shape = [stored.length];
    const counted = 'tokens' in part && { counted: { elements: part.counted, shape } };
    const feeds = { corpus: { elements: stored, shape }, ...counted };
    return { kind: 'feeds', feeds, window: context + 1 };
  };
  // with a mask, windows are moved to tokens that count
  const fitted: CheckedData['offsetsOf'] = (on, rows) => {
    if (!isMasked(data[on])) return rows;
    const reader = openTokens(data[on], openStored);
    try {
      return rows.map((row) => fitWindow(reader, row, context));
    } finally {
      reader.close();
    }
  };
  const last = tokensIn(data.shard) - context - 1;
  // moves windows that read one of these ranges, which ascend, to the next start that reads none
  const movedOff = (ranges: readonly Range[], rows: Int32Array) => {
    const after = (start: number) =>
      ranges.reduce((at, { from, to }) => (at < to && at + context >= from ? to : at), start);
    return rows.map((row) => {
      const start = after(row) <= last ? after(row) : after(0);
      if (start <= last) return start;
      throw unfit('the authors deleted the notes of this shard', 'start a run on a new corpus');
    });
  };
  const offsetsOf: CheckedData['offsetsOf'] = (on, rows, without = []) => {
    if (without.length > 0 && data.documents === undefined) {
      throw unfit('this text does not say where its notes are', 'train on a .jsonl file of notes');
    }
    const left = on === 'shard' ? without.flatMap((at) => data.documents?.get(at) ?? []) : [];
    return left.length === 0 ? fitted(on, rows) : movedOff(left, fitted(on, rows));
  };
  return {
    feeds: { shard: feedOf(data.shard), validation: feedOf(data.validation) },
    masked: isMasked(data.shard),
    bound: (on) => Math.max(0, tokensIn(data[on]) - context),
    stride: context,
    offsetsOf,
    // windows with tokens that count, or else the moved windows
    evaluationRows: (on, rows) => {
      const moved = offsetsOf(on, rows);
      const kept = rows.filter((row, i) => row === moved[i]);
      return kept.length > 0 ? kept : moved;
    },
  };
}

function check(
  { shard, validation }: TokenData,
  { context, vocabulary }: TokenForm,
  openStored: OpenStored,
): void {
  const length = tokensIn(shard);
  if (length <= context) {
    throw unfit(
      `the shard has ${length} tokens, but one window needs ${context + 1}`,
      'use more text, fewer workers or a shorter model.context',
    );
  }
  if (isMasked(shard) !== isMasked(validation)) {
    throw unfit('either both parts of the data have a mask, or neither');
  }
  for (const part of [shard, validation]) {
    if ('tokens' in part && part.tokens.length !== part.counted.length) {
      throw unfit(
        `${part.tokens.length} tokens need a mask of the same length, not ${part.counted.length}`,
      );
    }
    // tokens of a file are checked when read
    if (!('file' in part)) assertTokens('tokens' in part ? part.tokens : part, vocabulary);
  }
  for (const [name, part] of Object.entries({ shard, validation })) {
    const reader = openTokens(part, openStored);
    const counts = nextCounted(reader, 1) !== undefined;
    reader.close();
    if (counts || tokensIn(part) <= context) continue;
    throw unfit(`no token of the ${name} data counts`, 'use data with answers to learn from');
  }
}
