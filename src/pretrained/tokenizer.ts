/** Tokenizers of published models: of tokenizer.json, and out of the metadata of a GGUF file. */
import { Tokenizer as Published } from '@huggingface/tokenizers';
import { ConfigError, safeLine } from '../base/errors.ts';
import { storeTokens, type Tokenizer } from '../model/data/tokens.ts';

/** Text is encoded in pieces of about so many characters, which bounds the memory that the tokens' texts take. */
const PIECE = 1 << 16;

const lossy = new TextDecoder();

export interface PublishedTokenizer extends Tokenizer {
  /** Ids of one text, with special tokens where the text names them; none are added. */
  ids(text: string): readonly number[];
  /** The id of a token that is one word of the vocabulary, such as `<|im_end|>`. */
  idOf(token: string): number | undefined;
  readonly special: ReadonlySet<number>;
  /** What the model expects before a text: the id of its begin-of-text token, or nothing. */
  readonly begin: readonly number[];
  /** The id of the end-of-text token (`eos_token`), or nothing. */
  readonly end: readonly number[];
}

/**
 * `vocabulary` is the number of rows of the embedding, at least the tokenizer's. Throws a ConfigError
 * (`model/tokenizer`).
 */
export function createTokenizer(
  { tokenizer, config }: { readonly tokenizer: object; readonly config: object },
  { name, vocabulary }: { readonly name: string; readonly vocabulary: number },
): PublishedTokenizer {
  const published = open(tokenizer, config, name);
  let largest = 0;
  for (const id of published.get_vocab(true).values()) largest = Math.max(largest, id);
  if (largest >= vocabulary) {
    throw wrong(name, `it has token ${largest}, and the model's vocabulary is ${vocabulary}`);
  }
  const ids = (text: string): readonly number[] =>
    published.encode(text, { add_special_tokens: false }).ids;
  const canCut = hasByteLevel(tokenizer);
  const added = [...published.get_added_tokens_decoder()];
  const end = published.token_to_id(nameOf((config as { eos_token?: unknown }).eos_token));
  return {
    name,
    vocabulary,
    ids,
    idOf: (token) => published.token_to_id(token),
    special: new Set(added.filter(([, token]) => token.special).map(([id]) => id)),
    begin: beginOf(published),
    end: end === undefined ? [] : [end],
    ...(canCut && { lastCut }),
    encode(source) {
      const text = typeof source === 'string' ? source : lossy.decode(source);
      const all: number[] = [];
      for (const piece of canCut ? pieces(text) : [text]) {
        for (const id of ids(piece)) all.push(id);
      }
      return { tokens: storeTokens(all, vocabulary), replaced: 0 };
    },
    decode: (tokens) =>
      published.decode(Array.from(tokens), {
        skip_special_tokens: false,
        clean_up_tokenization_spaces: false,
      }),
  };
}

/** A special token's text, which files give alone or in an object. */
const nameOf = (token: unknown): string =>
  String((token as { content?: unknown } | null | undefined)?.content ?? token ?? '');

/** Ids that the tokenizer puts before a text when it adds special tokens. */
function beginOf(published: Published): readonly number[] {
  const plain = published.encode('a', { add_special_tokens: false }).ids;
  const { ids } = published.encode('a', { add_special_tokens: true });
  return ids.slice(0, Math.max(0, ids.indexOf(plain[0]!)));
}

function open(tokenizer: object, config: object, name: string): Published {
  const unknown = patternsIn(tokenizer).find((pattern) => !knownPatterns.has(pattern));
  if (unknown !== undefined) {
    throw new ConfigError(
      'model/tokenizer',
      `the tokenizer of ${name} splits text by a pattern that is not known here: ${safeLine(unknown)}`,
      { hint: 'use a model whose tokenizer splits like gpt-2, smollm, llama-bpe, qwen2 or tekken' },
    );
  }
  try {
    return new Published(withUnicodeDigits(tokenizer), config);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw wrong(name, safeLine(reason), cause);
  }
}

/** Every regular expression of a tokenizer.json, outside its vocabulary. */
function patternsIn(tokenizer: object): readonly string[] {
  const { normalizer, pre_tokenizer, post_processor, decoder } = tokenizer as Untyped;
  const patterns: string[] = [];
  JSON.stringify([normalizer, pre_tokenizer, post_processor, decoder], (key, value: unknown) => {
    if (key === 'Regex') patterns.push(String(value));
    return value;
  });
  return patterns;
}

/**
 * Replaces `Digits` by a `Split` with the same meaning as in the reference library, whose digits are all numeric
 * characters (Unicode's N). The `Digits` of @huggingface/tokenizers takes ASCII digits only.
 */
function withUnicodeDigits(tokenizer: object): object {
  const replaced = (node: unknown): unknown => {
    const { type, pretokenizers, individual_digits } = (node ?? {}) as Untyped;
    if (type === 'Sequence' && Array.isArray(pretokenizers))
      return { type, pretokenizers: pretokenizers.map(replaced) };
    if (type !== 'Digits') return node;
    const pattern = { Regex: individual_digits === true ? '\\p{N}' : '\\p{N}+' };
    return { type: 'Split', pattern, behavior: 'Isolated', invert: false };
  };
  return { ...tokenizer, pre_tokenizer: replaced((tokenizer as Untyped).pre_tokenizer) };
}

type Untyped = Readonly<Record<string, unknown>>;

const wrong = (name: string, reason: string, cause?: unknown): ConfigError =>
  new ConfigError('model/tokenizer', `the tokenizer of ${name} does not fit: ${reason}`, {
    hint: 'take the tokenizer.json that was published with these weights',
    cause,
  });

/** Byte-level rules never join a lone newline with a letter after it, so text may be cut there. */
function hasByteLevel(tokenizer: object): boolean {
  const { pre_tokenizer: pre } = tokenizer as { pre_tokenizer?: unknown };
  return JSON.stringify(pre ?? null).includes('"ByteLevel"');
}

/** The last place behind a single newline before a letter. */
function lastCut(text: string): number {
  for (let at = text.lastIndexOf('\n'); at > 0; at = text.lastIndexOf('\n', at - 1)) {
    if (/^\S\n\p{L}/u.test(text.slice(at - 1, at + 3))) return at + 1;
  }
  return 0;
}

/** Text cut after single newlines before a letter, each piece longer than a bound but the last. */
function* pieces(text: string): Generator<string> {
  const cut = /(?<=\S)\n(?=\p{L})/gu;
  let from = 0;
  while (from < text.length) {
    cut.lastIndex = from + PIECE;
    const found = cut.lastIndex < text.length ? cut.exec(text) : null;
    const to = found ? found.index + 1 : text.length;
    yield text.slice(from, to);
    from = to;
  }
}

const byteLevel = (useRegex: boolean) => ({
  type: 'ByteLevel',
  add_prefix_space: false,
  trim_offsets: true,
  use_regex: useRegex,
});

/** The pattern of Llama 3 and Qwen; `digits` says how many digits stay together. */
const words = (digits: string): string =>
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}` +
  '| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';

/** The pattern of Tekken (Mistral NeMo), which separates lower case from upper case. */
const tekken =
  '[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|' +
  '[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+' +
  '[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';

/**
 * The patterns that a tokenizer.json may hold. A model comes from strangers, and a hostile pattern runs for minutes on
 * a few letters, so a tokenizer with any other pattern is refused before the pattern is compiled.
 */
const knownPatterns: ReadonlySet<string> = new Set([
  words('\\p{N}{1,3}'),
  words('\\p{N}'),
  tekken,
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
  '\\p{N}',
  '\\p{N}+',
  '\\p{N}{1,3}',
  ' {2,}',
]);

/** Splits by a regular expression; `digits` says how many digits stay together. */
const split = (digits: string) => ({
  type: 'Sequence',
  pretokenizers: [
    {
      type: 'Split',
      pattern: { Regex: words(digits) },
      behavior: 'Isolated',
      invert: false,
    },
    byteLevel(false),
  ],
});

/** What happens to text before pairs are merged, by the name that GGUF files give it (`tokenizer.ggml.pre`). */
const splitters: Readonly<Record<string, object>> = {
  'gpt-2': { pre_tokenizer: byteLevel(true) },
  smollm: {
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [{ type: 'Digits', individual_digits: true }, byteLevel(true)],
    },
  },
  'llama-bpe': { pre_tokenizer: split('\\p{N}{1,3}') },
  qwen2: { normalizer: { type: 'NFC' }, pre_tokenizer: split('\\p{N}') },
};

/** The name of a tokenizer's way to split text; undefined where it is none of the above. */
export function splitterOf(tokenizer: object): string | undefined {
  const { normalizer, pre_tokenizer: pre, model } = tokenizer as Readonly<Record<string, unknown>>;
  if ((model as { type?: unknown } | undefined)?.type !== 'BPE') return undefined;
  const wanted = plainly({ normalizer: normalizer ?? null, pre_tokenizer: pre });
  return Object.keys(splitters).find(
    (name) => plainly({ normalizer: null, ...splitters[name] }) === wanted,
  );
}

/** As text, without what changes no token and with what is meant where it is left out. */
const plainly = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part;
    const { trim_offsets: __, ...rest } = part as Readonly<Record<string, unknown>>;
    const whole = rest.type === 'ByteLevel' ? { use_regex: true, ...rest } : rest;
    return Object.fromEntries(Object.entries(whole).sort(([a], [b]) => (a < b ? -1 : 1)));
  });

/** Vocabularies whose words are taken whole before pairs are merged. */
const IGNORES_MERGES = new Set(['llama-bpe']);

const CONTROL = 3;
const USER_DEFINED = 4;

export interface TokenizerFiles {
  /** The contents of `tokenizer.json`. */
  readonly tokenizer: object;
  /** The contents of `tokenizer_config.json`: the template of chats, and the names of special tokens. */
  readonly config: Readonly<Record<string, unknown>>;
}

/** Throws a ConfigError (`model/tokenizer`) about a tokenizer that is not built here. */
export function readGgufTokenizer(
  metadata: ReadonlyMap<string, unknown>,
  file: string,
): TokenizerFiles {
  const model = metadata.get('tokenizer.ggml.model');
  const pre = String(metadata.get('tokenizer.ggml.pre') ?? 'gpt-2');
  if (model !== 'gpt2' || !Object.hasOwn(splitters, pre)) {
    throw new ConfigError(
      'model/tokenizer',
      `${file} has the tokenizer ${safeLine(`${String(model)} ${pre}`)}, which is not built here`,
      { hint: "put the model's tokenizer.json beside the file" },
    );
  }
  const tokens = strings(metadata.get('tokenizer.ggml.tokens'), file);
  const merges = strings(metadata.get('tokenizer.ggml.merges'), file);
  const types = metadata.get('tokenizer.ggml.token_type');
  const typeOf = (id: number): unknown => (Array.isArray(types) ? types[id] : undefined);
  const added = tokens.flatMap((content, id) => {
    const type = typeOf(id);
    if (type !== CONTROL && type !== USER_DEFINED) return [];
    const plain = { single_word: false, lstrip: false, rstrip: false, normalized: false };
    return [{ id, content, ...plain, special: type === CONTROL }];
  });
  return {
    tokenizer: {
      version: '1.0',
      added_tokens: added,
      normalizer: null,
      ...splitters[pre],
      post_processor: null,
      decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
      model: {
        type: 'BPE',
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: false,
        byte_fallback: false,
        ignore_merges: IGNORES_MERGES.has(pre),
        vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
        merges,
      },
    },
    config: { ...specials(metadata, tokens), ...template(metadata) },
  };
}

function strings(value: unknown, file: string): readonly string[] {
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value;
  throw new ConfigError('model/tokenizer', `${file} lacks the tokens or merges of its tokenizer`, {
    hint: "put the model's tokenizer.json beside the file",
  });
}

/** The names of special tokens, which templates of chats use. */
function specials(
  metadata: ReadonlyMap<string, unknown>,
  tokens: readonly string[],
): Record<string, string> {
  const named = { bos_token: 'bos', eos_token: 'eos', pad_token: 'padding', unk_token: 'unknown' };
  return Object.fromEntries(
    Object.entries(named).flatMap(([name, key]) => {
      const token = tokens[Number(metadata.get(`tokenizer.ggml.${key}_token_id`))];
      return token === undefined ? [] : [[name, token]];
    }),
  );
}

function template(metadata: ReadonlyMap<string, unknown>): Record<string, string> {
  const text = metadata.get('tokenizer.chat_template');
  return typeof text === 'string' ? { chat_template: text } : {};
}
