/** Token ids: storage types, the built-in tokenizers, and reading windows of tokens from memory or files. */

import { utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';

/** Token ids: one byte each if the vocabulary allows it, else 32 bits. */
export type Tokens = Uint8Array | Int32Array;

/** The largest vocabulary whose ids fit a byte. */
const BYTE_VOCABULARY = 256;

/** Returns the storage type of a vocabulary's ids, which is also the type of the graph's `corpus` input. */
export const tokenType = (vocabulary: number): 'u8' | 'i32' =>
  vocabulary <= BYTE_VOCABULARY ? 'u8' : 'i32';

/** Converts ids to the storage type of a vocabulary; returns the same array if it fits already. */
export function storeTokens(tokens: ArrayLike<number>, vocabulary: number): Tokens {
  if (tokenType(vocabulary) === 'u8') {
    return tokens instanceof Uint8Array ? tokens : Uint8Array.from(tokens);
  }
  return tokens instanceof Int32Array ? tokens : Int32Array.from(tokens);
}

/** Throws a ConfigError (`training/data`) for an id outside the vocabulary. */
export function assertTokens(tokens: Tokens, vocabulary: number): void {
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]!;
    if (token >= 0 && token < vocabulary) continue;
    throw new ConfigError(
      'training/data',
      `token ${token} is outside the vocabulary of ${vocabulary}`,
      { hint: 'use the tokenizer that belongs to the model', data: { token, at: i } },
    );
  }
}

/** Tokens with a mask: 1 if predicting the token counts in the loss, else 0. */
export interface MaskedTokens {
  readonly tokens: Tokens;
  readonly counted: Uint8Array;
}

/** Tokens in a file, 32 bits each, little-endian; and an optional mask in a second file, one byte each. */
export interface StoredTokens {
  readonly file: string;
  readonly countedFile?: string;
  /** Ranges of the file in order, as pairs of start and end, in tokens. */
  readonly ranges: Float64Array;
  /** Tokens in all ranges together. */
  readonly length: number;
  readonly vocabulary: number;
}

/** The tokens of a shard or of the validation part. */
export type TokenPart = Tokens | MaskedTokens | StoredTokens;

export const isMasked = (part: TokenPart): boolean =>
  ('counted' in part && part.counted !== undefined) ||
  ('countedFile' in part && part.countedFile !== undefined);

export const tokensIn = (part: TokenPart): number =>
  'tokens' in part ? part.tokens.length : part.length;

/** Reads windows of a part; positions count its tokens from 0. */
export interface TokenReader {
  readonly length: number;
  readonly isMasked: boolean;
  tokens(from: number, to: number): Tokens;
  /** Returns the mask of a range. */
  counted(from: number, to: number): Uint8Array;
  close(): void;
}

/** Opens tokens in files; throws on platforms without files. */
export type OpenStored = (part: StoredTokens) => TokenReader;

/** Bytes of a mask scanned at a time. */
const SCAN = 1 << 16;

export function openTokens(part: TokenPart, openStored: OpenStored): TokenReader {
  if ('file' in part) return openStored(part);
  const tokens = 'tokens' in part ? part.tokens : part;
  const counted = 'tokens' in part ? part.counted : undefined;
  return {
    length: tokens.length,
    isMasked: counted !== undefined,
    tokens: (from, to) => tokens.subarray(from, to),
    counted: (from, to) => counted?.subarray(from, to) ?? new Uint8Array(to - from).fill(1),
    close: () => {},
  };
}

/** Returns the first position at or after `from` with a token that counts; undefined if no token does. */
export function nextCounted(reader: TokenReader, from: number): number | undefined {
  if (!reader.isMasked) return from < reader.length ? from : undefined;
  for (let at = from; at < reader.length; at += SCAN) {
    const offset = reader.counted(at, Math.min(at + SCAN, reader.length)).indexOf(1);
    if (offset >= 0) return at + offset;
  }
  return undefined;
}

/** Returns the start of a window drawn at `start`, moved to the next token that counts if none of its targets does. */
export function fitWindow(reader: TokenReader, start: number, context: number): number {
  if (!reader.isMasked) return start;
  const next = nextCounted(reader, start + 1) ?? nextCounted(reader, 1);
  if (next === undefined || (next > start && next <= start + context)) return start;
  const middle = next - 1 - Math.floor(context / 2);
  return Math.min(Math.max(0, middle), reader.length - context - 1);
}

interface Encoded {
  readonly tokens: Tokens;
  /** Number of characters outside the vocabulary; each became a space. */
  readonly replaced: number;
}

/** Converts text to token ids and back; `tokenizers` has the built-in ones. */
export interface Tokenizer {
  readonly name: string;
  /** Ids are 0 .. vocabulary - 1. */
  readonly vocabulary: number;
  /** Encodes text, or its UTF-8 bytes. */
  encode(text: string | Uint8Array): Encoded;
  /**
   * Returns the last position where a text can be cut without changing its tokens, or 0. Absent if texts
   * must not be cut.
   */
  lastCut?(text: string): number;
  /** Decodes ids. Throws a RangeError for an id outside the vocabulary. */
  decode(tokens: ArrayLike<number>): string;
}

const NEWLINE = 10;
const SPACE = 32;
const LAST = 125;
const lossy = new TextDecoder();

/** 95 ids: 0 is the newline, id k from 1 to 94 is the ASCII character k + 31 (space to `}`; `~` is left out). */
const chars: Tokenizer = {
  name: 'chars',
  vocabulary: LAST - SPACE + 2,
  encode(text) {
    const source = typeof text === 'string' ? text : lossy.decode(text);
    const tokens = new Uint8Array(source.length);
    let length = 0;
    let replaced = 0;
    for (let i = 0; i < source.length; i++) {
      const code = source.codePointAt(i)!;
      if (code > 0xffff) i++;
      if (code === NEWLINE) tokens[length++] = 0;
      else if (code >= SPACE && code <= LAST) tokens[length++] = code - SPACE + 1;
      else {
        tokens[length++] = 1;
        replaced++;
      }
    }
    return { tokens: tokens.slice(0, length), replaced };
  },
  lastCut: (text) => text.length,
  decode(tokens) {
    const codes = new Uint8Array(tokens.length);
    for (let i = 0; i < codes.length; i++) {
      const token = checked(tokens[i]!, this);
      codes[i] = token === 0 ? NEWLINE : token + SPACE - 1;
    }
    return lossy.decode(codes);
  },
};

/** 256 ids: the bytes themselves. Invalid UTF-8 decodes to U+FFFD. */
const bytes: Tokenizer = {
  name: 'bytes',
  vocabulary: 256,
  encode: (text) => ({ tokens: typeof text === 'string' ? utf8(text) : text, replaced: 0 }),
  lastCut: (text) => text.length,
  decode(tokens) {
    return lossy.decode(Uint8Array.from(tokens, (token) => checked(token, this)));
  },
};

/** The built-in tokenizers: characters of English text, or bytes. */
export const tokenizers = { chars, bytes } satisfies Record<string, Tokenizer>;

function checked(token: number, { name, vocabulary }: Tokenizer): number {
  if (Number.isInteger(token) && token >= 0 && token < vocabulary) return token;
  throw new RangeError(`token ${token} is outside the ${vocabulary} of tokenizer ${name}`);
}
