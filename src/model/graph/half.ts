/**
 * Matrix products in half precision, for graphs whose other numbers are f32: operands are rounded to f16 or bf16, and so are results, which
 * go on as f32. GPUs multiply halves. The CPU has no such kernels (onnxruntime drops the casts around its products and computes in f32):
 * there the same roundings stand around a product in f32, which differs from that of a GPU in the order of its sums only.
 */
import type { Arithmetic } from '../../run/spec/model-spec.ts';
import { ELEMENT_TYPE } from '../onnx.ts';
import type { Emitter, NodeOptions } from './rule.ts';

export type Half = Exclude<Arithmetic, 'f32'>;

/** The format's numbers for them; no input or constant of a graph is bf16. */
const HALF_TYPE: Readonly<Record<Half, number>> = { f16: ELEMENT_TYPE.f16, bf16: 16 };

const PRODUCTS = new Set(['Gemm', 'MatMul', 'FusedMatMul']);

/** The emitter with its products in half precision. An operand is rounded once for all that read it. */
export function inHalf(to: Emitter, half: Half): Emitter {
  const rounded = new Map<string, string>();
  const cast = (name: string, type: number, options: NodeOptions = {}) =>
    to.node('Cast', [name], { ...options, attributes: { to: { int: type } } });
  const narrow = (name: string) => cast(name, HALF_TYPE[half]);
  const wide = (name: string, options?: NodeOptions) => cast(name, ELEMENT_TYPE.f32, options);
  const isCpu = to.target === 'cpu';
  const operand = (name: string): string => {
    const known = rounded.get(name) ?? (isCpu ? wide(narrow(name)) : narrow(name));
    rounded.set(name, known);
    return known;
  };
  return {
    target: to.target,
    constant: to.constant,
    node(type, inputs, options = {}) {
      if (!PRODUCTS.has(type) || options.exact) return to.node(type, inputs, options);
      const { outputs, ...own } = options;
      const [a, b, c] = inputs;
      const product = to.node(type, [operand(a!), operand(b!)], own);
      const last = outputs ? { outputs } : {};
      const halved = isCpu ? narrow(product) : product;
      if (c === undefined) return wide(halved, last);
      // what is added keeps its bits
      const { beta } = own.attributes ?? {};
      const share = beta && 'float' in beta ? beta.float : 1;
      const added = share === 1 ? c : to.node('Mul', [c, to.constant('f32', [], [share])]);
      return to.node('Add', [wide(halved), added], last);
    },
  };
}
