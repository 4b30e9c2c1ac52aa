/** The one place where signs turn: the wire carries improvement (after - before), the code Δ = before - after. */
import type { Vector } from '../../tensor/params.ts';

/** 0 - x, so that zero stays +0 on both sides of the wire. */
export function flipped<T extends Vector>(values: T): T;
export function flipped(values: Vector): Vector {
  return values.map((value) => 0 - value);
}
