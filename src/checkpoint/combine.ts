/**
 * Reed-Solomon over chunks: which sums of chunks are its parity, and which sums of what is left are its lost chunks. The field and the Cauchy matrix
 * are those of striped payloads; here many sums are made in one pass over long chunks: by vectors, or four for the price of one look-up.
 */

import { coefficient, invert, multiply, type Stripe } from '../network/attachments/erasure.ts';
import { createGaloisAdd, galoisTable } from './gf-simd.ts';

/** One row of factors for each sum, one column for each source. */
export type Matrix = readonly (readonly number[])[];

/** How lost chunks come back: each row is a sum of the sources. */
export interface Recovery {
  /** Rows of the stripe whose chunks are read. */
  readonly sources: readonly number[];
  /** Rows of its lost chunks, in order. */
  readonly targets: readonly number[];
  readonly matrix: Matrix;
}

/** The factors that make parity of the first `columns` chunks of a stripe; those that a file has no more are zeros. */
export const parityMatrix = (stripe: Stripe, columns: number): Matrix =>
  Array.from({ length: stripe.parity }, (_, row) =>
    Array.from({ length: columns }, (__, column) => coefficient(stripe, row, column)),
  );

/** How to restore the lost chunks of a stripe of `columns` chunks from the rows at hand; undefined where too few are. */
export function recoveryOf(
  stripe: Stripe,
  columns: number,
  isHeld: (row: number) => boolean,
): Recovery | undefined {
  const data = [...Array(columns).keys()];
  const targets = data.filter((row) => !isHeld(row));
  const parity = [...Array(stripe.parity).keys()]
    .filter((row) => isHeld(stripe.data + row))
    .slice(0, targets.length);
  if (parity.length < targets.length) return undefined;
  const held = data.filter(isHeld);
  const inverse = invert(parity.map((row) => targets.map((j) => coefficient(stripe, row, j))));
  return {
    sources: [...held, ...parity.map((row) => stripe.data + row)],
    targets,
    matrix: inverse.map((factors) => [
      ...held.map((j) =>
        parity.reduce((sum, row, i) => sum ^ multiply(factors[i]!, coefficient(stripe, row, j)), 0),
      ),
      ...factors,
    ]),
  };
}

/** Sums that one look-up makes: a byte each of a word. */
const AT_ONCE = 4;
/** Bytes between two turns of the sources, so that sums stay in the first cache. */
const BLOCK = 4096;
const NOTHING = new Uint32Array(256);

/** Makes the sums of equally long sources: `targets[i]` becomes the sum over j of `matrix[i][j]` times `sources[j]`. */
type Combine = (sources: readonly Uint8Array[], targets: readonly Uint8Array[]) => void;

/** The fastest that this machine has. */
export const createCombine = (matrix: Matrix): Combine =>
  createVectorCombine(matrix) ?? createPlainCombine(matrix);

/** Of a product, see `galoisTable`. */
const TABLE_BYTES = 32;

/** In vectors of sixteen bytes; undefined where the machine has none. */
function createVectorCombine(matrix: Matrix): Combine | undefined {
  const width = matrix[0]?.length ?? 0;
  const sourceAt = matrix.length * width * TABLE_BYTES;
  const sumAt = (row: number) => sourceAt + (row + 1) * BLOCK;
  const galois = createGaloisAdd(sumAt(matrix.length));
  if (galois === undefined) return undefined;
  const { memory, add } = galois;
  const tableAt = (row: number, column: number) => (row * width + column) * TABLE_BYTES;
  for (const [i, row] of matrix.entries()) {
    for (const [j, factor] of row.entries()) memory.set(galoisTable(factor), tableAt(i, j));
  }
  return (sources, targets) => {
    const length = targets[0]?.length ?? 0;
    for (let from = 0; from < length; from += BLOCK) {
      const to = Math.min(from + BLOCK, length);
      // what a shorter block leaves behind itself is added too, and not taken
      const end = sourceAt + Math.ceil((to - from) / TABLE_BYTES) * TABLE_BYTES;
      memory.fill(0, sumAt(0), sumAt(targets.length));
      for (const [j, source] of sources.entries()) {
        memory.set(source.subarray(from, to), sourceAt);
        for (let i = 0; i < targets.length; i++) add(sumAt(i), sourceAt, end, tableAt(i, j));
      }
      for (const [i, target] of targets.entries()) {
        target.set(memory.subarray(sumAt(i), sumAt(i) + to - from), from);
      }
    }
  };
}

/** By tables, where there are no vectors. */
export function createPlainCombine(matrix: Matrix): Combine {
  const groups = Array.from({ length: Math.ceil(matrix.length / AT_ONCE) }, (_, group) =>
    tablesOf(matrix.slice(group * AT_ONCE, (group + 1) * AT_ONCE)),
  );
  const sums = new Uint32Array(BLOCK);
  return (sources, targets) => {
    const length = targets[0]?.length ?? 0;
    for (const [group, tables] of groups.entries()) {
      const out = targets.slice(group * AT_ONCE, (group + 1) * AT_ONCE);
      for (let from = 0; from < length; from += BLOCK) {
        const to = Math.min(from + BLOCK, length);
        sums.fill(0, 0, to - from);
        for (let j = 0; j < sources.length; j += 2) {
          const second = sources[j + 1] ?? sources[j]!;
          addPair(sums, sources[j]!, second, [tables[j]!, tables[j + 1] ?? NOTHING], from, to);
        }
        for (const [i, target] of out.entries()) takeByte(target, sums, 8 * i, from, to);
      }
    }
  };
}

/** For each source the products of every byte with its factors, one byte of a word for each row. */
const tablesOf = (rows: Matrix): readonly Uint32Array[] =>
  (rows[0] ?? []).map((_, j) =>
    Uint32Array.from({ length: 256 }, (__, value) =>
      rows.reduce((word, row, i) => (word | (multiply(row[j]!, value) << (8 * i))) >>> 0, 0),
    ),
  );

function addPair(
  sums: Uint32Array,
  one: Uint8Array,
  two: Uint8Array,
  [a, b]: readonly [Uint32Array, Uint32Array],
  from: number,
  to: number,
): void {
  for (let i = from; i < to; i++) {
    sums[i - from]! ^= a[one[i]!]! ^ b[two[i]!]!;
  }
}

function takeByte(
  target: Uint8Array,
  sums: Uint32Array,
  shift: number,
  from: number,
  to: number,
): void {
  for (let i = from; i < to; i++) target[i] = sums[i - from]! >>> shift;
}
