/** Types of the golden vectors of the compact payload, and the deltas that the large vectors encode. */
import type { Packing } from 'nostrain/network';

interface Large extends Packing {
  readonly round: number;
  readonly size: number;
  readonly seed: number;
  readonly chunks: readonly number[];
  readonly bytes: number;
  readonly payloadSha256: string;
  readonly decodedSha256: string;
}
interface Small extends Packing {
  readonly name: string;
  readonly round: number;
  readonly delta: readonly number[];
  readonly payload: string;
  readonly decoded: readonly number[];
}
/** `payload-codecs.json`. */
export interface PayloadVectors {
  readonly run: string;
  readonly roster: string;
  readonly small: readonly Small[];
  readonly large: readonly Large[];
  readonly refusedOfThirteenValuesInRound4: readonly {
    readonly why: string;
    readonly payload: string;
    readonly code: string;
  }[];
}

/** Products of two draws of a linear congruential generator. */
export function drawn(size: number, seed: number): Float64Array {
  let state = seed;
  const draw = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return ((state >>> 8) - 2 ** 23) / 2 ** 23;
  };
  return Float64Array.from({ length: size }, () => (draw() * draw()) / 64);
}
