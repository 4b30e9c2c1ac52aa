/** Runs the fuzzers of the wire in turn: no input may make a parser throw. */
import { createDraw } from './mutations.ts';
import { targets } from './wire-fuzz.ts';

/** Runs one input of a target; a benchmark measures around it. */
export type RunInput = (name: string, run: () => void, index: number) => void;

/**
 * Runs this many inputs over all parsers and returns the number of parsers. Throws with target, number and seed at the first input
 * that goes wrong.
 */
export function fuzzAll(
  inputs: number,
  seed: number,
  runInput: RunInput = (_, run) => run(),
): number {
  for (let i = 0; i < inputs; i++) {
    // each input can be made again alone
    const draw = createDraw(seed + i * 2_654_435_761);
    const target = targets[i % targets.length]!;
    try {
      runInput(target.name, () => target.run(draw), i);
    } catch (cause) {
      throw new Error(`${target.name}: input ${i} of seed ${seed}`, { cause });
    }
  }
  return targets.length;
}
