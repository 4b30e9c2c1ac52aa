/** The trellis search in plain TypeScript, to check the WebAssembly against. */
import { codeword, STATES } from '../../src/network/codec/trellis-book.ts';

/** Returns the bits whose codewords fit the values best, by the Viterbi algorithm from state 0. */
export function searchPlainly(values: Int16Array, bits: number): Uint8Array {
  const half = STATES / 2;
  let metrics = new Float64Array(STATES).fill(-(2 ** 30));
  metrics[0] = 0;
  const decisions: Uint8Array[] = [];
  for (let step = 0; step < bits; step++) {
    const first = Math.floor((step * values.length) / bits);
    const end = Math.floor(((step + 1) * values.length) / bits);
    const decision = new Uint8Array(half);
    const next = new Float64Array(STATES);
    for (let state = 0; state < STATES; state++) {
      const [a, b] = [metrics[state >> 1]!, metrics[(state >> 1) + half]!];
      decision[state >> 1] = b > a ? 1 : 0;
      let [along, energy] = [0, 0];
      for (let i = first; i < end; i++) {
        const word = codeword(state, i - first);
        along += values[i]! * word;
        energy += word * word;
      }
      next[state] = Math.max(a, b) + along - Math.floor(energy / 2);
    }
    metrics = next;
    decisions.push(decision);
  }
  const out = new Uint8Array(Math.ceil(bits / 8));
  let state = metrics.indexOf(Math.max(...metrics));
  for (let step = bits - 1; step >= 0; step--) {
    out[step >> 3]! |= (state & 1) << (step & 7);
    const before = state >> 1;
    state = decisions[step]![before] === 1 ? before + half : before;
  }
  return out;
}
