/**
 * The tokenizer that a GGUF file carries, as the `tokenizer.json` it was made from. Byte-level BPE is built here, with the
 * splitting rules of the families whose models are.
 */
import { ConfigError, safeLine } from '../base/errors.ts';

const byteLevel = (useRegex: boolean) => ({
  type: 'ByteLevel',
  add_prefix_space: false,
  trim_offsets: true,
  use_regex: useRegex,
});

/** Splits by a regular expression; `digits` says how many digits stay together. */
const split = (digits: string) => ({
  type: 'Sequence',
  pretokenizers: [
    {
      type: 'Split',
      pattern: {
        Regex: `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
      },
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
