/**
 * Tokenizers: text to token ids and back. The built-in ones have ids that fit a byte. The ids of a tokenizer never change, since
 * all workers of a run must agree on them.
 */
import { utf8 } from '../../base/bytes.ts';
import type { Tokens } from './tokens.ts';

interface Encoded {
  readonly tokens: Tokens;
  /** Characters the vocabulary lacks; each became a space. */
  readonly replaced: number;
}

/** Text to token ids and back; `tokenizers` has those that are built in. */
export interface Tokenizer {
  readonly name: string;
  /** Ids are 0 .. vocabulary - 1. */
  readonly vocabulary: number;
  /** Takes text, or the UTF-8 bytes of it. */
  encode(text: string | Uint8Array): Encoded;
  /**
   * The last place at which a text may be cut so that both parts have the tokens of the whole, whatever follows; 0 where there is
   * none. Left out where no text may be.
   */
  lastCut?(text: string): number;
  /** Throws a RangeError on an id outside the vocabulary. */
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

/** 256 ids: the bytes themselves. Bytes that are not UTF-8 decode to U+FFFD. */
const bytes: Tokenizer = {
  name: 'bytes',
  vocabulary: 256,
  encode: (text) => ({ tokens: typeof text === 'string' ? utf8(text) : text, replaced: 0 }),
  lastCut: (text) => text.length,
  decode(tokens) {
    return lossy.decode(Uint8Array.from(tokens, (token) => checked(token, this)));
  },
};

/** The tokenizers that are built in: characters of English text, or bytes. */
export const tokenizers = { chars, bytes } satisfies Record<string, Tokenizer>;

function checked(token: number, { name, vocabulary }: Tokenizer): number {
  if (Number.isInteger(token) && token >= 0 && token < vocabulary) return token;
  throw new RangeError(`token ${token} is outside the ${vocabulary} of tokenizer ${name}`);
}
