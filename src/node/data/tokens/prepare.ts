/** From a corpus to what a worker trains and evaluates on: its shard and the validation part, as tokens. */
import { concatBytes } from '../../../base/bytes.ts';
import { divideText, type ShardForm } from '../../../model/data/text.ts';
import { isMasked, type TokenPart } from '../../../model/data/token-reader.ts';
import { type Tokenizer, tokenizers } from '../../../model/data/tokenizer.ts';
import type { Tokens } from '../../../model/data/tokens.ts';
import type { TrainerData } from '../../../model/forms/table.ts';
import type { Pretrained } from '../../../pretrained/pretrained.ts';
import type { Shard } from '../../../run/field.ts';
import type { OpenCorpus } from '../corpus.ts';
import { assertCounts, bytesPerToken, divideTokens, holdTokens } from './divide.ts';
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
  /** A text that everybody evaluates on; all of the corpus is then for training. */
  readonly evaluation?: Uint8Array | undefined;
}

export interface PreparedTokens {
  readonly data: Extract<TrainerData, { readonly kind: 'tokens' }>;
  /** Bytes of text for each token of the validation part that counts. */
  readonly bytesPerToken: number;
}

/** Texts up to this size are made into tokens in memory, where that is no work. */
const SMALL_BYTES = 2 ** 25;

/** A built-in tokenizer: documents end in a newline, and there are no conversations. */
export const builtInForm = (tokenizer: Tokenizer): CorpusForm => ({
  tokenizer,
  begin: [],
  end: Array.from(tokenizer.encode('\n').tokens),
  special: new Set(),
  hash: tokenizer.name,
});

/** A published model's tokenizer, and its template of conversations. `hash` is that of the tokenizer. */
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

/** Throws a ConfigError that says what cannot be used of the corpus; nothing of it trains before. */
export async function prepareTokens(
  corpus: OpenCorpus,
  form: CorpusForm,
  options: PrepareTokens,
): Promise<PreparedTokens> {
  const { shard, validation } = isSimple(corpus, form)
    ? await readText(corpus, form, options)
    : await readTokens(corpus, form, options);
  return {
    data: { kind: 'tokens', shard, validation },
    bytesPerToken: bytesPerToken(validation, form),
  };
}

interface Parts {
  readonly shard: TokenPart;
  readonly validation: TokenPart;
}

/** A short text of characters or bytes is its own tokens. */
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
  tellReplaced(name, replaced, tokenizer, onNotice);
  const held = evaluation && tokenizer.encode(evaluation).tokens;
  return divideText(tokens, shard, { form, context, held });
}

async function readTokens(
  corpus: OpenCorpus,
  textForm: CorpusForm,
  options: PrepareTokens,
): Promise<Parts> {
  const { evaluation, onNotice, limits = usualLimits } = options;
  const { tokenizer } = textForm;
  const file = await tokenizeCorpus(corpus, textForm, options);
  tellReplaced(corpus.name, file.replaced, tokenizer, onNotice);
  const { vocabulary } = tokenizer;
  const keepsAll = evaluation !== undefined;
  const parts = divideTokens(file, { ...options, keepsAll, vocabulary });
  const shard = holdTokens(parts.shard, limits.held);
  const validation = parts.validation
    ? holdTokens(parts.validation, limits.held)
    : evaluated(tokenizer.encode(evaluation!).tokens, isMasked(shard));
  assertCounts(shard, `shard ${options.shard.index}/${options.shard.count} of ${corpus.name}`);
  assertCounts(validation, `the validation part of ${corpus.name}`);
  return { shard, validation };
}

/** A slice that all evaluate on counts as a whole. */
const evaluated = (tokens: Tokens, masked: boolean): TokenPart =>
  masked ? { tokens, counted: new Uint8Array(tokens.length).fill(1) } : tokens;

function tellReplaced(
  name: string,
  replaced: number,
  { vocabulary }: Tokenizer,
  onNotice: (message: string) => void,
): void {
  if (replaced === 0) return;
  onNotice(
    `${replaced} characters of ${name} are not among the ${vocabulary} tokens and became spaces (--tokens bytes keeps them)`,
  );
}
