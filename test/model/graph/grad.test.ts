import { createGraph } from 'nostrain/model';
import { expect, test } from 'vitest';
import { gradients } from '../../../src/model/graph/grad.ts';
import { add, cast, equal, mul, reduceSum, square } from '../../../src/model/graph/verbs.ts';
import { loadGraph } from '../../support/ort-run.ts';

const vector = { dtype: 'f64', shape: [2] } as const;

test('a value used twice gets both gradients, one not used gets zeros', async () => {
  const graph = createGraph();
  const x = graph.input('x', vector);
  const unused = graph.input('unused', vector);
  const [dx, none] = gradients(graph, reduceSum(add(square(x), mul(x, 3))), [x, unused]);
  graph.output('dx', dx!);
  graph.output('none', none!);
  const run = await loadGraph(graph);
  const feeds = { x: { ...vector, elements: [1, -2] }, unused: { ...vector, elements: [0, 0] } };
  expect(await run(feeds)).toEqual({
    dx: Float64Array.of(5, -1),
    none: Float64Array.of(0, 0),
  });
});

test('gradients stop where nothing has a slope', async () => {
  const graph = createGraph();
  const x = graph.input('x', vector);
  const same = cast(equal(x, 1), 'f64');
  graph.output('dx', gradients(graph, reduceSum(mul(same, x)), [x])[0]!);
  const run = await loadGraph(graph);
  const { dx } = await run({ x: { ...vector, elements: [1, 2] } });
  expect(dx).toEqual(Float64Array.of(1, 0));
});

test('mistakes show while building', () => {
  const graph = createGraph();
  const x = graph.input('x', vector);
  const y = createGraph().input('y', vector);
  expect(() => add(x, y)).toThrow(/another graph/);
  expect(() => add(x, graph.input('z', { dtype: 'f64', shape: [3] }))).toThrow(/broadcast/);
  expect(() => add(x, graph.input('f', { dtype: 'f32', shape: [2] }))).toThrow(/one type/);
  expect(() => gradients(graph, x, [x])).toThrow(/scalar/);
  expect(() => graph.input('x', vector)).toThrow(/exists/);
});
