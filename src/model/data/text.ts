/** Splits a text into training and validation parts, and the training part into shards that never overlap. */
import { ConfigError } from '../../base/errors.ts';
import type { Shard } from '../../run/field.ts';
import type { Tokens } from './tokens.ts';

/**
 * One contiguous range of the text per worker, or blocks dealt round-robin so that each worker sees all parts of it.
 */
export type ShardForm = 'contiguous' | 'interleaved';

export interface ShardOptions {
  readonly form: ShardForm;
  /** Context of a training window in tokens; a window needs one more. */
  readonly context: number;
  /** Tokens per block of the interleaved form. */
  readonly block?: number;
}

export interface TextSplit {
  readonly training: Tokens;
  readonly validation: Tokens;
}

/** Share of a corpus that is used for validation. */
export const VALIDATION_SHARE = 0.1;
const BLOCK = 4096;

/** Splits off the last `validationShare` of the text. Both parts are views, not copies. */
export function splitText(
  tokens: Tokens,
  { context, validationShare = VALIDATION_SHARE }: { context: number; validationShare?: number },
): TextSplit {
  if (!(validationShare > 0 && validationShare < 1)) {
    throw new ConfigError(
      'data/validation-share',
      `validation share ${validationShare} is out of range`,
      {
        hint: 'use a number between 0 and 1, for example 0.1',
      },
    );
  }
  const cut = tokens.length - Math.floor(tokens.length * validationShare);
  const training = tokens.subarray(0, cut);
  const validation = tokens.subarray(cut);
  assertLongEnough('the training part of the text', training.length, context);
  assertLongEnough('the validation part of the text', validation.length, context);
  return { training, validation };
}

/** Returns a worker's shard and the validation part: the end of the text, or all of `holdout`. */
export function divideText(
  tokens: Tokens,
  shard: Shard,
  { holdout, ...options }: ShardOptions & { readonly holdout?: Tokens | undefined },
): { readonly shard: Tokens; readonly validation: Tokens } {
  const { training, validation } = holdout
    ? { training: tokens, validation: holdout }
    : splitText(tokens, options);
  return { shard: shardText(training, shard, options), validation };
}

/** Returns the tokens of a shard. In the interleaved form, a window may span two blocks that are not adjacent. */
export function shardText(
  training: Tokens,
  shard: Shard,
  { form, context, block }: ShardOptions,
): Tokens {
  const ranges = shardRanges(training.length, shard, form, block);
  const out = training.slice();
  let length = 0;
  for (const [from, to] of ranges) {
    out.copyWithin(length, from, to);
    length += to - from;
  }
  const tokens = out.slice(0, length);
  assertLongEnough(`shard ${shard.index}/${shard.count} of the text`, tokens.length, context);
  return tokens;
}

/** Returns the ranges of `0` to `length` in one shard: every `count`-th block, or one contiguous range. */
export function shardRanges(
  length: number,
  { index, count }: Shard,
  form: ShardForm,
  block = BLOCK,
): readonly (readonly [from: number, to: number])[] {
  if (form === 'contiguous') {
    return [[Math.floor((length * (index - 1)) / count), Math.floor((length * index) / count)]];
  }
  return Array.from({ length: Math.ceil(length / block) }, (_, i) => i)
    .filter((i) => i % count === index - 1)
    .map((i) => [i * block, Math.min(length, (i + 1) * block)]);
}

/** Throws a ConfigError (`data/too-small`) if not even one window fits. */
export function assertLongEnough(what: string, length: number, context: number): void {
  if (length > context) return;
  throw new ConfigError(
    'data/too-small',
    `${what} has ${length} tokens; a context of ${context} needs at least ${context + 1}`,
    { hint: 'use a longer text, fewer shards or a smaller context', data: { length, context } },
  );
}
