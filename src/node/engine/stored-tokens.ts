/** Token windows in files, of which only those asked for are read. */
import { closeSync, openSync, readSync } from 'node:fs';
import { TrainingError } from '../../base/errors.ts';
import {
  openTokens as openParts,
  type StoredTokens,
  type TokenPart,
  type TokenReader,
} from '../../model/data/token-reader.ts';
import { assertTokens } from '../../model/data/tokens.ts';

/** Reads a part, wherever on this machine it is. */
export const openTokens = (part: TokenPart): TokenReader => openParts(part, openStored);

/** Opens the files; windows are read as they are asked for. */
export function openStored({
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
