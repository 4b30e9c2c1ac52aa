/**
 * MT19937 (Matsumoto and Nishimura 1998) seeded and read as CPython's `random.Random(seed)` does, for initial states
 * that must equal those of the Python reference. Everything else here draws from `rng.ts`.
 */

const SIZE = 624;
const SHIFT = 397;

/** A stream of doubles in [0, 1) with 53 bits each. */
export function createMersenneTwister(seed: number | bigint): () => number {
  const state = seeded(keyOf(seed));
  let at = SIZE;
  const next = (): number => {
    if (at === SIZE) {
      twist(state);
      at = 0;
    }
    let y = state[at++]!;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  };
  return () => {
    const high = next() >>> 5;
    const low = next() >>> 6;
    return (high * 67108864 + low) / 9007199254740992;
  };
}

/** |seed| as 32-bit words, least significant first. */
function keyOf(seed: number | bigint): number[] {
  const words: number[] = [];
  let rest = BigInt(seed);
  if (rest < 0n) rest = -rest;
  do {
    words.push(Number(rest & 0xffffffffn));
    rest >>= 32n;
  } while (rest > 0n);
  return words;
}

function seeded(key: readonly number[]): Uint32Array {
  const state = new Uint32Array(SIZE);
  state[0] = 19650218;
  for (let i = 1; i < SIZE; i++) state[i] = mixed(state, i, 1812433253) + i;
  let i = 1;
  const wrap = () => {
    if (++i < SIZE) return;
    state[0] = state[SIZE - 1]!;
    i = 1;
  };
  for (let k = 0; k < Math.max(SIZE, key.length); k++) {
    const j = k % key.length;
    state[i] = (state[i]! ^ mixed(state, i, 1664525)) + key[j]! + j;
    wrap();
  }
  for (let k = 0; k < SIZE - 1; k++) {
    state[i] = (state[i]! ^ mixed(state, i, 1566083941)) - i;
    wrap();
  }
  state[0] = 0x80000000;
  return state;
}

const mixed = (state: Uint32Array, i: number, factor: number): number =>
  Math.imul(factor, state[i - 1]! ^ (state[i - 1]! >>> 30)) >>> 0;

function twist(state: Uint32Array): void {
  for (let i = 0; i < SIZE; i++) {
    const y = (state[i]! & 0x80000000) | (state[(i + 1) % SIZE]! & 0x7fffffff);
    state[i] = state[(i + SHIFT) % SIZE]! ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
  }
}
