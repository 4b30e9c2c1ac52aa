/**
 * Every op's derivative against central differences of its f64 forward pass, run by onnxruntime itself; for `erf` and
 * `erfGate`, which have no f64 kernel, of an f64 function in TypeScript. The f32 graphs that training uses, and the
 * ones for GPUs, must then give the same gradient up to rounding.
 */

import { philox, unit } from 'nostrain/base';
import { createGraph, type Graph, gradients, sizeOf, type Value } from 'nostrain/model';
import { describe, expect, test } from 'vitest';
import { constantLike, mul, reduceSum } from '../../../src/model/graph/verbs.ts';
import { loadGraph, type TestTensor } from '../../support/ort-run.ts';
import { cases, type OpCase } from './op-cases.ts';

const draw = (index: number, stream: number): number =>
  unit(philox([7, stream], index, 0, 0, 0)[0]);

/** Operand elements away from every kink. */
function elementsOf({ range = [-1.5, 1.5], kinks = [] }: OpCase, size: number, stream: number) {
  return Float64Array.from({ length: size }, (_, i) => {
    // multiples of 2^-20 are exact in f32 too
    const drawn = range[0] + draw(i, stream) * (range[1] - range[0]);
    const near = kinks.find((kink) => Math.abs(drawn - kink) < 0.05);
    return Math.round((near === undefined ? drawn : near + 0.1) * 2 ** 20) / 2 ** 20;
  });
}

interface Built {
  readonly graph: Graph;
  readonly operands: readonly Value[];
  readonly size: number;
}

/** The weighted sum of the op's results, and with `derive` its gradients. */
function build(c: OpCase, dtype: 'f32' | 'f64', derive: boolean): Built {
  const graph = createGraph();
  const operands = c.shapes.map((shape, i) => graph.input(`x${i}`, { dtype, shape }));
  const result = c.build(operands[0]!, operands[1]!, operands[2]!);
  const size = sizeOf(result.shape);
  const loss = reduceSum(mul(result, constantLike(result, result.shape, weightsOf(size))));
  graph.output('loss', loss);
  if (derive) {
    gradients(graph, loss, operands).forEach((gradient, i) => {
      expect(gradient.shape).toEqual(operands[i]!.shape);
      graph.output(`d${i}`, gradient);
    });
  }
  return { graph, operands, size };
}

const weightsOf = (size: number): readonly number[] =>
  Array.from({ length: size }, (_, i) => Math.round((draw(i, 99) + 0.5) * 1024) / 1024);

function feedsOf(c: OpCase, dtype: 'f32' | 'f64', points: readonly ArrayLike<number>[]) {
  const feeds: Record<string, TestTensor> = {};
  c.shapes.forEach((shape, i) => {
    feeds[`x${i}`] = { dtype, shape, elements: points[i]! };
  });
  return feeds;
}

const STEP = 1e-5;

/** Gradients by central differences of an f64 function. */
async function differences(
  points: readonly Float64Array[],
  f: (points: readonly Float64Array[]) => Promise<number>,
): Promise<readonly Float64Array[]> {
  const gradients: Float64Array[] = [];
  for (const [operand, point] of points.entries()) {
    const gradient = new Float64Array(point.length);
    for (let i = 0; i < point.length; i++) {
      const at = (shift: number) => {
        const moved = Float64Array.from(point);
        moved[i]! += shift;
        return f(points.with(operand, moved));
      };
      gradient[i] = ((await at(STEP)) - (await at(-STEP))) / (2 * STEP);
    }
    gradients.push(gradient);
  }
  return gradients;
}

function forwardOf(c: OpCase): (points: readonly Float64Array[]) => Promise<number> {
  if (c.reference) {
    const { reference } = c;
    return async ([point]) => {
      const results = reference(Array.from(point!));
      const weights = weightsOf(results.length);
      return results.reduce((sum, result, i) => sum + result * weights[i]!, 0);
    };
  }
  const run = loadGraph(build(c, 'f64', false).graph);
  return async (points) => (await (await run)(feedsOf(c, 'f64', points))).loss![0]!;
}

function expectClose(actual: Float64Array, expected: Float64Array, tolerance: number): void {
  const scale = Math.max(1, ...expected.map(Math.abs));
  expect(actual.length).toBe(expected.length);
  actual.forEach((value, i) => {
    expect(Math.abs(value - expected[i]!) / scale).toBeLessThan(tolerance);
  });
}

describe('derivatives match finite differences', () => {
  for (const c of Object.values(cases).flat()) {
    test(c.title, async () => {
      const points = c.shapes.map((shape, i) => elementsOf(c, sizeOf(shape), i));
      const expected = await differences(points, forwardOf(c));
      const variants = [
        ...(c.reference ? [] : [{ dtype: 'f64', target: 'cpu', tolerance: 1e-8 } as const]),
        { dtype: 'f32', target: 'cpu', tolerance: 1e-5 } as const,
        { dtype: 'f32', target: 'cuda', tolerance: 1e-5 } as const,
        { dtype: 'f32', target: 'webgpu', tolerance: 1e-5 } as const,
      ];
      for (const { dtype, target, tolerance } of variants) {
        const run = await loadGraph(build(c, dtype, true).graph, target);
        const results = await run(feedsOf(c, dtype, points));
        expected.forEach((gradient, i) => {
          expectClose(results[`d${i}`]!, gradient, tolerance);
        });
      }
    });
  }
});
