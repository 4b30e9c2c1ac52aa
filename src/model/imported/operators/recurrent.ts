/** ONNX recurrent layers (RNN, LSTM, GRU), unrolled over the steps of the sequence. */
import type { Value } from '../../graph/rule.ts';
import * as ops from '../../graph/verbs.ts';
import {
  type Call,
  int,
  type Operator,
  type Operators,
  optional,
  refusal,
  textOf,
  value,
} from '../call.ts';

/** Maximum steps: each is a few nodes of the graph. */
const MOST_STEPS = 1024;

type State = readonly Value[];

/** One direction of a layer: the weights of its gates, and its state before the first step. */
interface Direction {
  /** Products of all inputs with the input weights, and their bias: (T, B, gates * H). */
  readonly inputs: Value;
  /** Recurrent weights (gates * H, H) and bias. */
  readonly recurrent: Value;
  readonly bias: Value | undefined;
  readonly state: State;
  readonly size: number;
}

/** Returns the state after one step; its first part is the result of the step. */
type Step = (direction: Direction, input: Value, state: State) => State;

const pieces = (x: Value, size: number): readonly Value[] =>
  ops.split(x, 1, new Array<number>(x.shape[1]! / size).fill(size));

const rnn: Step = ({ recurrent, bias }, input, [h]) => {
  const sum = ops.add(input, ops.gemm(h!, recurrent, { c: bias, transB: true }));
  return [ops.tanh(sum)];
};

/** The gates are in the order input, output, forget, cell. */
const lstm: Step = ({ recurrent, bias, size }, input, [h, c]) => {
  const sum = ops.add(input, ops.gemm(h!, recurrent, { c: bias, transB: true }));
  const [i, o, f, g] = pieces(sum, size);
  const cell = ops.add(ops.mul(ops.sigmoid(f!), c!), ops.mul(ops.sigmoid(i!), ops.tanh(g!)));
  return [ops.mul(ops.sigmoid(o!), ops.tanh(cell)), cell];
};

/** The gates are in the order update, reset, hidden. `isAfter`: the reset gate applies after the recurrent product. */
const gru =
  (isAfter: boolean): Step =>
  ({ recurrent, bias, size }, input, [h]) => {
    const [z, r, n] = pieces(input, size);
    const rows = ops.split(recurrent, 0, [2 * size, size]);
    const biases = bias && ops.split(bias, 0, [2 * size, size]);
    const [hz, hr] = pieces(ops.gemm(h!, rows[0]!, { c: biases?.[0], transB: true }), size);
    const update = ops.sigmoid(ops.add(z!, hz!));
    const reset = ops.sigmoid(ops.add(r!, hr!));
    const hidden = (of: Value) => ops.gemm(of, rows[1]!, { c: biases?.[1], transB: true });
    const memory = isAfter ? ops.mul(reset, hidden(h!)) : hidden(ops.mul(reset, h!));
    const next = ops.tanh(ops.add(n!, memory));
    return [ops.add(next, ops.mul(update, ops.sub(h!, next)))];
  };

/** Runs one direction; returns the results of all steps in the order of the sequence, and the last state. */
function run(step: Step, direction: Direction, isReverse: boolean) {
  const [length, batch, width] = direction.inputs.shape as [number, number, number];
  const steps = ops
    .split(direction.inputs, 0, new Array<number>(length).fill(1))
    .map((each) => ops.reshape(each, [batch, width]));
  let { state } = direction;
  const results: Value[] = [];
  for (const input of isReverse ? steps.toReversed() : steps) {
    state = step(direction, input, state);
    results.push(state[0]!);
  }
  return { results: isReverse ? results.toReversed() : results, state };
}

/** Checks what only some exporters write: other activations, lengths of sequences, peepholes. */
function assertPlain(call: Call, usual: readonly string[]): void {
  const given = call.attributes.activations;
  const list: readonly unknown[] = Array.isArray(given)
    ? given
    : given === undefined
      ? []
      : [given];
  const isUsual = list.every((each, i) => String(each) === usual[i % usual.length]);
  if (!isUsual || call.attributes.clip !== undefined || call.inputs[4] || call.inputs[7]) {
    throw refusal(
      call,
      'has other activations, lengths or peepholes than PyTorch writes',
      'export an ordinary layer, and pad sequences to one length',
    );
  }
}

const layer =
  (gates: number, usual: readonly string[], stepOf: (call: Call) => Step): Operator =>
  (call) => {
    assertPlain(call, usual);
    const isBatchFirst = int(call, 'layout', 0) === 1;
    const given = value(call, 0);
    const x = isBatchFirst ? ops.transpose(given, [1, 0, 2]) : given; // (T, B, I)
    const [length, batch, width] = x.shape as [number, number, number];
    const [weights, recurrent, bias] = [value(call, 1), value(call, 2), optional(call, 3)];
    if (length > MOST_STEPS || weights.shape[0]! > 2) {
      throw refusal(
        call,
        `has ${length} steps in ${weights.shape[0]} directions; ${MOST_STEPS} in 2 are the most`,
        'use less context',
      );
    }
    const size = recurrent.shape[2]!;
    const rows = gates * size;
    const direction = textOf(call, 'direction', 'forward');
    const of = (each: Value, d: number) =>
      ops.reshape(ops.slice(each, 0, d, d + 1), each.shape.slice(1));
    const first = (i: number, d: number): Value => {
      const initial = optional(call, i);
      if (!initial) return ops.filled(x, [batch, size], 0);
      const wide = isBatchFirst ? ops.transpose(initial, [1, 0, 2]) : initial;
      return of(wide, d);
    };
    const flat = ops.reshape(x, [length * batch, width]);
    const runs = Array.from({ length: weights.shape[0]! }, (_, d) => {
      const [wide, own] = bias ? ops.split(of(bias, d), 0, [rows, rows]) : [];
      const inputs = ops.gemm(flat, of(weights, d), { c: wide, transB: true });
      return run(
        stepOf(call),
        {
          inputs: ops.reshape(inputs, [length, batch, rows]),
          recurrent: of(recurrent, d),
          bias: own,
          state: usual.length === 3 ? [first(5, d), first(6, d)] : [first(5, d)],
          size,
        },
        d === 1 || direction === 'reverse',
      );
    });
    const stacked = (list: readonly Value[], shape: readonly number[]) =>
      ops.concat(list.map((each) => ops.reshape(each, shape)) as [Value, ...Value[]], 0);
    const all = ops.concat(
      runs.map(({ results }) => stacked(results, [1, 1, batch, size])) as [Value, ...Value[]],
      1,
    ); // (T, D, B, H)
    const last = (part: number) => {
      const joined = stacked(
        runs.map(({ state }) => state[part]!),
        [1, batch, size],
      );
      return isBatchFirst ? ops.transpose(joined, [1, 0, 2]) : joined;
    };
    const result = isBatchFirst ? ops.transpose(all, [2, 0, 1, 3]) : all;
    return [result, last(0), ...(usual.length === 3 ? [last(1)] : [])];
  };

export const recurrent: Operators = {
  RNN: layer(1, ['Tanh'], () => rnn),
  LSTM: layer(4, ['Sigmoid', 'Tanh', 'Tanh'], () => lstm),
  GRU: layer(3, ['Sigmoid', 'Tanh'], (call) => gru(int(call, 'linear_before_reset', 0) === 1)),
};
