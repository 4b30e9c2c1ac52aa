/**
 * Reed-Solomon erasure coding of payloads and files: k data shards and m parity shards of equal length, any k of
 * which restore the rest. Parity shard i is the sum over j of data shard j times 1 / ((k + i) + j) in GF(2^8),
 * where + is XOR: a Cauchy matrix (Blömer et al. 1995, "An XOR-based erasure-resilient coding scheme"), so every
 * choice of k shards can be solved. It repairs losses, not lies: verify a shard before it comes here.
 */

/** An erasure code: k data shards and m parity shards in each group. */
export interface ErasureCode {
  /** Data shards, k. */
  readonly data: number;
  /** Parity shards, m; k + m is at most 256. */
  readonly parity: number;
}

/** Maximum data and parity shards of a group together: the field has 256 elements. */
export const MOST_SHARDS = 256;

/** One row of factors for each sum, one column for each source. */
export type Matrix = readonly (readonly number[])[];

/** How the lost data shards of a group are restored: each is a sum over the sources. */
export interface Recovery {
  /** Rows of the group to read. */
  readonly sources: readonly number[];
  /** Rows of the lost data shards, ascending. */
  readonly targets: readonly number[];
  readonly matrix: Matrix;
}

/** Returns the factors of the parity shards over the first `columns` data shards; missing ones count as zeros. */
export const parityMatrix = (code: ErasureCode, columns: number): Matrix =>
  Array.from({ length: code.parity }, (_, row) =>
    Array.from({ length: columns }, (__, column) => coefficient(code, row, column)),
  );

/** Returns how to restore the lost ones of `columns` data shards, or undefined if too few rows are available. */
export function recoveryOf(
  code: ErasureCode,
  columns: number,
  isAvailable: (row: number) => boolean,
): Recovery | undefined {
  const data = [...Array(columns).keys()];
  const targets = data.filter((row) => !isAvailable(row));
  const parity = [...Array(code.parity).keys()]
    .filter((row) => isAvailable(code.data + row))
    .slice(0, targets.length);
  if (parity.length < targets.length) return undefined;
  const available = data.filter(isAvailable);
  const inverse = invert(parity.map((row) => targets.map((j) => coefficient(code, row, j))));
  return {
    sources: [...available, ...parity.map((row) => code.data + row)],
    targets,
    matrix: inverse.map((factors) => [
      ...available.map((j) =>
        parity.reduce((sum, row, i) => sum ^ multiply(factors[i]!, coefficient(code, row, j)), 0),
      ),
      ...factors,
    ]),
  };
}

/** Overwrites `targets[i]` with the sum over j of `matrix[i][j]` times `sources[j]`; all have the same length. */
export function combine(
  matrix: Matrix,
  sources: readonly Uint8Array[],
  targets: readonly Uint8Array[],
): void {
  for (const [i, target] of targets.entries()) {
    target.fill(0);
    for (const [j, source] of sources.entries()) addMultiple(target, source, matrix[i]![j]!);
  }
}

/** Element of the Cauchy matrix: parity row, data column. */
const coefficient = (code: ErasureCode, row: number, column: number): number =>
  inverse((code.data + row) ^ column);

/** Gauss-Jordan without pivoting: every leading block of a Cauchy matrix is regular. */
function invert(matrix: Matrix): Matrix {
  const size = matrix.length;
  const rows = matrix.map((row, i) => {
    const wide = new Uint8Array(2 * size);
    wide.set(row);
    wide[size + i] = 1;
    return wide;
  });
  for (const [i, pivot] of rows.entries()) {
    const scale = inverse(pivot[i]!);
    for (let j = 0; j < pivot.length; j++) pivot[j] = multiply(pivot[j]!, scale);
    for (const [other, row] of rows.entries()) if (other !== i) addMultiple(row, pivot, row[i]!);
  }
  return rows.map((row) => [...row.subarray(size)]);
}

/** Returns the length of every shard of a payload. Throws a RangeError for an impossible code. */
export function shardBytes({ data, parity }: ErasureCode, bytes: number): number {
  const whole = [data, parity, bytes].every(Number.isSafeInteger);
  if (!whole || data < 1 || parity < 0 || data + parity > MOST_SHARDS || bytes < 1) {
    throw new RangeError(`${bytes} bytes in ${data} data and ${parity} parity shards`);
  }
  return Math.ceil(bytes / data);
}

/** Returns the data shards, the payload in order with zeros after its end, and then the parity shards. */
export function encodeGroup(payload: Uint8Array, code: ErasureCode): readonly Uint8Array[] {
  const length = shardBytes(code, payload.length);
  const data = Array.from({ length: code.data }, (_, j) => {
    const shard = new Uint8Array(length);
    shard.set(payload.subarray(j * length, (j + 1) * length));
    return shard;
  });
  const parity = Array.from({ length: code.parity }, () => new Uint8Array(length));
  combine(parityMatrix(code, code.data), data, parity);
  return [...data, ...parity];
}

export type Restored =
  | { readonly ok: true; readonly bytes: Uint8Array }
  /** Too few shards: `have` of the `need` that are enough. */
  | { readonly ok: false; readonly have: number; readonly need: number };

/** Restores a payload of `bytes` bytes from the available shards, data first, `undefined` where one is lost. */
export function restoreGroup(
  shards: readonly (Uint8Array | undefined)[],
  code: ErasureCode,
  bytes: number,
): Restored {
  const length = shardBytes(code, bytes);
  if (shards.length !== code.data + code.parity) {
    throw new RangeError(`${shards.length} slots for ${code.data} + ${code.parity} shards`);
  }
  const available = shards.filter((shard) => shard !== undefined);
  if (available.some((shard) => shard.length !== length)) {
    throw new RangeError(`a shard is not ${length} bytes long`);
  }
  const recovery = recoveryOf(code, code.data, (row) => shards[row] !== undefined);
  if (recovery === undefined) return { ok: false, have: available.length, need: code.data };
  const out = new Uint8Array(length * code.data);
  for (const [j, shard] of shards.slice(0, code.data).entries()) {
    if (shard !== undefined) out.set(shard, j * length);
  }
  const sources = recovery.sources.map((row) => shards[row]!);
  const targets = recovery.targets.map((row) => out.subarray(row * length, (row + 1) * length));
  combine(recovery.matrix, sources, targets);
  return { ok: true, bytes: out.slice(0, bytes) };
}

// GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d) and generator 2, the field of most Reed-Solomon codes
// on bytes. Adding is XOR. Table look-ups, so not for secrets.
const POLYNOMIAL = 0x11d;
const ORDER = 255;

/** Powers of 2, twice over, so that a sum of two logarithms needs no reduction. */
const POWER = new Uint8Array(2 * ORDER);
const LOG = new Uint8Array(256);
for (let i = 0, value = 1; i < ORDER; i++) {
  POWER[i] = value;
  POWER[i + ORDER] = value;
  LOG[value] = i;
  value <<= 1;
  if (value > 255) value ^= POLYNOMIAL;
}

/** Returns the product of two elements of GF(256). */
export const multiply = (a: number, b: number): number =>
  a === 0 || b === 0 ? 0 : POWER[LOG[a]! + LOG[b]!]!;

/** Returns the element whose product with `a` is 1. Throws a RangeError for 0. */
export function inverse(a: number): number {
  if (a === 0) throw new RangeError('0 has no inverse');
  return POWER[ORDER - LOG[a]!]!;
}

/** Products of a factor with two bytes at once, by factor; 128 KiB each, made when first used. */
const pairTables: (Uint16Array | undefined)[] = [];

function pairTable(factor: number): Uint16Array {
  const made = pairTables[factor];
  if (made) return made;
  const single = Uint8Array.from({ length: 256 }, (_, value) => multiply(factor, value));
  const table = new Uint16Array(65_536);
  for (let pair = 0; pair < table.length; pair++) {
    table[pair] = (single[pair >>> 8]! << 8) | single[pair & 255]!;
  }
  pairTables[factor] = table;
  return table;
}

/** target += factor * source, in words of four bytes where both are aligned, and byte by byte elsewhere. */
export function addMultiple(target: Uint8Array, source: Uint8Array, factor: number): void {
  const { length } = target;
  if (source.length !== length) throw new RangeError(`${source.length} bytes added to ${length}`);
  if (factor === 0) return;
  const table = pairTable(factor);
  const isAligned = ((target.byteOffset | source.byteOffset) & 3) === 0;
  const words = isAligned ? length >>> 2 : 0;
  if (words > 0) {
    const to = new Uint32Array(target.buffer, target.byteOffset, words);
    const from = new Uint32Array(source.buffer, source.byteOffset, words);
    for (let i = 0; i < words; i++) {
      const word = from[i]!;
      to[i]! ^= table[word & 65_535]! ^ (table[word >>> 16]! << 16);
    }
  }
  for (let i = 4 * words; i < length; i++) target[i]! ^= table[source[i]!]!;
}
