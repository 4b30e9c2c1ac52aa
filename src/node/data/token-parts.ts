/** Divides a tokenized corpus: the end for validation, the rest among the workers in complete documents. */
import { concatBytes, utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import type { TextForm } from '../../model/data/documents.ts';
import {
  assertLongEnough,
  divideText,
  type ShardForm,
  shardRanges,
  VALIDATION_SHARE,
} from '../../model/data/text.ts';
import {
  isMasked,
  nextCounted,
  type StoredTokens,
  storeTokens,
  type Tokenizer,
  type TokenPart,
  type Tokens,
  tokenizers,
  tokensIn,
} from '../../model/data/tokens.ts';
import type { TrainerData } from '../../model/forms/table.ts';
import type { Pretrained } from '../../pretrained/pretrained.ts';
import type { Shard } from '../../run/field.ts';
import type { Range } from '../../tensor/partial-vector.ts';
import type { OpenCorpus } from './corpus.ts';
import { openTokens, type TokenFile } from './token-file.ts';
import {
  type CorpusForm,
  isDocuments,
  type TokenizeOptions,
  tokenizeCorpus,
  usualLimits,
} from './tokenize.ts';

export interface PrepareTokens extends TokenizeOptions {
  readonly context: number;
  readonly shard: Shard;
  readonly form: ShardForm;
  /** A text that all workers evaluate on; then all of the corpus is for training. */
  readonly evaluation?: Uint8Array | undefined;
}

export interface PreparedTokens {
  readonly data: Extract<TrainerData, { readonly kind: 'tokens' }>;
  /** Bytes of text per counted token of the validation part. */
  readonly bytesPerToken: number;
}

/** Texts up to this size are tokenized in memory, if the tokenizer is trivial. */
const SMALL_BYTES = 2 ** 25;

/** Returns the corpus form of a built-in tokenizer: documents end in a newline, and conversations are not supported. */
export const builtInForm = (tokenizer: Tokenizer): CorpusForm => ({
  tokenizer,
  begin: [],
  end: Array.from(tokenizer.encode('\n').tokens),
  special: new Set(),
  hash: tokenizer.name,
});

/** Returns the corpus form of a published model: its tokenizer with hash `hash`, and its chat template. */
export function publishedForm(
  {
    tokenizer,
    tokenizerFiles,
    chatTemplate,
  }: Pick<Pretrained, 'tokenizer' | 'tokenizerFiles' | 'chatTemplate'>,
  hash: string,
): CorpusForm {
  const { begin, end, special } = tokenizer;
  const newline = Array.from(tokenizer.encode('\n').tokens);
  const chat = chatTemplate !== undefined && {
    chat: { template: chatTemplate, config: tokenizerFiles.config },
  };
  return { tokenizer, begin, end: end.length > 0 ? end : newline, special, hash, ...chat };
}

/** Tokenizes and divides a corpus. Throws a ConfigError if some of it is unusable. */
export async function prepareTokens(
  corpus: OpenCorpus,
  form: CorpusForm,
  options: PrepareTokens,
): Promise<PreparedTokens> {
  const parts = isSimple(corpus, form)
    ? await readText(corpus, form, options)
    : await readTokens(corpus, form, options);
  return {
    data: { kind: 'tokens', ...parts },
    bytesPerToken: bytesPerToken(parts.validation, form),
  };
}

type Parts = Omit<PreparedTokens['data'], 'kind'>;

/** Reports whether a corpus is a short text whose characters or bytes are its tokens. */
const isSimple = ({ name, size }: OpenCorpus, { tokenizer }: CorpusForm): boolean =>
  (tokenizer === tokenizers.chars || tokenizer === tokenizers.bytes) &&
  !isDocuments(name) &&
  size <= SMALL_BYTES;

async function readText(
  { name, read }: OpenCorpus,
  { tokenizer }: CorpusForm,
  { context, shard, form, evaluation, onNotice }: PrepareTokens,
): Promise<Parts> {
  const pieces: Uint8Array[] = [];
  for await (const piece of read()) pieces.push(piece);
  const { tokens, replaced } = tokenizer.encode(concatBytes(...pieces));
  reportReplaced(name, replaced, tokenizer, onNotice);
  const holdout = evaluation && tokenizer.encode(evaluation).tokens;
  return divideText(tokens, shard, { form, context, holdout });
}

async function readTokens(
  corpus: OpenCorpus,
  textForm: CorpusForm,
  options: PrepareTokens,
): Promise<Parts> {
  const { evaluation, onNotice, limits = usualLimits } = options;
  const { tokenizer } = textForm;
  const file = await tokenizeCorpus(corpus, textForm, options);
  reportReplaced(corpus.name, file.replaced, tokenizer, onNotice);
  const { vocabulary } = tokenizer;
  const keepsAll = evaluation !== undefined;
  const parts = divideTokens(file, { ...options, keepsAll, vocabulary });
  const hold = (part: StoredTokens) =>
    file.memory ? pickTokens(part, file.memory) : loadTokens(part, limits.inMemory);
  const shard = hold(parts.shard);
  const validation = parts.validation
    ? hold(parts.validation)
    : evaluated(tokenizer.encode(evaluation!).tokens, isMasked(shard));
  assertCounts(shard, `shard ${options.shard.index}/${options.shard.count} of ${corpus.name}`);
  assertCounts(validation, `the validation part of ${corpus.name}`);
  return { shard, validation, documents: parts.documents };
}

/** Returns the evaluation text as a part in which every token counts. */
const evaluated = (tokens: Tokens, masked: boolean): TokenPart =>
  masked ? { tokens, counted: new Uint8Array(tokens.length).fill(1) } : tokens;

function reportReplaced(
  name: string,
  replaced: number,
  { vocabulary }: Tokenizer,
  onNotice: (message: string) => void,
): void {
  if (replaced === 0) return;
  onNotice(
    `${replaced} characters of ${name} are not among the ${vocabulary} tokens and ` +
      'were replaced by spaces (use --set tokens=bytes to keep them)',
  );
}

export interface TokenDivision extends Pick<PrepareTokens, 'context' | 'shard' | 'form'> {
  /** All of the corpus is for training, since the run has a separate evaluation text. */
  readonly keepsAll: boolean;
  readonly vocabulary: number;
}

/** Window starts are 32-bit integers. */
const MOST_TOKENS = 2 ** 31 - 1;

/** Returns the worker's shard and the validation part. Throws a ConfigError if one is shorter than a window. */
function divideTokens(
  file: TokenFile,
  { context, shard, form, keepsAll, vocabulary }: TokenDivision,
) {
  const part = (bounds: readonly number[], what: string): StoredTokens => {
    const ranges = joined(bounds);
    const length = ranges.reduce((sum, bound, i) => sum + (i % 2 === 0 ? -bound : bound), 0);
    assertLongEnough(what, length, context);
    if (length > MOST_TOKENS) {
      throw new ConfigError('data/too-large', `${what} has ${length} tokens, more than 2^31`, {
        hint: 'divide the corpus among more workers (--shards)',
      });
    }
    const counted = file.counted === undefined ? {} : { countedFile: file.counted };
    return { file: file.ids, ...counted, ranges, length, vocabulary };
  };
  const cut = keepsAll ? file.tokens : cutOf(file);
  // a single text is divided in blocks, documents at their ends
  const edges = [0, ...file.stops.filter((stop) => stop <= cut)];
  const dealt = file.stops.length === 0 ? [] : shardRanges(edges.length - 1, shard, form, 1);
  const bounds =
    file.stops.length === 0
      ? shardRanges(cut, shard, form).flat()
      : dealt.flatMap(([from, to]) => [edges[from]!, edges[to]!]);
  return {
    documents: file.stops.length === file.documents ? placesOf(dealt, edges) : undefined,
    shard: part(bounds, `shard ${shard.index}/${shard.count} of the corpus`),
    validation: keepsAll
      ? undefined
      : part([cut, file.tokens], 'the last tenth of the corpus, which is for validation,'),
  };
}

/** Returns where in the shard each of its documents is. */
function placesOf(
  dealt: readonly (readonly [from: number, to: number])[],
  edges: readonly number[],
): NonNullable<Parts['documents']> {
  const places = new Map<number, Range>();
  let at = 0;
  for (const [first, end] of dealt) {
    for (let i = first; i < end; i++) {
      const to = at + edges[i + 1]! - edges[i]!;
      places.set(i, { from: at, to });
      at = to;
    }
  }
  return places;
}

/** Returns the start of the validation part: a tenth before the end, moved to the end of a document. */
function cutOf({ tokens, stops, documents }: TokenFile): number {
  const wanted = tokens - Math.floor(tokens * VALIDATION_SHARE);
  if (stops.length === 0) return wanted;
  if (stops.length === 1) {
    const lines = documents === 1 ? 'only one line' : `only ${documents} lines`;
    throw new ConfigError(
      'corpus/too-few',
      `the corpus has ${lines}; the last tenth of its documents is for validation`,
      { hint: 'add more lines: each line is one document' },
    );
  }
  const inner = stops.slice(0, -1);
  return inner.find((stop) => stop >= wanted) ?? inner.at(-1)!;
}

/** Merges adjacent ranges. */
function joined(bounds: readonly number[]): Float64Array {
  const all: number[] = [];
  for (let i = 0; i < bounds.length; i += 2) {
    if (all.length > 0 && all.at(-1) === bounds[i]) all[all.length - 1] = bounds[i + 1]!;
    else all.push(bounds[i]!, bounds[i + 1]!);
  }
  return Float64Array.from(all);
}

/** Copies a part out of tokens in memory. */
function pickTokens(
  { ranges, length, vocabulary }: StoredTokens,
  { ids, counted }: NonNullable<TokenFile['memory']>,
): TokenPart {
  const picked = { ids: new Int32Array(length), counted: new Uint8Array(length) };
  for (let i = 0, at = 0; i < ranges.length; i += 2) {
    const [from, to] = [ranges[i]!, ranges[i + 1]!];
    picked.ids.set(ids.subarray(from, to), at);
    if (counted) picked.counted.set(counted.subarray(from, to), at);
    at += to - from;
  }
  const tokens = storeTokens(picked.ids, vocabulary);
  return counted ? { tokens, counted: picked.counted } : tokens;
}

/** Loads a part of at most `most` tokens into memory; returns a longer one unchanged. */
function loadTokens(part: StoredTokens, most: number): TokenPart {
  if (part.length > most) return part;
  const reader = openTokens(part);
  try {
    const tokens = storeTokens(reader.tokens(0, part.length), part.vocabulary);
    return isMasked(part) ? { tokens, counted: reader.counted(0, part.length) } : tokens;
  } finally {
    reader.close();
  }
}

/** Maximum number of windows that are sampled to estimate the bytes per token. */
const MAX_SAMPLED_WINDOWS = 256;
const WINDOW = 4096;

/** Returns the bytes of text per counted token. They make losses comparable across tokenizers. */
function bytesPerToken(
  part: TokenPart,
  { tokenizer, special }: Omit<TextForm, 'begin' | 'end'>,
): number {
  const reader = openTokens(part);
  const windows = Math.ceil(tokensIn(part) / WINDOW);
  const sampled = Math.min(windows, MAX_SAMPLED_WINDOWS);
  let [bytes, tokens] = [0, 0];
  for (let i = 0; i < sampled; i++) {
    const from = Math.floor((i * windows) / sampled) * WINDOW;
    const to = Math.min(from + WINDOW, reader.length);
    const counted = reader.counted(from, to);
    const countedTokens = Array.from(reader.tokens(from, to)).filter((_, at) => counted[at] === 1);
    tokens += countedTokens.length;
    bytes += utf8(tokenizer.decode(countedTokens.filter((token) => !special.has(token)))).length;
  }
  reader.close();
  return tokens === 0 ? 0 : bytes / tokens;
}

/** Throws a ConfigError (`corpus/uncounted`) if no token of a part counts. */
function assertCounts(part: TokenPart, what: string): void {
  const reader = openTokens(part);
  const next = nextCounted(reader, 1);
  reader.close();
  if (next !== undefined) return;
  throw new ConfigError('corpus/uncounted', `no token in ${what} counts: it has only prompts`, {
    hint: 'add more lines to the corpus, so that each part has completions or assistant turns',
  });
}
