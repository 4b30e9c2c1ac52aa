import { createGraph, encodeModel } from 'nostrain/model';
import { expect, test } from 'vitest';
import { lower, lowerLoop, next } from '../../../src/model/graph/lower.ts';
import { ANY } from '../../../src/model/graph/rule.ts';
import { add, exp, gather, mul, reduceSum } from '../../../src/model/graph/verbs.ts';
import { load } from '../../support/ort-run.ts';

const vector = { dtype: 'f32', shape: [2] } as const;

test('what no output needs is dropped, equal constants are kept once', () => {
  const graph = createGraph();
  const x = graph.input('x', vector);
  exp(x);
  graph.output('y', mul(add(x, 2), 2));
  const { nodes, constants } = lower(graph, 'test', { target: 'cpu' });
  expect(nodes.map(({ type }) => type)).toEqual(['Add', 'Mul']);
  expect(constants).toHaveLength(1);
});

test('an output may be an input, and one value may be two outputs', async () => {
  const graph = createGraph();
  const x = graph.input('x', vector);
  const y = add(x, 1);
  graph.output('same', x);
  graph.output('first', y);
  graph.output('second', y);
  const run = await load(encodeModel(lower(graph, 'test', { target: 'cpu' })));
  expect(await run({ x: { ...vector, elements: [1, 2] } })).toEqual({
    same: Float64Array.of(1, 2),
    first: Float64Array.of(2, 3),
    second: Float64Array.of(2, 3),
  });
});

test('a loop carries its state, reads from outside by step, and stacks what it collects', async () => {
  const body = createGraph();
  const step = body.input('step', { dtype: 'i64', shape: [] });
  const state = body.input('state', vector);
  const moves = body.input('moves', { dtype: 'f32', shape: [ANY, 2] });
  body.output(next('state'), add(state, gather(moves, step)));
  body.output('sum', reduceSum(state));
  const roles = { iteration: 'step', carried: ['state'], collected: { sum: 'sums' } };
  const run = await load(encodeModel(lowerLoop(body, roles, { target: 'cpu' })));
  const results = await run({
    steps: { dtype: 'i64', shape: [], elements: [3] },
    state: { ...vector, elements: [1, 1] },
    moves: { dtype: 'f32', shape: [3, 2], elements: [1, 2, 3, 4, 5, 6] },
  });
  expect(results).toEqual({
    'state.next': Float64Array.of(10, 13),
    sums: Float64Array.of(2, 5, 12),
  });
});
