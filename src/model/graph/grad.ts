/**
 * Reverse-mode differentiation (Griewank and Walther, "Evaluating derivatives", ch. 3): walks the recorded ops
 * backwards and appends their derivatives, so that gradients are values of the same graph. Segments can be recomputed
 * (Chen et al., arXiv 1604.06174): the backward pass recomputes their values from the segment's input.
 */
import type { Graph, Segment, Step } from './builder.ts';
import { isFloat, type Value } from './rule.ts';
import { add, after, filled } from './verbs.ts';

export interface GradientOptions {
  /** Whether to keep only the inputs of segments, and recompute the values inside them. */
  readonly recompute?: boolean;
}

/** Returns the gradients of a scalar by each of the given values; zeros for values it does not depend on. */
export function gradients(
  graph: Graph,
  loss: Value,
  by: readonly Value[],
  { recompute = false }: GradientOptions = {},
): readonly Value[] {
  if (loss.shape.length !== 0)
    throw new TypeError(`the loss must be a scalar, not [${loss.shape}]`);
  const steps = [...graph.steps];
  const segments = recompute ? [...graph.segments] : [];
  const active = dependents(steps, by);
  const totals = new Map<Value, Value>();
  if (active.has(loss)) totals.set(loss, filled(loss, [], 1));
  let repeated: ReadonlyMap<Step, Step> = new Map();
  for (let at = steps.length - 1; at >= 0; at--) {
    const step = steps[at]!;
    if (!step.derive || !step.outputs.some((output) => active.has(output))) continue;
    const grads = step.outputs.map((output) => totals.get(output));
    if (grads.every((grad) => grad === undefined)) continue;
    for (let last = segments.at(-1); last && at < last.to; last = segments.at(-1)) {
      segments.pop();
      if (at >= last.from) repeated = repeat(steps, last, totals.get(last.output));
    }
    const { derive } = repeated.get(step) ?? step;
    const partials = derive!(grads, (i) => active.has(step.inputs[i]!));
    step.inputs.forEach((input, i) => {
      const partial = partials[i];
      if (!partial || !active.has(input)) return;
      const total = totals.get(input);
      totals.set(input, total ? add(total, partial) : partial);
    });
  }
  return by.map((value) => totals.get(value) ?? filled(value, value.shape, 0));
}

/** Returns all values that depend on the given ones. */
function dependents(steps: readonly Step[], by: readonly Value[]): ReadonlySet<Value> {
  const active = new Set(by);
  for (const { inputs, outputs, derive, saves } of steps) {
    if (!derive || !inputs.some((input) => active.has(input))) continue;
    for (const output of saves ? outputs.slice(0, 1) : outputs) {
      if (isFloat(output.dtype)) active.add(output);
    }
  }
  return active;
}

/** Records the steps of a segment again, to be computed no earlier than the gradient that needs them. */
function repeat(
  steps: readonly Step[],
  { from, to, input }: Segment,
  grad: Value | undefined,
): ReadonlyMap<Step, Step> {
  const recomputed = new Map<Value, Value>([[input, grad ? after(input, grad) : input]]);
  const repeated = new Map<Step, Step>();
  for (const step of steps.slice(from, to)) {
    if (!step.inputs.some((value) => recomputed.has(value))) continue;
    const copy = step.recompute(step.inputs.map((value) => recomputed.get(value) ?? value));
    repeated.set(step, copy);
    step.outputs.forEach((output, i) => {
      recomputed.set(output, copy.outputs[i]!);
    });
  }
  return repeated;
}
