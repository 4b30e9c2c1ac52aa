/**
 * Reverse-mode differentiation (Griewank and Walther, "Evaluating derivatives", ch. 3): walks the recorded ops backwards
 * and appends the derivative of each, so that gradients are ordinary values of the same graph.
 */
import type { Graph, Step } from './builder.ts';
import { isFloat, type Value } from './value.ts';
import { add, filled } from './verbs.ts';

/** Gradients of a scalar by each of the given values; zeros for those it does not depend on. */
export function gradients(graph: Graph, loss: Value, by: readonly Value[]): readonly Value[] {
  if (loss.shape.length !== 0) throw new TypeError(`a loss is a scalar, not [${loss.shape}]`);
  const steps = [...graph.steps];
  const active = dependents(steps, by);
  const totals = new Map<Value, Value>();
  if (active.has(loss)) totals.set(loss, filled(loss, [], 1));
  for (const step of steps.reverse()) {
    if (!step.derive || !step.outputs.some((output) => active.has(output))) continue;
    const grads = step.outputs.map((output) => totals.get(output));
    if (grads.every((grad) => grad === undefined)) continue;
    const partials = step.derive(grads, (i) => active.has(step.inputs[i]!));
    step.inputs.forEach((input, i) => {
      const partial = partials[i];
      if (!partial || !active.has(input)) return;
      const total = totals.get(input);
      totals.set(input, total ? add(total, partial) : partial);
    });
  }
  return by.map((value) => totals.get(value) ?? filled(value, value.shape, 0));
}

/** Every value through which the given ones can still move the loss. */
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
