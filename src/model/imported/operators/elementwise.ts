/** Elementwise ONNX operators: arithmetic, activations, comparisons. */
import { frontAxis, sizeOf, type Value } from '../../graph/rule.ts';
import * as ops from '../../graph/verbs.ts';
import {
  type Call,
  int,
  known,
  type Operator,
  type Operators,
  operand,
  optional,
  refusal,
  textOf,
  value,
  written,
} from '../call.ts';
import { kindOf } from '../read-onnx.ts';
import { isKnown, kindOfOperand, type TensorKind, toValue } from '../tensor.ts';

const unary =
  (compute: (x: Value, call: Call) => Value): Operator =>
  (call) => [compute(value(call, 0), call)];

const binary =
  (compute: (a: Value, b: Value) => Value): Operator =>
  (call) => [compute(value(call, 0), value(call, 1))];

const joined =
  (compute: (a: Value, b: Value) => Value): Operator =>
  (call) => [call.inputs.map((_, i) => value(call, i)).reduce(compute)];

/** Records a comparison of ints as one of floats where the graph has no other kernel. */
const compared =
  (compute: (a: Value, b: Value) => Value): Operator =>
  (call) => {
    const [a, b] = [value(call, 0), value(call, 1)];
    const isBool = a.dtype === 'bool';
    return [compute(isBool ? ops.cast(a, 'i32') : a, isBool ? ops.cast(b, 'i32') : b)];
  };

const softplus = (x: Value): Value =>
  ops.add(ops.relu(x), ops.log(ops.add(ops.exp(ops.neg(ops.abs(x))), 1)));

/** alpha (e^x - 1) below 0; the exponent is bounded, so that its derivative is finite where it is not used. */
const elu = (x: Value, alpha: number): Value =>
  ops.add(ops.relu(x), ops.mul(ops.sub(ops.exp(ops.minimum(x, 0)), 1), alpha));

const ROOT_HALF = Math.SQRT1_2;
/** sqrt(2 / pi) of the tanh approximation of GELU. */
const TANH_SCALE = Math.sqrt(2 / Math.PI);

function gelu(x: Value, approximation: string): Value {
  if (approximation !== 'tanh') {
    // erfGate(x / sqrt 2) is x / sqrt 2 * (1 + erf(x / sqrt 2))
    return ops.mul(ops.erfGate(ops.mul(x, ROOT_HALF)), ROOT_HALF);
  }
  const inner = ops.mul(ops.mul(x, ops.add(ops.mul(ops.square(x), 0.044715), 1)), TANH_SCALE);
  return ops.mul(ops.mul(x, 0.5), ops.add(ops.tanh(inner), 1));
}

const clipped: Operator = (call) => {
  const [x, low, high] = [value(call, 0), optional(call, 1), optional(call, 2)];
  const raised = low ? ops.maximum(x, low) : x;
  return [high ? ops.minimum(raised, high) : raised];
};

/** Powers with the exponents that exporters write for squares, cubes and roots. */
const power: Operator = (call) => {
  const [x, exponent] = [value(call, 0), operand(call, 1)];
  if (isKnown(exponent) && sizeOf(exponent.shape) === 1) {
    const by = exponent.elements[0]!;
    if (by === 1) return [x];
    if (by === 2) return [ops.square(x)];
    if (by === 3) return [ops.mul(x, ops.square(x))];
    if (by === 0.5) return [ops.sqrt(x)];
    if (by === -1) return [ops.div(1, x)];
    return [ops.pow(x, ops.constantLike(x, exponent.shape, [by]))];
  }
  return [ops.pow(x, value(call, 1))];
};

function castTo(call: Call, kind: TensorKind): readonly Value[] {
  const x = value(call, 0);
  return [ops.cast(x, kind === 'float' ? call.float : kind === 'int' ? 'i64' : 'bool')];
}

const truth =
  (compute: (a: Value, b: Value) => Value): Operator =>
  (call) => {
    const [a, b] = [ops.cast(value(call, 0), 'i32'), ops.cast(value(call, 1), 'i32')];
    return [ops.greater(compute(a, b), 0)];
  };

const stepwise: Operator = (call) => {
  throw refusal(
    call,
    'of values that depend on the data has no derivative',
    'replace it by a smooth function before exporting',
  );
};

export const elementwise: Operators = {
  Neg: unary(ops.neg),
  Abs: unary(ops.abs),
  Sign: unary(ops.sign),
  Exp: unary(ops.exp),
  Log: unary(ops.log),
  Sqrt: unary(ops.sqrt),
  Erf: unary(ops.erf),
  Sin: unary(ops.sin),
  Cos: unary(ops.cos),
  Tanh: unary(ops.tanh),
  Sigmoid: unary(ops.sigmoid),
  Relu: unary(ops.relu),
  Identity: (call) => [operand(call, 0)],
  Dropout: (call) => [operand(call, 0)],
  Reciprocal: unary((x) => ops.div(1, x)),
  Softplus: unary(softplus),
  Softsign: unary((x) => ops.div(x, ops.add(ops.abs(x), 1))),
  Mish: unary((x) => ops.mul(x, ops.tanh(softplus(x)))),
  Elu: unary((x, call) => elu(x, int(call, 'alpha', 1))),
  Celu: unary((x, call) => {
    const alpha = int(call, 'alpha', 1);
    return ops.add(ops.relu(x), ops.mul(elu(ops.mul(ops.minimum(x, 0), 1 / alpha), 1), alpha));
  }),
  Selu: unary((x, call) =>
    ops.mul(elu(x, int(call, 'alpha', 1.67326319217681)), int(call, 'gamma', 1.05070102214813)),
  ),
  LeakyRelu: unary((x, call) =>
    ops.where(ops.greater(x, 0), x, ops.mul(x, int(call, 'alpha', 0.01))),
  ),
  ThresholdedRelu: unary((x, call) =>
    ops.where(ops.greater(x, int(call, 'alpha', 1)), x, ops.mul(x, 0)),
  ),
  PRelu: binary((x, slope) => ops.where(ops.greater(x, 0), x, ops.mul(x, slope))),
  HardSigmoid: unary((x, call) =>
    ops.clip(ops.add(ops.mul(x, int(call, 'alpha', 0.2)), int(call, 'beta', 0.5)), 0, 1),
  ),
  HardSwish: unary((x) => ops.mul(x, ops.clip(ops.add(ops.mul(x, 1 / 6), 0.5), 0, 1))),
  Swish: unary((x, call) => ops.mul(x, ops.sigmoid(ops.mul(x, int(call, 'alpha', 1))))),
  Gelu: unary((x, call) => gelu(x, textOf(call, 'approximate', 'none'))),
  'com.microsoft:Gelu': unary((x) => gelu(x, 'none')),
  'com.microsoft:FastGelu': unary((x) => gelu(x, 'tanh')),
  'com.microsoft:QuickGelu': unary((x, call) =>
    ops.mul(x, ops.sigmoid(ops.mul(x, int(call, 'alpha', 1.702)))),
  ),
  'com.microsoft:BiasGelu': binary((x, bias) => gelu(ops.add(x, bias), 'none')),
  Clip: clipped,
  Add: binary(ops.add),
  Sub: binary(ops.sub),
  Mul: binary(ops.mul),
  Div: binary(ops.div),
  Pow: power,
  Max: joined(ops.maximum),
  Min: joined(ops.minimum),
  Sum: joined(ops.add),
  Mean: (call) => [
    ops.mul(call.inputs.map((_, i) => value(call, i)).reduce(ops.add), 1 / call.inputs.length),
  ],
  Equal: compared(ops.equal),
  Less: compared(ops.less),
  Greater: compared(ops.greater),
  LessOrEqual: compared((a, b) => ops.not(ops.greater(a, b))),
  GreaterOrEqual: compared((a, b) => ops.not(ops.less(a, b))),
  Not: unary(ops.not),
  And: truth(ops.mul),
  Or: truth(ops.add),
  Xor: truth((a, b) => ops.abs(ops.sub(a, b))),
  Where: (call) => [ops.where(value(call, 0), value(call, 1), value(call, 2))],
  Cast: (call) => castTo(call, kindOf(int(call, 'to', 1))),
  CastLike: (call) => castTo(call, kindOfOperand(operand(call, 1))),
  Floor: stepwise,
  Ceil: stepwise,
  Round: stepwise,
  Mod: stepwise,
  IsNaN: (call) => [ops.not(ops.equal(value(call, 0), value(call, 0)))],
  CumSum: (call) => {
    const x = value(call, 0);
    const axis = frontAxis(known(call, 1).elements[0]!, x.shape.length);
    const size = x.shape[axis]!;
    return [alongAxis(x, axis, size, (i) => summed(call, size, i))];
  },
};

/** Returns row i of the matrix that sums elements up to i. */
function summed(call: Call, size: number, i: number): readonly number[] {
  const isExclusive = int(call, 'exclusive', 0) === 1;
  const isReverse = int(call, 'reverse', 0) === 1;
  return Array.from({ length: size }, (_, j) => {
    const distance = isReverse ? j - i : i - j;
    return Number(isExclusive ? distance > 0 : distance >= 0);
  });
}

/** Multiplies one axis by a constant matrix of `count` rows. Throws a RangeError if the matrix is too large. */
export function alongAxis(
  x: Value,
  axis: number,
  count: number,
  rowOf: (i: number) => readonly number[],
): Value {
  const size = x.shape[axis]!;
  const rows = written(count, rowOf, size);
  const matrix = ops.constantLike(x, [count, size], rows.flat());
  const [outer, inner] = [sizeOf(x.shape.slice(0, axis)), sizeOf(x.shape.slice(axis + 1))];
  const shape = x.shape.with(axis, count);
  if (inner === 1) {
    const flat = ops.reshape(x, [outer, size]);
    return ops.reshape(ops.gemm(flat, matrix, { transB: true }), shape);
  }
  return ops.reshape(ops.matmul(matrix, ops.reshape(x, [outer, size, inner])), shape);
}

/** Returns an operand as a value, wherever its elements come from. */
export const asValue = (call: Call, each: Parameters<typeof toValue>[1]): Value =>
  toValue(call.graph, each, call.float);
