/** Token windows of a shard, wherever the tokens are: in memory, or in a file of which only the windows asked for are read. */
import type { Tokens } from './tokens.ts';

/** Tokens of which only some count: 1 where predicting that token does, else 0. */
export interface MaskedTokens {
  readonly tokens: Tokens;
  readonly counted: Uint8Array;
}

/** Tokens in a file, each 32 bits, little-endian; and whether each counts, a byte each, in a second one. */
export interface StoredTokens {
  readonly file: string;
  readonly countedFile?: string;
  /** Stretches of the file, one after the other: from and to, in tokens. */
  readonly stretches: Float64Array;
  /** Tokens of all stretches. */
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

/** Reads a part in windows; positions count its own tokens from 0. */
export interface TokenReader {
  readonly length: number;
  readonly isMasked: boolean;
  tokens(from: number, to: number): Tokens;
  /** 1 where the token counts. */
  counted(from: number, to: number): Uint8Array;
  close(): void;
}

/** Opens what is in files: a machine without files refuses. */
export type OpenStored = (part: StoredTokens) => TokenReader;

/** So many bytes of a mask are looked through at once. */
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

/** The first token at or after `from` that counts; undefined where none does. */
export function nextCounted(reader: TokenReader, from: number): number | undefined {
  if (!reader.isMasked) return from < reader.length ? from : undefined;
  for (let at = from; at < reader.length; at += SCAN) {
    const found = reader.counted(at, Math.min(at + SCAN, reader.length)).indexOf(1);
    if (found >= 0) return at + found;
  }
  return undefined;
}

/**
 * Where a window drawn at `start` is cut: there, when one of its targets counts; else with the next token that counts, or the first one
 * of all, in its middle.
 */
export function fitWindow(reader: TokenReader, start: number, context: number): number {
  if (!reader.isMasked) return start;
  const next = nextCounted(reader, start + 1) ?? nextCounted(reader, 1);
  if (next === undefined || (next > start && next <= start + context)) return start;
  const middle = next - 1 - Math.floor(context / 2);
  return Math.min(Math.max(0, middle), reader.length - context - 1);
}
