/** Seeded draws for faults: the same seed and name give the same sequence on every machine. */

/** Uniform numbers in [0, 1). */
export type Draws = () => number;

/** FNV-1a over the name, mixed with the seed: where a stream starts. */
function startOf(seed: number, name: string): number {
  let hash = (0x811c9dc5 ^ seed) >>> 0;
  for (let i = 0; i < name.length; i++) {
    hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193) >>> 0;
  }
  return hash;
}

/** An independent stream per name (SplitMix32: a Weyl sequence through a 32-bit finalizer). */
export function createDraws(seed: number, name: string): Draws {
  let state = startOf(seed, name);
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad) >>> 0;
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97) >>> 0;
    return ((z ^ (z >>> 15)) >>> 0) / 0x1_0000_0000;
  };
}
