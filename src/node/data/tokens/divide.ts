/** A file of tokens divided: its end for validation, the rest among the workers, whole documents each. */

import { utf8 } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import type { TextForm } from '../../../model/data/documents.ts';
import { assertLongEnough, type ShardForm } from '../../../model/data/text.ts';
import {
  isMasked,
  nextCounted,
  type StoredTokens,
  type TokenPart,
  tokensIn,
} from '../../../model/data/token-reader.ts';
import { storeTokens } from '../../../model/data/tokens.ts';
import type { Shard } from '../../../run/field.ts';
import { openTokens } from '../../engine/stored-tokens.ts';
import type { TokenFile } from './token-file.ts';

export interface Division {
  readonly context: number;
  readonly shard: Shard;
  readonly form: ShardForm;
  /** All of the corpus is for training, since all evaluate on something else. */
  readonly keepsAll: boolean;
  readonly vocabulary: number;
}

/** The share of a corpus that is for validation, and the tokens of a text that are dealt as one: as `splitText` and `shardText` do. */
const VALIDATION = 0.1;
const BLOCK = 4096;
/** Window starts are numbers of 32 bits. */
const MOST_TOKENS = 2 ** 31 - 1;

/** The shard of a worker, and the validation part unless all is kept. Throws a ConfigError where one is too short for a window. */
export function divideTokens(
  file: TokenFile,
  { context, shard, form, keepsAll, vocabulary }: Division,
): { readonly shard: StoredTokens; readonly validation: StoredTokens | undefined } {
  const part = (bounds: readonly number[], what: string): StoredTokens => {
    const stretches = joined(bounds);
    const length = stretches.reduce((sum, bound, i) => sum + (i % 2 === 0 ? -bound : bound), 0);
    assertLongEnough(what, length, context);
    if (length > MOST_TOKENS) {
      throw new ConfigError('data/too-large', `${what} has ${length} tokens, more than 2^31`, {
        hint: 'divide the corpus among more workers (--shards)',
      });
    }
    const counted = file.counted === undefined ? {} : { countedFile: file.counted };
    return { file: file.ids, ...counted, stretches, length, vocabulary };
  };
  const cut = keepsAll ? file.tokens : cutOf(file);
  const blocks = blocksOf(file, cut);
  const own = blocks.flatMap((block, i) => (isOwn(i, blocks.length, shard, form) ? block : []));
  const isText = file.stops.length === 0;
  const contiguous = [
    Math.floor((cut * (shard.index - 1)) / shard.count),
    Math.floor((cut * shard.index) / shard.count),
  ];
  const bounds = isText && form === 'contiguous' ? contiguous : own;
  return {
    shard: part(bounds, `shard ${shard.index}/${shard.count} of the corpus`),
    validation: keepsAll
      ? undefined
      : part([cut, file.tokens], 'the last tenth of the corpus, which is for validation,'),
  };
}

/** Where the validation part begins: a tenth before the end, and where documents are, at the end of one. */
function cutOf({ tokens, stops, documents }: TokenFile): number {
  const wanted = tokens - Math.floor(tokens * VALIDATION);
  if (stops.length === 0) return wanted;
  if (stops.length === 1) {
    throw new ConfigError(
      'corpus/too-few',
      `the corpus has ${documents === 1 ? 'only one line' : `only ${documents} lines`}; the last tenth of its documents is for validation`,
      { hint: 'give it more lines: each of them is one document' },
    );
  }
  const inner = stops.slice(0, -1);
  return inner.find((stop) => stop >= wanted) ?? inner.at(-1)!;
}

/** The stretches that are dealt: whole groups of documents, or blocks of a text. */
function blocksOf({ stops }: TokenFile, cut: number): readonly (readonly [number, number])[] {
  const ends =
    stops.length > 0
      ? stops.filter((stop) => stop <= cut)
      : Array.from({ length: Math.ceil(cut / BLOCK) }, (_, i) => Math.min(cut, (i + 1) * BLOCK));
  return ends.map((end, i) => [ends[i - 1] ?? 0, end]);
}

const isOwn = (at: number, of: number, { index, count }: Shard, form: ShardForm): boolean =>
  form === 'interleaved'
    ? at % count === index - 1
    : at >= Math.floor((of * (index - 1)) / count) && at < Math.floor((of * index) / count);

/** Stretches that touch become one. */
function joined(bounds: readonly number[]): Float64Array {
  const all: number[] = [];
  for (let i = 0; i < bounds.length; i += 2) {
    if (all.length > 0 && all.at(-1) === bounds[i]) all[all.length - 1] = bounds[i + 1]!;
    else all.push(bounds[i]!, bounds[i + 1]!);
  }
  return Float64Array.from(all);
}

/** A part in memory where it has no more than `held` tokens, as the graph takes it. */
export function holdTokens(part: StoredTokens, held: number): TokenPart {
  if (part.length > held) return part;
  const reader = openTokens(part);
  try {
    const tokens = storeTokens(reader.tokens(0, part.length), part.vocabulary);
    return isMasked(part) ? { tokens, counted: reader.counted(0, part.length) } : tokens;
  } finally {
    reader.close();
  }
}

/** Of a long part, so many windows are looked at to say how long its tokens are. */
const LOOKED_AT = 256;
const WINDOW = 4096;

/** Bytes of text for each token that counts: with it, losses of models with other tokenizers compare. */
export function bytesPerToken(
  part: TokenPart,
  { tokenizer, special }: Omit<TextForm, 'begin' | 'end'>,
): number {
  const reader = openTokens(part);
  const windows = Math.ceil(tokensIn(part) / WINDOW);
  const looks = Math.min(windows, LOOKED_AT);
  let [bytes, tokens] = [0, 0];
  for (let i = 0; i < looks; i++) {
    const from = Math.floor((i * windows) / looks) * WINDOW;
    const to = Math.min(from + WINDOW, reader.length);
    const counted = reader.counted(from, to);
    const own = Array.from(reader.tokens(from, to)).filter((_, at) => counted[at] === 1);
    tokens += own.length;
    bytes += utf8(tokenizer.decode(own.filter((token) => !special.has(token)))).length;
  }
  reader.close();
  return tokens === 0 ? 0 : bytes / tokens;
}

/** Throws a ConfigError (`corpus/uncounted`) where nothing of a part counts. */
export function assertCounts(part: TokenPart, what: string): void {
  const reader = openTokens(part);
  const next = nextCounted(reader, 1);
  reader.close();
  if (next !== undefined) return;
  throw new ConfigError('corpus/uncounted', `nothing in ${what} counts: it has prompts only`, {
    hint: 'give the corpus more lines, so that each part has completions or assistant turns',
  });
}
