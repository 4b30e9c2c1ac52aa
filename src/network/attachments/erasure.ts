/**
 * Reed-Solomon erasure coding of one payload: k data shards and m parity shards of equal length, any k of which restore it.
 * Parity shard i is the sum over j of data shard j times 1 / ((k + i) + j) in GF(2^8), where + is XOR: a Cauchy matrix
 * (Blömer et al. 1995, "An XOR-based erasure-resilient coding scheme"), so every choice of k shards can be solved.
 * It mends losses, not lies: a shard must be verified before it comes here.
 */

/** How a payload is striped. */
export interface Stripe {
  /** Data shards, k. */
  readonly data: number;
  /** Parity shards, m; k + m is at most 256. */
  readonly parity: number;
}

export type Restored =
  | { readonly ok: true; readonly bytes: Uint8Array }
  /** Too few shards: `have` of the `need` that are enough. */
  | { readonly ok: false; readonly have: number; readonly need: number };

const MOST_SHARDS = 256;

function assertStripe({ data, parity }: Stripe, bytes: number): void {
  const whole = [data, parity, bytes].every(Number.isSafeInteger);
  if (!whole || data < 1 || parity < 0 || data + parity > MOST_SHARDS || bytes < 1) {
    throw new RangeError(`${bytes} bytes in ${data} data and ${parity} parity shards`);
  }
}

/** Length of every shard of a payload: the payload over k, rounded up. */
export function shardBytes(stripe: Stripe, bytes: number): number {
  assertStripe(stripe, bytes);
  return Math.ceil(bytes / stripe.data);
}

/** Element of the Cauchy matrix: parity row, data column. */
export const coefficient = (stripe: Stripe, row: number, column: number): number =>
  inverse((stripe.data + row) ^ column);

/** The k data shards, the payload in order with zeros after its end, and then the m parity shards. */
export function encodeStripe(payload: Uint8Array, stripe: Stripe): readonly Uint8Array[] {
  const length = shardBytes(stripe, payload.length);
  const shards: Uint8Array[] = [];
  for (let j = 0; j < stripe.data; j++) {
    const shard = new Uint8Array(length);
    shard.set(payload.subarray(j * length, (j + 1) * length));
    shards.push(shard);
  }
  for (let i = 0; i < stripe.parity; i++) {
    const parity = new Uint8Array(length);
    for (let j = 0; j < stripe.data; j++) {
      addMultiple(parity, shards[j]!, coefficient(stripe, i, j));
    }
    shards.push(parity);
  }
  return shards;
}

/** The payload of `bytes` bytes from the shards at hand, data first, `undefined` where one is lost. */
export function restoreStripe(
  shards: readonly (Uint8Array | undefined)[],
  stripe: Stripe,
  bytes: number,
): Restored {
  const length = shardBytes(stripe, bytes);
  if (shards.length !== stripe.data + stripe.parity) {
    throw new RangeError(`${shards.length} places for ${stripe.data} + ${stripe.parity} shards`);
  }
  const held = shards.filter((shard) => shard !== undefined);
  if (held.some((shard) => shard.length !== length)) {
    throw new RangeError(`a shard is not ${length} bytes long`);
  }
  if (held.length < stripe.data) return { ok: false, have: held.length, need: stripe.data };
  const out = new Uint8Array(length * stripe.data);
  shards.slice(0, stripe.data).forEach((shard, j) => {
    if (shard !== undefined) out.set(shard, j * length);
  });
  fillLost(out, shards, stripe, length);
  return { ok: true, bytes: out.slice(0, bytes) };
}

/** Solves for the lost data shards, with as many parity shards as there are lost ones, the first at hand. */
function fillLost(
  out: Uint8Array,
  shards: readonly (Uint8Array | undefined)[],
  stripe: Stripe,
  length: number,
): void {
  const columns = [...Array(stripe.data).keys()];
  const lost = columns.filter((j) => shards[j] === undefined);
  const rows = [...Array(stripe.parity).keys()]
    .filter((i) => shards[stripe.data + i] !== undefined)
    .slice(0, lost.length);
  const sums = rows.map((i) => {
    const sum = shards[stripe.data + i]!.slice();
    for (const j of columns) {
      const shard = shards[j];
      if (shard !== undefined) addMultiple(sum, shard, coefficient(stripe, i, j));
    }
    return sum;
  });
  const solution = invert(rows.map((i) => lost.map((j) => coefficient(stripe, i, j))));
  lost.forEach((j, at) => {
    const target = out.subarray(j * length, (j + 1) * length);
    sums.forEach((sum, i) => {
      addMultiple(target, sum, solution[at]![i]!);
    });
  });
}

/** Gauss-Jordan without pivoting: every leading block of a Cauchy matrix is regular. */
export function invert(matrix: readonly (readonly number[])[]): readonly (readonly number[])[] {
  const size = matrix.length;
  const rows = matrix.map((row, i) => {
    const wide = new Uint8Array(2 * size);
    wide.set(row);
    wide[size + i] = 1;
    return wide;
  });
  rows.forEach((pivot, i) => {
    const scale = inverse(pivot[i]!);
    for (let j = 0; j < pivot.length; j++) pivot[j] = multiply(pivot[j]!, scale);
    rows.forEach((row, other) => {
      if (other !== i) addMultiple(row, pivot, row[i]!);
    });
  });
  return rows.map((row) => [...row.subarray(size)]);
}

// GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d) and generator 2, the field of most Reed-Solomon codes on bytes. Adding
// is XOR. Table look-ups, so not for secrets.
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

export const multiply = (a: number, b: number): number =>
  a === 0 || b === 0 ? 0 : POWER[LOG[a]! + LOG[b]!]!;

/** The element whose product with `a` is 1. */
export function inverse(a: number): number {
  if (a === 0) throw new RangeError('0 has no inverse');
  return POWER[ORDER - LOG[a]!]!;
}

/** target += factor * source, byte by byte. */
export function addMultiple(target: Uint8Array, source: Uint8Array, factor: number): void {
  if (source.length !== target.length) {
    throw new RangeError(`${source.length} bytes added to ${target.length}`);
  }
  if (factor === 0) return;
  const products = Uint8Array.from({ length: 256 }, (_, value) => multiply(factor, value));
  for (let i = 0; i < target.length; i++) target[i] = target[i]! ^ products[source[i]!]!;
}
