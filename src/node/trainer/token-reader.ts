/** Token windows of a shard, wherever the tokens are: in memory, or in a file of which only the windows asked for are read. */
import { closeSync, openSync, readSync } from 'node:fs';
import { TrainingError } from '../../base/errors.ts';
import { assertTokens, type Tokens } from '../../model/data/tokens.ts';

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

/** So many bytes of a mask are looked through at once. */
const SCAN = 1 << 16;

export function openTokens(part: TokenPart): TokenReader {
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

function openStored({
  file,
  countedFile,
  stretches,
  length,
  vocabulary,
}: StoredTokens): TokenReader {
  const ids = openSync(file, 'r');
  const counted = countedFile === undefined ? undefined : openSync(countedFile, 'r');
  const starts = new Float64Array(stretches.length / 2);
  for (let i = 1; i < starts.length; i++) {
    starts[i] = starts[i - 1]! + stretches[2 * i - 1]! - stretches[2 * i - 2]!;
  }
  const read = (handle: number, name: string, from: number, to: number, width: number) => {
    const bytes = new Uint8Array((to - from) * width);
    for (let at = from, i = stretchAt(starts, from); at < to; i++) {
      const place = stretches[2 * i]! + at - starts[i]!;
      const end = Math.min(to, at + stretches[2 * i + 1]! - place);
      const piece = bytes.subarray((at - from) * width, (end - from) * width);
      readAll(handle, name, piece, place * width);
      at = end;
    }
    return bytes;
  };
  return {
    length,
    isMasked: counted !== undefined,
    tokens: (from, to) => {
      const tokens = idsOf(read(ids, file, from, to, 4));
      assertTokens(tokens, vocabulary);
      return tokens;
    },
    counted: (from, to) =>
      counted === undefined
        ? new Uint8Array(to - from).fill(1)
        : read(counted, countedFile!, from, to, 1),
    close: () => {
      closeSync(ids);
      if (counted !== undefined) closeSync(counted);
    },
  };
}

/** The stretch that holds the token at a position: the last one that starts there or before. */
function stretchAt(starts: Float64Array, position: number): number {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (starts[middle]! <= position) low = middle;
    else high = middle - 1;
  }
  return low;
}

function readAll(handle: number, name: string, into: Uint8Array, from: number): void {
  for (let done = 0; done < into.length; ) {
    const count = readSync(handle, into, done, into.length - done, from + done);
    if (count === 0) {
      throw new TrainingError('training/data', `${name} became shorter while it was read`, {
        hint: 'delete it and start again: it is made anew from the corpus',
      });
    }
    done += count;
  }
}

/** Little-endian numbers of 32 bits, on any machine. */
function idsOf(bytes: Uint8Array): Int32Array {
  const view = new DataView(bytes.buffer);
  return Int32Array.from({ length: bytes.length / 4 }, (_, i) => view.getInt32(4 * i, true));
}
