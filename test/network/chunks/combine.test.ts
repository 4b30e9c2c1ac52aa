/** Parity over chunks: any k of k + m restore the rest, byte for byte, and fewer never give wrong bytes. */

import { encodeGroup, multiply } from 'nostrain/network';
import { describe, expect, it } from 'vitest';
import { combine, parityMatrix, recoveryOf } from '../../../src/network/chunks/reed-solomon.ts';

const bytesOf = (length: number, seed: number) =>
  Uint8Array.from({ length }, (_, i) => (i * 167 + seed * 89 + (i >> 8)) & 255);

function encode(code: { data: number; parity: number }, chunks: readonly Uint8Array[]) {
  const parity = Array.from({ length: code.parity }, () => new Uint8Array(chunks[0]!.length));
  combine(parityMatrix(code, chunks.length), chunks, parity);
  return [...chunks, ...parity];
}

describe('parity', () => {
  it('is that of erasure-coded payloads', () => {
    const code = { data: 5, parity: 6 };
    const chunks = Array.from({ length: 5 }, (_, i) => bytesOf(5001, i));
    const payload = Uint8Array.from(chunks.flatMap((chunk) => [...chunk]));
    expect(encode(code, chunks)).toEqual(encodeGroup(payload, code));
  });

  it.each([1, 2, 3, 4])('R-15 restores %i chunks from every choice of as many rows', (data) => {
    for (let parity = 1; parity <= 4; parity++) {
      const code = { data, parity };
      // the last group of a file may have fewer chunks than the others
      for (let columns = 1; columns <= data; columns++) {
        const chunks = Array.from({ length: columns }, (_, i) => bytesOf(70, i));
        const all = encode(code, chunks);
        for (let pattern = 0; pattern < 1 << (columns + parity); pattern++) {
          const at = (row: number) => (row < data ? row : columns + row - data);
          const isHeld = (row: number) => ((pattern >> at(row)) & 1) === 1;
          const held = all.filter((_, i) => (pattern >> i) & 1).length;
          const recovery = recoveryOf(code, columns, isHeld);
          expect(recovery !== undefined).toBe(held >= columns);
          if (recovery === undefined) continue;
          const made = recovery.targets.map(() => new Uint8Array(70));
          combine(
            recovery.matrix,
            recovery.sources.map((row) => all[at(row)]!),
            made,
          );
          expect(made).toEqual(recovery.targets.map((row) => chunks[row]));
        }
      }
    }
  });

  it.each([1, 31, 32, 4096, 9001])('is the same by words and by bytes, of %i bytes', (length) => {
    const matrix = [0, 1, 2, 3, 4].map((i) => [i, 255 - i, 7 * i + 1]);
    const sources = [0, 1, 2].map((i) => bytesOf(length, i));
    const expected = matrix.map((row) =>
      Uint8Array.from({ length }, (_, at) =>
        row.reduce((sum, factor, j) => sum ^ multiply(factor, sources[j]![at]!), 0),
      ),
    );
    for (const offset of [0, 1]) {
      const sums = matrix.map(() => new Uint8Array(length + offset).subarray(offset));
      combine(matrix, sources, sums);
      expect(sums).toEqual(expected);
    }
  });

  it('sums chunks of any length, also over the blocks it works in', () => {
    const code = { data: 3, parity: 2 };
    for (const length of [1, 4095, 4096, 4097, 12_345]) {
      const chunks = [0, 1, 2].map((i) => bytesOf(length, i));
      const all = encode(code, chunks);
      const recovery = recoveryOf(code, 3, (row) => row !== 0 && row !== 2)!;
      const made = [new Uint8Array(length), new Uint8Array(length)];
      combine(
        recovery.matrix,
        recovery.sources.map((row) => all[row]!),
        made,
      );
      expect(made).toEqual([chunks[0], chunks[2]]);
    }
  });
});
