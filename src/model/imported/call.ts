/** One node of an imported graph while it is recorded: its operands, attributes and results. */
import { ConfigError } from '../../base/errors.ts';
import { frontAxis, type Recorder, type Value } from '../graph/rule.ts';
import { type GraphOperand, isKnown, type Tensor, toValue } from './tensor.ts';

/** Attributes as plain data; tensors among them have become constants. */
export type Attributes = Readonly<
  Record<string, number | string | readonly number[] | readonly string[]>
>;

/** The next value of a running statistic: `running + rate * (batch - running)`. */
export interface Statistic {
  readonly running: Value;
  readonly batch: Value;
  readonly rate: number;
}

export interface Call {
  readonly type: string;
  readonly graph: Recorder;
  readonly float: 'f32' | 'f64';
  readonly opset: number;
  readonly inputs: readonly (GraphOperand | undefined)[];
  readonly attributes: Attributes;
  /** Number of results. */
  readonly results: number;
  /** Whether the graph is that of a training step: norms use the statistics of the batch. */
  readonly isTraining: boolean;
  /** The batch size that the exporter has written into shapes, and the one to use instead. */
  readonly batch: { readonly exported: number | null; readonly actual: number };
  track(statistic: Statistic): void;
}

/** Records one node. Returns its results; those that no model reads may be left out. */
export type Operator = (call: Call) => readonly (GraphOperand | undefined)[];

/** Operators by their ONNX name. */
export type Operators = Readonly<Record<string, Operator>>;

/** Returns an error about this node. */
export const refusal = ({ type }: Pick<Call, 'type'>, what: string, hint: string): ConfigError =>
  new ConfigError('onnx/operator', `${type} ${what}`, { hint });

/** Returns an input as a value of the graph. Throws if it is absent. */
export function value(call: Call, i: number): Value {
  return toValue(call.graph, operand(call, i), call.float);
}

export function operand(call: Call, i: number): GraphOperand {
  const input = call.inputs[i];
  if (input) return input;
  throw refusal(call, `lacks its input ${i + 1}`, 'export the model again');
}

export const optional = (call: Call, i: number): Value | undefined =>
  call.inputs[i] ? value(call, i) : undefined;

/** Returns an input that must be known when the graph is built. Throws `onnx/shape` if it depends on data. */
export function known(call: Call, i: number): Tensor {
  const input = operand(call, i);
  if (isKnown(input)) return input;
  throw new ConfigError('onnx/shape', `input ${i + 1} of ${call.type} depends on the data`, {
    hint: 'export the model so that all its shapes but the batch are fixed',
  });
}

/** Returns a known input as a list of integers; undefined if it is absent. */
export const list = (call: Call, i: number): readonly number[] | undefined =>
  call.inputs[i] ? Array.from(known(call, i).elements) : undefined;

export function int(call: Call, name: string, usual: number): number {
  const given = call.attributes[name];
  return typeof given === 'number' ? given : usual;
}

export function textOf(call: Call, name: string, usual: string): string {
  const given = call.attributes[name];
  if (Array.isArray(given)) return String(given[0] ?? usual);
  return typeof given === 'string' ? given : usual;
}

export function intsOf(call: Call, name: string): readonly number[] | undefined {
  const given = call.attributes[name];
  return Array.isArray(given) ? (given as readonly number[]) : undefined;
}

/** Returns axes given as an attribute or, in later opsets, as an input; undefined if neither is there. */
export const axesOf = (call: Call, input = 1): readonly number[] | undefined =>
  intsOf(call, 'axes') ?? list(call, input);

export const front = (axes: readonly number[], rank: number): readonly number[] =>
  axes.map((axis) => frontAxis(axis, rank));

/** Maximum elements of a constant that an operator writes into the graph: sizes come from files of strangers. */
const MOST_WRITTEN = 2 ** 22;

/** Returns `make(i)` for each i below a length. Throws a RangeError if a constant of all of them is too large. */
export function written<T>(length: number, make: (i: number) => T, each = 1): readonly T[] {
  if (length * each <= MOST_WRITTEN) return Array.from({ length }, (_, i) => make(i));
  throw new RangeError(`a constant of ${length * each} elements is too large`);
}
