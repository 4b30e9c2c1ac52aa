/**
 * Pre-LayerNorm blocks of attention and GELU (arXiv 1706.03762, 2002.04745, 1606.08415); `gpt.ts` has the formulas.
 * Attention is causal for text, and bidirectional for patches of series and pictures.
 */
import { ConfigError } from '../../base/errors.ts';
import type { BlockShape, Experts } from '../../run/spec/model-spec.ts';
import type { Value } from '../graph/rule.ts';
import {
  add,
  causalAttention,
  checkpoint,
  erfGate,
  gemm,
  matmul,
  mul,
  reshape,
  softmax,
  split,
  standardize,
  transpose,
} from '../graph/verbs.ts';
import type { TensorSpec, Weights } from './architecture.ts';
import { expertTensors, mixture } from './experts.ts';

const EPSILON = 1e-5;
const HALF_ROOT = Math.SQRT1_2;

/** Initialization of weight matrices. */
export const WEIGHT = { deviation: 0.02 };

/** Sizes of the blocks, and of the sequences they read. */
export interface BlockSizes extends BlockShape {
  /** Positions of a sequence. */
  readonly length: number;
  /** Whether attention is causal. */
  readonly causal: boolean;
  /** Experts in place of each feed-forward layer. */
  readonly experts?: Experts | undefined;
}

/** Throws a ConfigError if the width is not divisible by the number of heads. */
export function checkWidth({ width, heads }: Pick<BlockSizes, 'width' | 'heads'>): void {
  if (width % heads === 0) return;
  throw new ConfigError('model/heads', `model.width ${width} does not divide into ${heads} heads`, {
    hint: 'use a width that is a multiple of the number of heads',
  });
}

/** Scale and shift of a norm. */
export const norm = (name: string, width: number): readonly TensorSpec[] => [
  { name: `${name}.weight`, shape: [width], start: 'ones' },
  { name: `${name}.bias`, shape: [width], start: 'zeros' },
];

/** A linear layer: a matrix and a bias. */
const dense = (
  name: string,
  inputs: number,
  outputs: number,
  abreast = 1,
): readonly TensorSpec[] => [
  { name: `${name}.weight`, shape: [inputs, outputs], start: WEIGHT, abreast },
  { name: `${name}.bias`, shape: [outputs], start: 'zeros' },
];

const block = (
  at: string,
  { width, ffn, experts }: Pick<BlockSizes, 'width' | 'ffn' | 'experts'>,
): readonly TensorSpec[] => [
  ...norm(`${at}.attention.norm`, width),
  ...dense(`${at}.attention.qkv`, width, 3 * width, 3),
  ...dense(`${at}.attention.output`, width, width),
  ...norm(`${at}.feedforward.norm`, width),
  ...(experts ? [] : feedforwardTensors(`${at}.feedforward`, { width, ffn })),
];

const feedforwardTensors = (
  at: string,
  { width, ffn }: Pick<BlockSizes, 'width' | 'ffn'>,
): readonly TensorSpec[] => [
  ...dense(`${at}.hidden`, width, ffn).map((one, i) => ({ ...one, inner: 1 - i })),
  ...dense(`${at}.output`, ffn, width).map((one, i) => (i === 0 ? { ...one, inner: 0 } : one)),
];

/** The tensors of all experts of all blocks. */
export const blockExperts = (
  sizes: Pick<BlockSizes, 'width' | 'ffn' | 'layers'>,
  experts: Experts,
): readonly TensorSpec[] =>
  expertTensors(
    experts,
    Array.from({ length: sizes.layers }, (_, i) => `blocks.${i}`),
    { width: sizes.width, start: WEIGHT },
    (at) => feedforwardTensors(at, sizes),
  );

/** The patch embedding: a linear layer, and an embedding per position. */
export const patchLayer = (
  inputs: number,
  length: number,
  width: number,
): readonly TensorSpec[] => [
  { name: 'patches.weight', shape: [inputs, width], start: { deviation: Math.sqrt(1 / inputs) } },
  { name: 'patches.bias', shape: [width], start: 'zeros' },
  { name: 'positions.weight', shape: [length, width], start: WEIGHT },
];

/** The tensors of all blocks. */
export const blocks = (
  sizes: Pick<BlockSizes, 'width' | 'ffn' | 'layers' | 'experts'>,
): readonly TensorSpec[] =>
  Array.from({ length: sizes.layers }, (_, i) => block(`blocks.${i}`, sizes)).flat();

/**
 * Applies the blocks to the rows of all sequences (B * length, width). Appends the load-balancing loss of each block
 * with experts to `balance`.
 */
export function throughBlocks(
  sizes: BlockSizes,
  weights: Weights,
  rows: Value,
  balance?: Value[],
): Value {
  const { experts } = sizes;
  let h = rows;
  for (let i = 0; i < sizes.layers; i++) {
    h = checkpoint(h, (input) => {
      const attended = add(input, attention(sizes, weights, `blocks.${i}.attention`, input));
      const at = `blocks.${i}`;
      if (!experts) return add(attended, feedforward(weights, `${at}.feedforward`, attended));
      const normalized = normed(weights, attended, `${at}.feedforward.norm`);
      const mixed = mixture(experts, { weights, layer: at, rows: normalized, balance }, (expert) =>
        perceptron(weights, expert, normalized),
      );
      return add(attended, mixed);
    });
  }
  return h;
}

/** Applies the last norm and a linear layer after it. */
export function readOut(
  weights: Weights,
  h: Value,
  { biased }: { readonly biased: boolean },
): Value {
  const { weight, bias } = foldNorm(weights, 'norm', 'head', biased);
  return gemm(standardize(h, EPSILON), weight, { c: bias });
}

/** Applies a norm that is not folded into the linear layer after it; default the last norm. */
export const normed = (weights: Weights, h: Value, name = 'norm'): Value =>
  add(mul(standardize(h, EPSILON), weights(`${name}.weight`)), weights(`${name}.bias`));

/** A linear layer with the preceding norm folded in: weight and bias for standardized rows. */
interface Folded {
  readonly weight: Value;
  readonly bias: Value;
}

/**
 * Folds a norm into the layer after it, (z * n + b) @ w = z @ (n * w) + b @ w: weights are smaller than activations.
 */
function foldNorm(weights: Weights, norm: string, layer: string, biased: boolean): Folded {
  const weight = weights(`${layer}.weight`);
  const [width, columns] = [weight.shape[0]!, weight.shape[1]!];
  const moved = gemm(reshape(weights(`${norm}.bias`), [1, width]), weight);
  const shift = reshape(moved, [columns]);
  return {
    weight: mul(weight, reshape(weights(`${norm}.weight`), [width, 1])),
    bias: biased ? add(shift, weights(`${layer}.bias`)) : shift,
  };
}

function attention(sizes: BlockSizes, weights: Weights, at: string, h: Value): Value {
  const { width, heads, length, causal } = sizes;
  const tokens = h.shape[0]!;
  const size = width / heads;
  const rows = standardize(h, EPSILON);
  const { weight, bias } = foldNorm(weights, `${at}.norm`, `${at}.qkv`, true);
  // three products instead of one: splitting the weights is cheaper than splitting the activations
  const thirds = [width, width, width];
  const biases = split(bias, 0, thirds);
  const [q, k, v] = split(weight, 1, thirds).map((part, i) => {
    const projected = gemm(rows, part, { c: biases[i] });
    const parted = reshape(projected, [tokens / length, length, heads, size]);
    return transpose(parted, [0, 2, 1, 3]); // (B, A, T, d)
  });
  const scale = 1 / Math.sqrt(size);
  const o = causal
    ? causalAttention(q!, k!, v!, scale)
    : matmul(softmax(matmul(q!, k!, { transB: true, alpha: scale })), v!);
  const joined = reshape(transpose(o, [0, 2, 1, 3]), [tokens, width]);
  return gemm(joined, weights(`${at}.output.weight`), { c: weights(`${at}.output.bias`) });
}

function feedforward(weights: Weights, at: string, h: Value): Value {
  const folded = foldNorm(weights, `${at}.norm`, `${at}.hidden`, true);
  return perceptron(weights, at, standardize(h, EPSILON), folded);
}

/** gelu(z) = erfGate(z / sqrt 2) / sqrt 2, so both factors go into the neighbouring products. */
function perceptron(
  weights: Weights,
  at: string,
  rows: Value,
  { weight, bias }: Folded = {
    weight: weights(`${at}.hidden.weight`),
    bias: weights(`${at}.hidden.bias`),
  },
): Value {
  const hidden = gemm(rows, weight, {
    c: mul(bias, HALF_ROOT),
    alpha: HALF_ROOT,
  }); // (B * T, F)
  return gemm(erfGate(hidden), weights(`${at}.output.weight`), {
    c: weights(`${at}.output.bias`),
    alpha: HALF_ROOT,
  });
}
