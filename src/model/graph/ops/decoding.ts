/** Fused ops of Llama-like decoders: RMSNorm (arXiv 1910.07467), rotary positions (2104.09864), SwiGLU (2002.05202). */
import { type Emission, each, integers, type OpRule } from '../rule.ts';
import type { OpAttributes, Plain } from '../signatures.ts';
import { isFloat, sameShape, withDim } from '../value.ts';
import { add, mul, neg, reduceMean, rotary, sub, sumTo } from '../verbs.ts';

type Decoding = 'rmsNorm' | 'rotary' | 'swiglu';

const keepLast = { keepdims: { int: 1 } };

/** One operator of onnxruntime; from parts for doubles, whose statistics it keeps as f32, and for other backends. */
function emitRmsNorm({
  inputs: [x, scale],
  outputs: [y, inverse],
  attributes: { epsilon },
  to,
}: Emission<OpAttributes['rmsNorm']>): void {
  if (x!.dtype === 'f32' && to.target !== 'webgpu') {
    to.node('SimplifiedLayerNormalization', [x!.name, scale!.name], {
      attributes: { axis: { int: -1 }, epsilon: { float: epsilon }, stash_type: { int: 1 } },
      outputs: [y!.name, inverse!.name],
    });
    return;
  }
  const scalar = (value: number) => to.constant(x!.dtype, [], [value]);
  const squared = to.node('Mul', [x!.name, x!.name]);
  const mean = to.node('ReduceMean', [squared, integers(to, [-1])], { attributes: keepLast });
  const root = to.node('Sqrt', [to.node('Add', [mean, scalar(epsilon)])]);
  to.node('Div', [scalar(1), root], { outputs: [inverse!.name] });
  const even = to.node('Mul', [x!.name, inverse!.name]);
  to.node('Mul', [even, scale!.name], { outputs: [y!.name] });
}

/** Turns the pair of elements i and i + d/2 of every position by that position's angle. */
function emitRotary({ inputs: [x, cos, sin], outputs: [y], to }: Emission<Plain>): void {
  if (x!.dtype === 'f32' && to.target !== 'webgpu') {
    const first = to.constant('i64', [1], [0]);
    to.node('RotaryEmbedding', [x!.name, first, cos!.name, sin!.name], {
      domain: 'com.microsoft',
      outputs: [y!.name],
    });
    return;
  }
  const half = x!.shape[3]! / 2;
  const low = `${y!.name}.low`;
  const high = `${y!.name}.high`;
  to.node('Split', [x!.name, integers(to, [half, half])], {
    attributes: { axis: { int: -1 } },
    outputs: [low, high],
  });
  const product = (a: string, b: string) => to.node('Mul', [a, b]);
  const left = to.node('Sub', [product(low, cos!.name), product(high, sin!.name)]);
  const right = to.node('Add', [product(high, cos!.name), product(low, sin!.name)]);
  to.node('Concat', [left, right], { attributes: { axis: { int: -1 } }, outputs: [y!.name] });
}

export const decoding = {
  rmsNorm: {
    infer: ([x, scale]) => {
      const width = x?.shape[x.shape.length - 1];
      if (
        !x ||
        !isFloat(x.dtype) ||
        scale?.dtype !== x.dtype ||
        scale.shape.join() !== `${width}`
      ) {
        throw new TypeError('a norm takes real rows and a scale of their width');
      }
      return [x, { dtype: x.dtype, shape: withDim(x.shape, x.shape.length - 1, 1) }];
    },
    saves: true,
    emit: emitRmsNorm,
    derive: ({ grad, inputs: [x, scale], outputs: [, inverse], wants }) => {
      const even = mul(x!, inverse!);
      const scaled = mul(grad, scale!);
      const slope = reduceMean(mul(scaled, even), [-1], true);
      return [
        wants(0) ? mul(sub(scaled, mul(even, slope)), inverse!) : undefined,
        wants(1) ? sumTo(mul(grad, even), scale!.shape) : undefined,
      ];
    },
  },
  // turned back by the same angles; the tables themselves are constants
  rotary: {
    infer: ([x, cos, sin]) => {
      const [, , length, size] = x?.shape ?? [];
      if (x?.shape.length !== 4 || size! % 2 !== 0) {
        throw new TypeError('rotary positions need (B, A, T, d) with an even d');
      }
      const table = [length!, size! / 2];
      if (!cos || !sin || !sameShape(cos.shape, table) || !sameShape(sin.shape, table)) {
        throw new TypeError(`rotary positions of [${x.shape}] need two tables of [${table}]`);
      }
      return [x];
    },
    emit: emitRotary,
    derive: each(({ grad, inputs: [, cos, sin] }) => rotary(grad, cos!, neg(sin!))),
  },
  // gate * sigmoid(gate) * up
  swiglu: {
    infer: ([gate, up]) => {
      if (!gate || !up || !sameShape(gate.shape, up.shape) || gate.dtype !== up.dtype) {
        throw new TypeError('a gate needs values of its own shape');
      }
      return [gate, gate];
    },
    saves: true,
    emit: ({ inputs: [gate, up], outputs: [y, open], to }) => {
      to.node('Sigmoid', [gate!.name], { outputs: [open!.name] });
      to.node('Mul', [to.node('Mul', [gate!.name, open!.name]), up!.name], { outputs: [y!.name] });
    },
    derive: ({ grad, inputs: [gate, up], outputs: [, open], wants }) => {
      const passed = mul(gate!, open!);
      // the slope of gate * sigmoid(gate) is sigmoid + passed * (1 - sigmoid)
      const slope = () => add(open!, sub(passed, mul(passed, open!)));
      return [
        wants(0) ? mul(mul(grad, up!), slope()) : undefined,
        wants(1) ? mul(grad, passed) : undefined,
      ];
    },
  },
} satisfies { [K in Decoding]: OpRule<OpAttributes[K]> };
