/**
 * The Viterbi search of the trellis code (docs/payload.md) in AssemblyScript, with SIMD. Integers only, so every engine
 * finds the same bits. The caller lays out the memory (src/network/codec/viterbi.ts). `npm run assemble` compiles it.
 */

/** Metric of a state that no bits lead to yet. */
const UNREACHED: i32 = -0x4000_0000;

/**
 * Writes the `bits` bits whose codewords fit `count` values best, the first bit of a byte lowest. `pairs` holds the
 * codebook: for each pair of values of a step, the two values of every state. `energies` holds, for each number of
 * values in a step, half the energy of every state.
 */
export function search(
  values: usize,
  count: i32,
  bits: i32,
  states: i32,
  pairs: usize,
  energies: usize,
  metrics: usize,
  decisions: usize,
  out: usize,
): void {
  const bytes: usize = (<usize>states) << 2;
  let from: usize = metrics;
  let to: usize = metrics + bytes;
  for (let i: usize = 4; i < bytes; i += 4) store<i32>(from + i, UNREACHED);
  store<i32>(from, 0);
  let first: i32 = 0;
  for (let step: i32 = 0; step < bits; step++) {
    const end: i32 = <i32>((<i64>(step + 1) * count) / bits);
    const length: i32 = end - first;
    const energy: usize = energies + <usize>length * bytes;
    const decided: usize = decisions + <usize>step * (<usize>states >> 4);
    advance(values + ((<usize>first) << 1), length, from, to, pairs, energy, decided, bytes);
    first = end;
    const last = from;
    from = to;
    to = last;
  }
  trace(bits, states, best(from, states), decisions, out);
}

/** Moves all states one bit on, sixteen at a time. */
function advance(
  values: usize,
  length: i32,
  from: usize,
  to: usize,
  pairs: usize,
  energy: usize,
  decided: usize,
  bytes: usize,
): void {
  const half: usize = bytes >> 1;
  const whole: usize = <usize>(length >> 1);
  const odd: v128 =
    (length & 1) !== 0 ? i32x4.splat(load<u16>(values + (whole << 2))) : i32x4.splat(0);
  for (let i: usize = 0; i < half; i += 32) {
    const a: v128 = v128.load(from + i);
    const b: v128 = v128.load(from + i + half);
    const c: v128 = v128.load(from + i, 16);
    const d: v128 = v128.load(from + i + half, 16);
    const low: v128 = i32x4.max_s(a, b);
    const high: v128 = i32x4.max_s(c, d);
    const bits: i32 = i32x4.bitmask(i32x4.gt_s(b, a)) | (i32x4.bitmask(i32x4.gt_s(d, c)) << 4);
    store<u8>(decided + (i >> 5), <u8>bits);
    const at: usize = i << 1;
    let w: v128 = i32x4.sub(i32x4.shuffle(low, low, 0, 0, 1, 1), v128.load(energy + at));
    let x: v128 = i32x4.sub(i32x4.shuffle(low, low, 2, 2, 3, 3), v128.load(energy + at, 16));
    let y: v128 = i32x4.sub(i32x4.shuffle(high, high, 0, 0, 1, 1), v128.load(energy + at, 32));
    let z: v128 = i32x4.sub(i32x4.shuffle(high, high, 2, 2, 3, 3), v128.load(energy + at, 48));
    let pair: usize = pairs + at;
    for (let p: usize = 0; p < whole; p++) {
      const two: v128 = v128.load32_splat(values + (p << 2));
      w = i32x4.add(w, i32x4.dot_i16x8_s(two, v128.load(pair)));
      x = i32x4.add(x, i32x4.dot_i16x8_s(two, v128.load(pair, 16)));
      y = i32x4.add(y, i32x4.dot_i16x8_s(two, v128.load(pair, 32)));
      z = i32x4.add(z, i32x4.dot_i16x8_s(two, v128.load(pair, 48)));
      pair += bytes;
    }
    if ((length & 1) !== 0) {
      w = i32x4.add(w, i32x4.dot_i16x8_s(odd, v128.load(pair)));
      x = i32x4.add(x, i32x4.dot_i16x8_s(odd, v128.load(pair, 16)));
      y = i32x4.add(y, i32x4.dot_i16x8_s(odd, v128.load(pair, 32)));
      z = i32x4.add(z, i32x4.dot_i16x8_s(odd, v128.load(pair, 48)));
    }
    v128.store(to + at, w);
    v128.store(to + at, x, 16);
    v128.store(to + at, y, 32);
    v128.store(to + at, z, 48);
  }
}

/** Returns the first state of the largest metric. */
function best(metrics: usize, states: i32): i32 {
  let found: i32 = 0;
  let most: i32 = load<i32>(metrics);
  for (let state: i32 = 1; state < states; state++) {
    const metric: i32 = load<i32>(metrics + ((<usize>state) << 2));
    if (metric > most) {
      most = metric;
      found = state;
    }
  }
  return found;
}

/** Follows the decisions back from the last state, and writes the bits. */
function trace(bits: i32, states: i32, last: i32, decisions: usize, out: usize): void {
  memory.fill(out, 0, <usize>((bits + 7) >> 3));
  let state: i32 = last;
  for (let step: i32 = bits - 1; step >= 0; step--) {
    const byte: usize = out + <usize>(step >> 3);
    store<u8>(byte, load<u8>(byte) | <u8>((state & 1) << (step & 7)));
    const before: i32 = state >> 1;
    const decided: i32 = load<u8>(
      decisions + <usize>step * (<usize>states >> 4) + <usize>(before >> 3),
    );
    state = ((decided >> (before & 7)) & 1) !== 0 ? before | (states >> 1) : before;
  }
}
