/** Elementwise ops; two operands broadcast as in NumPy. */

import { ELEMENT_TYPE } from '../../onnx.ts';
import {
  broadcast,
  type Derivation,
  direct,
  type Emission,
  each,
  isFloat,
  type OpRule,
  type OpRules,
  type Plain,
  type Value,
  type ValueType,
} from '../rule.ts';
import {
  add,
  cast,
  cos,
  div,
  equal,
  exp,
  greater,
  less,
  log,
  mul,
  neg,
  pow,
  sign,
  sin,
  square,
  sub,
  sumTo,
} from '../verbs.ts';

type Partial = (d: Derivation<Plain>, a: Value, b: Value) => Value;

/** Rule for two operands with their partial derivatives, each summed over broadcast axes. */
const binary = (type: string, left: Partial, right: Partial): OpRule<Plain> => ({
  infer: ([a, b]) => {
    if (!a || !b || a.dtype !== b.dtype) {
      throw new TypeError(`${type} takes two operands of one type, not ${a?.dtype}, ${b?.dtype}`);
    }
    return [{ dtype: a.dtype, shape: broadcast(a.shape, b.shape) }];
  },
  emit: direct(type),
  derive: each(
    (d) => sumTo(left(d, d.inputs[0]!, d.inputs[1]!), d.inputs[0]!.shape),
    (d) => sumTo(right(d, d.inputs[0]!, d.inputs[1]!), d.inputs[1]!.shape),
  ),
});

const floats = ([a]: readonly ValueType[]): readonly ValueType[] => {
  if (!a || !isFloat(a.dtype)) throw new TypeError(`a float tensor is needed, not ${a?.dtype}`);
  return [{ dtype: a.dtype, shape: a.shape }];
};

/** Rule for one operand; `slope` is the derivative, given input and result. */
const unary = (type: string, slope: (x: Value, y: Value) => Value): OpRule<Plain> => ({
  infer: floats,
  emit: direct(type),
  derive: each((d) => mul(d.grad, slope(d.inputs[0]!, d.outputs[0]!))),
});

/** Emits Sign; for WebGPU, which has no kernel for it, as (x > 0) - (x < 0). */
function emitSign({ inputs: [x], outputs: [y], to }: Emission<Plain>): void {
  const outputs = [y!.name];
  if (to.target !== 'webgpu') {
    to.node('Sign', [x!.name], { outputs });
    return;
  }
  const zero = to.constant(x!.dtype, [], [0]);
  const attributes = { to: { int: ELEMENT_TYPE[x!.dtype] } };
  const [above, below] = ['Greater', 'Less'].map((type) =>
    to.node('Cast', [to.node(type, [x!.name, zero])], { attributes }),
  );
  to.node('Sub', [above!, below!], { outputs });
}

/** Returns 1 where the condition holds, else 0. */
const indicator = (condition: Value, like: Value): Value => cast(condition, like.dtype);

/** 2 / sqrt(pi), the slope of erf at 0, and its natural logarithm. */
const ERF_SLOPE = 1.1283791670955126;
const LOG_ERF_SLOPE = 0.12078223763524522;

export const elementwise = {
  add: binary(
    'Add',
    (d) => d.grad,
    (d) => d.grad,
  ),
  sub: binary(
    'Sub',
    (d) => d.grad,
    (d) => neg(d.grad),
  ),
  mul: binary(
    'Mul',
    (d, _, b) => mul(d.grad, b),
    (d, a) => mul(d.grad, a),
  ),
  div: binary(
    'Div',
    (d, _, b) => div(d.grad, b),
    (d, _, b) => neg(div(mul(d.grad, d.outputs[0]!), b)),
  ),
  pow: binary(
    'Pow',
    (d, a, b) => mul(d.grad, mul(b, pow(a, sub(b, 1)))),
    (d, a) => mul(d.grad, mul(d.outputs[0]!, log(a))),
  ),
  maximum: binary(
    'Max',
    (d, a, b) => mul(d.grad, half(greater(a, b), equal(a, b), a)),
    (d, a, b) => mul(d.grad, half(less(a, b), equal(a, b), a)),
  ),
  minimum: binary(
    'Min',
    (d, a, b) => mul(d.grad, half(less(a, b), equal(a, b), a)),
    (d, a, b) => mul(d.grad, half(greater(a, b), equal(a, b), a)),
  ),
  neg: { infer: floats, emit: direct('Neg'), derive: each((d) => neg(d.grad)) },
  abs: unary('Abs', (x) => sign(x)),
  sign: { infer: floats, emit: emitSign, derive: 'the derivative of sign is 0 everywhere' },
  exp: unary('Exp', (_, y) => y),
  log: { infer: floats, emit: direct('Log'), derive: each((d) => div(d.grad, d.inputs[0]!)) },
  sqrt: {
    infer: floats,
    emit: direct('Sqrt'),
    derive: each((d) => div(mul(d.grad, 0.5), d.outputs[0]!)),
  },
  erf: unary('Erf', (x) => mul(exp(neg(square(x))), ERF_SLOPE)),
  sin: unary('Sin', (x) => cos(x)),
  cos: unary('Cos', (x) => neg(sin(x))),
  tanh: unary('Tanh', (_, y) => sub(1, square(y))),
  sigmoid: unary('Sigmoid', (_, y) => mul(y, sub(1, y))),
  relu: unary('Relu', (x) => indicator(greater(x, 0), x)),
  clip: {
    infer: floats,
    emit: ({ inputs: [x], outputs: [y], attributes: { low, high }, to }) => {
      const bounds = [low, high].map((bound) => to.constant(x!.dtype, [], [bound]));
      to.node('Clip', [x!.name, ...bounds], { outputs: [y!.name] });
    },
    derive: each(({ grad, inputs: [x], attributes: { low, high } }) =>
      mul(grad, mul(indicator(greater(x!, low), x!), indicator(less(x!, high), x!))),
    ),
  },
  // a (1 + erf a), whose slope is (1 + erf a) + a * 2/sqrt(pi) * exp(-a^2)
  erfGate: {
    infer: (inputs) => [...floats(inputs), ...floats(inputs)],
    saves: true,
    emit: ({ inputs: [a], outputs: [y, gate], to }) => {
      const one = to.constant(a!.dtype, [], [1]);
      to.node('Add', [to.node('Erf', [a!.name]), one], { outputs: [gate!.name] });
      to.node('Mul', [a!.name, gate!.name], { outputs: [y!.name] });
    },
    derive: each(({ grad, inputs: [a], outputs: [, gate] }) => {
      const bell = exp(sub(LOG_ERF_SLOPE, square(a!)));
      return mul(grad, add(gate!, mul(a!, bell)));
    }),
  },
} satisfies OpRules;

/** Returns 1 where `wins` holds and 1/2 at a tie, so that both operands share the gradient. */
const half = (wins: Value, ties: Value, like: Value): Value =>
  add(indicator(wins, like), mul(indicator(ties, like), 0.5));
