/** How long a payload takes to make and to read, and what it leaves out of a delta; on deltas that anybody draws alike. */
import { deriveKey, philox } from 'nostrain/base';
import { decodePayload, encodePayload, type Packing } from 'nostrain/network';
import { addPartial } from 'nostrain/tensor';
import { scopeOf } from '../../support/drawn-delta.ts';

export interface Measured {
  readonly encodeMs: number;
  /** Every check, and adding to a vector in f64. */
  readonly decodeMs: number;
  readonly bytes: number;
  /** ‖Δ − sent‖² / ‖Δ‖². */
  readonly left: number;
}

/** Runs before what counts: the engine compiles while the first ones run, on threads whose time counts too. */
const WARM = 10;

/** Medians over some runs of code that is compiled. */
export function measurePacking(packing: Packing, delta: Float64Array, runs: number): Measured {
  const size = delta.length;
  const scope = scopeOf(size);
  const sum = new Float64Array(size);
  const encoding: number[] = [];
  const decoding: number[] = [];
  let bytes = 0;
  for (let i = 0; i < WARM + runs; i++) {
    const started = cpuMs();
    const { payload } = encodePayload(delta, packing, scope);
    const encoded = cpuMs();
    const decoded = decodePayload(payload, scope);
    if (!decoded.ok) throw new Error(decoded.issue.message);
    addPartial(sum, decoded.value.delta, 1 / (WARM + runs));
    const done = cpuMs();
    bytes = payload.length;
    if (i < WARM) continue;
    encoding.push(encoded - started);
    decoding.push(done - encoded);
  }
  let left = 0;
  let all = 0;
  for (let i = 0; i < size; i++) {
    left += (delta[i]! - sum[i]!) ** 2;
    all += delta[i]! ** 2;
  }
  return { encodeMs: median(encoding), decodeMs: median(decoding), bytes, left: left / all };
}

export const nameOf = ({ codec, kept }: Packing): string =>
  kept === 0 ? codec : `${codec} ${kept}`;

/** Processor time of this process: on a shared machine the clock on the wall measures the neighbours. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

export const median = (times: readonly number[]): number =>
  [...times].sort((a, b) => a - b)[times.length >> 1]!;

/** Sums of uniform draws. */
export function drawnForBench(size: number): Float64Array {
  const key = deriveKey('nostrain/bench-codec');
  const out = new Float64Array(size);
  for (let i = 0; i < size; i++) {
    const [a, b, c, d] = philox(key, i, 0, 0, 0);
    out[i] = (a + b - c - d) / 2 ** 40;
  }
  return out;
}
