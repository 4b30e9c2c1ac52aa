/**
 * Lowers many training steps to one ONNX Loop: state is carried from step to step, losses are stacked, all other inputs are read
 * from outside. Backends without Loop run the body alone, one call per step.
 */
import type { OnnxGraph, OnnxValue } from '../onnx.ts';
import type { Graph } from './builder.ts';
import { declared, type Lowering, lower } from './lower.ts';
import { ANY, type ValueType } from './value.ts';

/** The body's inputs and outputs by their role; all other inputs are read from outside the loop. */
export interface LoopRoles {
  /** i64 scalar input: the number of the step, from 0. */
  readonly iteration: string;
  /** Inputs `x` that the output `x.next` replaces for the next step. */
  readonly carried: readonly string[];
  /** Outputs collected over all steps, and the name of the collection. */
  readonly collected: Readonly<Record<string, string>>;
}

/** The output that replaces a carried input. */
export const next = (name: string): string => `${name}.next`;

const yes = { dtype: 'bool', shape: [], bytes: new Uint8Array([1]) } as const;

/** A model with an i64 scalar input `steps` that runs the body that many times. */
export function lowerLoop(body: Graph, roles: LoopRoles, lowering: Lowering): OnnxGraph {
  const { carried, iteration } = roles;
  const collected = Object.entries(roles.collected);
  const type = (name: string): ValueType => body.outputs.get(name)!;
  const stacked = collected.map(([name, plural]) => {
    const { dtype, shape } = type(name);
    return declared([plural, { dtype, shape: [ANY, ...shape] }]);
  });
  const outside: OnnxValue[] = [{ name: 'steps', dtype: 'i64', shape: [] }];
  for (const entry of body.inputs) if (entry[0] !== iteration) outside.push(declared(entry));
  return {
    name: 'train',
    nodes: [
      {
        type: 'Loop',
        inputs: ['steps', 'continue', ...carried],
        outputs: [...carried.map(next), ...stacked.map(({ name }) => name)],
        attributes: { body: { graph: loopBody(body, roles, lowering) } },
        domain: '',
      },
    ],
    constants: [{ ...yes, name: 'continue' }],
    inputs: outside,
    outputs: [...carried.map((name) => declared([next(name), type(next(name))])), ...stacked],
  };
}

/** The body under names that shadow nothing outside. */
function loopBody(body: Graph, { carried, iteration, collected }: LoopRoles, lowering: Lowering) {
  const plain = lower(body, 'step', lowering);
  const before = (name: string) => `${name}.before`;
  const after = (name: string) => `${name}.after`;
  const names = new Map(
    carried.flatMap((name) => [[name, before(name)] as const, [next(name), after(name)] as const]),
  );
  const inside = (list: readonly string[]) => list.map((name) => names.get(name) ?? name);
  const type = (name: string): ValueType => body.outputs.get(name)!;
  const state = carried.map((name) => ({ name, type: type(next(name)) }));
  const graph: OnnxGraph = {
    name: 'step',
    nodes: plain.nodes.map((node) => ({
      ...node,
      inputs: inside(node.inputs),
      outputs: inside(node.outputs),
    })),
    // a constant, since the loop reads it on the CPU: from a GPU it would be copied after every step
    constants: [...plain.constants, { ...yes, name: 'continue.after' }],
    inputs: [
      { name: iteration, dtype: 'i64', shape: [] },
      { name: 'continue.before', dtype: 'bool', shape: [] },
      ...state.map(({ name, type }) => declared([before(name), type])),
    ],
    outputs: [
      { name: 'continue.after', dtype: 'bool', shape: [] },
      ...state.map(({ name, type }) => declared([after(name), type])),
      ...Object.keys(collected).map((name) => declared([name, type(name)])),
    ],
  };
  return graph;
}
