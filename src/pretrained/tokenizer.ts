/** The tokenizer of a published model, read from its `tokenizer.json` by `@huggingface/tokenizers`, and its template of chats. */
import { Tokenizer as Published } from '@huggingface/tokenizers';
import { ConfigError, safeLine } from '../base/errors.ts';
import type { Tokenizer } from '../model/data/tokenizer.ts';
import { storeTokens } from '../model/data/tokens.ts';

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
 * `vocabulary` is the number of rows of the model's embedding, which may be larger than the tokenizer's. Throws a ConfigError
 * (`model/tokenizer`) about a file that is no tokenizer or has ids that the model lacks.
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
  try {
    return new Published(tokenizer, config);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw wrong(name, safeLine(reason), cause);
  }
}

const wrong = (name: string, reason: string, cause?: unknown): ConfigError =>
  new ConfigError('model/tokenizer', `the tokenizer of ${name} does not fit: ${reason}`, {
    hint: 'take the tokenizer.json that was published with these weights',
    cause,
  });

/** Byte-level rules never join a lone newline with a letter after it, so text may be cut there; of several, the last stays apart. */
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
