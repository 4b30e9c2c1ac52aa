/** Tokenizers of published models, from tokenizer.json or the metadata of a GGUF file. */
import { Tokenizer as Published } from '@huggingface/tokenizers';
import { ConfigError, safeLine, wordsOf } from '../base/errors.ts';
import { storeTokens, type Tokenizer } from '../model/data/tokens.ts';

/** Characters encoded at a time; limits the memory for the texts of tokens. */
const PIECE = 1 << 16;

const lossy = new TextDecoder();

export interface PublishedTokenizer extends Tokenizer {
  /** Encodes a text. Special tokens in the text become their ids; none are added. */
  ids(text: string): readonly number[];
  /** Returns the id of a single token such as `<|im_end|>`; undefined if the vocabulary lacks it. */
  idOf(token: string): number | undefined;
  readonly special: ReadonlySet<number>;
  /** Ids that the model expects before a text: its begin-of-text token, or none. */
  readonly begin: readonly number[];
  /** The id of the end-of-text token (`eos_token`), or none. */
  readonly end: readonly number[];
}

/**
 * Creates a tokenizer; `vocabulary` is the number of rows of the embedding. Throws a ConfigError (`model/tokenizer`) if
 * the tokenizer is unsupported or has more tokens.
 */
export function createTokenizer(
  { tokenizer, config }: { readonly tokenizer: object; readonly config: object },
  { name, vocabulary }: { readonly name: string; readonly vocabulary: number },
): PublishedTokenizer {
  const published = open(tokenizer, config, name);
  let largest = 0;
  for (const id of published.get_vocab(true).values()) largest = Math.max(largest, id);
  if (largest >= vocabulary) {
    throw wrong(name, `it has token ${largest}, but the model's vocabulary is ${vocabulary}`);
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

/** Returns the text of a special token, which files store as a text or an object. */
const nameOf = (token: unknown): string =>
  String((token as { content?: unknown } | null | undefined)?.content ?? token ?? '');

/** Returns the ids that the tokenizer adds before a text along with other special tokens. */
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
      `the tokenizer of ${name} splits text by an unknown pattern: ${safeLine(unknown)}`,
      { hint: 'use a model whose tokenizer splits like gpt-2, smollm, llama-bpe, qwen2 or tekken' },
    );
  }
  try {
    return new Published(withUnicodeDigits(tokenizer), config);
  } catch (cause) {
    throw wrong(name, safeLine(wordsOf(cause)), cause);
  }
}

/** Returns all regular expressions in a tokenizer.json, outside its vocabulary. */
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
 * Replaces `Digits` by an equivalent `Split`. In the reference library digits are all numeric characters (Unicode's N),
 * but `Digits` of @huggingface/tokenizers only matches ASCII digits.
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
    hint: 'use the tokenizer.json that was published with these weights',
    cause,
  });

/** Reports whether a tokenizer is byte-level. Its tokens never join a single newline and the letter after it. */
function hasByteLevel(tokenizer: object): boolean {
  const { pre_tokenizer: pre } = tokenizer as { pre_tokenizer?: unknown };
  return JSON.stringify(pre ?? null).includes('"ByteLevel"');
}

/** Returns the last position between a single newline and a letter. */
function lastCut(text: string): number {
  for (let at = text.lastIndexOf('\n'); at > 0; at = text.lastIndexOf('\n', at - 1)) {
    if (/^\S\n\p{L}/u.test(text.slice(at - 1, at + 3))) return at + 1;
  }
  return 0;
}

/** Cuts text between a single newline and a letter, into pieces of more than `PIECE` characters except the last. */
function* pieces(text: string): Generator<string> {
  const cut = /(?<=\S)\n(?=\p{L})/gu;
  let from = 0;
  while (from < text.length) {
    cut.lastIndex = from + PIECE;
    const match = cut.lastIndex < text.length ? cut.exec(text) : null;
    const to = match ? match.index + 1 : text.length;
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

/** The pattern of Llama 3 and Qwen; `digits` is the quantifier of a group of digits. */
const words = (digits: string): string =>
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}` +
  '| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';

/** The pattern of Tekken (Mistral NeMo), which separates lower from upper case. */
const tekken =
  '[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|' +
  '[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|' +
  '\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';

/**
 * Patterns that are allowed in a tokenizer.json. Model files are untrusted, and a hostile pattern can run for minutes
 * on a few letters, so any other pattern is rejected before it is compiled.
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

/** Splits by a regular expression; `digits` is the quantifier of a group of digits. */
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

/** Pre-tokenizers by their GGUF name (`tokenizer.ggml.pre`). */
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

/** Returns the GGUF name of a tokenizer's pre-tokenizer; undefined if it is unknown. */
export function splitterOf(tokenizer: object): string | undefined {
  const { normalizer, pre_tokenizer: pre, model } = tokenizer as Readonly<Record<string, unknown>>;
  if ((model as { type?: unknown } | undefined)?.type !== 'BPE') return undefined;
  const wanted = normalized({ normalizer: normalizer ?? null, pre_tokenizer: pre });
  return Object.keys(splitters).find(
    (name) => normalized({ normalizer: null, ...splitters[name] }) === wanted,
  );
}

/** Formats a pre-tokenizer for comparison: drops fields without effect on tokens, fills in defaults, sorts keys. */
const normalized = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part;
    const { trim_offsets: __, ...rest } = part as Readonly<Record<string, unknown>>;
    const whole = rest.type === 'ByteLevel' ? { use_regex: true, ...rest } : rest;
    return Object.fromEntries(Object.entries(whole).sort(([a], [b]) => (a < b ? -1 : 1)));
  });

/** Pre-tokenizers that look a whole word up in the vocabulary before merging pairs. */
const IGNORES_MERGES = new Set(['llama-bpe']);

const CONTROL = 3;
const USER_DEFINED = 4;

export interface TokenizerFiles {
  /** The contents of `tokenizer.json`. */
  readonly tokenizer: object;
  /** The contents of `tokenizer_config.json`: the chat template and the names of special tokens. */
  readonly config: Readonly<Record<string, unknown>>;
}

/** Reads the tokenizer of a GGUF file. Throws a ConfigError (`model/tokenizer`) if it is not supported. */
export function readGgufTokenizer(
  metadata: ReadonlyMap<string, unknown>,
  file: string,
): TokenizerFiles {
  const model = metadata.get('tokenizer.ggml.model');
  const pre = String(metadata.get('tokenizer.ggml.pre') ?? 'gpt-2');
  if (model !== 'gpt2' || !Object.hasOwn(splitters, pre)) {
    throw new ConfigError(
      'model/tokenizer',
      `${file} has the unsupported tokenizer ${safeLine(`${String(model)} ${pre}`)}`,
      { hint: "put the model's tokenizer.json next to the file" },
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
    hint: "put the model's tokenizer.json next to the file",
  });
}

/** Returns the special tokens by the names that chat templates use. */
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
