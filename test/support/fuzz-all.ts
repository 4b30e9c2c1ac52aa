/** Runs the fuzzers of the wire in turn and watches for what no input may cause: a throw, a stall, growth. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createDraw } from './mutations.ts';
import { targets } from './wire-fuzz.ts';

export interface Fuzzed {
  readonly inputs: number;
  readonly targets: number;
  readonly seconds: number;
  /** Longest that one input took. */
  readonly slowest: { readonly name: string; readonly ms: number };
  readonly grownMegabytes: number;
}

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');
const kept = () => {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / 1e6;
};

/** So many inputs over all parsers; throws with target, number and seed at the first that goes wrong. */
export function fuzzAll(inputs: number, seed: number): Fuzzed {
  const startedMs = performance.now();
  let slowest = { name: '', ms: 0 };
  let before = 0;
  for (let i = 0; i < inputs; i++) {
    // each input can be made again alone
    const draw = createDraw(seed + i * 2_654_435_761);
    const target = targets[i % targets.length]!;
    const beganMs = performance.now();
    try {
      target.run(draw);
    } catch (cause) {
      throw new Error(`${target.name}: input ${i} of seed ${seed}`, { cause });
    }
    const ms = performance.now() - beganMs;
    if (ms > slowest.ms) slowest = { name: target.name, ms };
    if (i === Math.floor(inputs / 10)) before = kept();
  }
  const seconds = (performance.now() - startedMs) / 1000;
  return { inputs, targets: targets.length, seconds, slowest, grownMegabytes: kept() - before };
}
