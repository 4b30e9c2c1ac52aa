/**
 * Quantized tensors: f16, or blocks of 32 values of a row in 8 or 4 bits that share an f16 scale and, for 4 bits, an
 * f16 offset. A byte holds two 4-bit values: value i of the block in the low half, i + 16 in the high half.
 */
import {
  type Emission,
  type Emitter,
  integers,
  type NamedValue,
  type OpAttributes,
  type OpRules,
  sizeOf,
  type ValueType,
} from '../rule.ts';
import { mul, reshape } from '../verbs.ts';
import { emitAfter, emitCut } from './shaping.ts';

/** Values of a block. */
export const BLOCK = 32;

/** Returns the shape of the widened tensor; with an offset, each byte holds two values. */
const wideShape = ([bits, , offset]: readonly ValueType[]): readonly number[] => {
  const { shape } = bits!;
  return offset ? [...shape.slice(0, -1), 2 * shape.at(-1)!] : shape;
};

/** Like `wideShape`, but throws if the parts do not fit together. */
function widened(parts: readonly ValueType[]): readonly number[] {
  const [bits, ...given] = parts;
  const { dtype, shape } = bits!;
  const wide = wideShape(parts);
  const wanted = { f16: 0, i8: 1, u8: 2 }[dtype as string];
  const blocks = [...shape.slice(0, -1), (wide.at(-1) ?? 0) / BLOCK].join();
  if (
    wanted !== given.length ||
    given.some((part) => part.dtype !== 'f16' || part.shape.join() !== blocks)
  ) {
    throw new TypeError(
      `[${shape}] of ${dtype} is not a quantized tensor with ${given.length} scales`,
    );
  }
  return wide;
}

type Part = Pick<NamedValue, 'name' | 'dtype' | 'shape'>;

/** Emits the widened values with basic operators; onnxruntime's block operators are slower on the CPU. */
function emitWiden(
  to: Emitter,
  parts: readonly Part[],
  output: Pick<NamedValue, 'dtype' | 'name'>,
): void {
  const [bits, scale, offset] = parts;
  const shape = wideShape(parts);
  const real = (name: string) => to.node('Cast', [name], { attributes: { to: { int: 1 } } });
  const shaped = (name: string, dims: readonly number[]) =>
    to.node('Reshape', [name, integers(to, dims)]);
  const last = output.dtype === 'f64' ? {} : { outputs: [output.name] };
  let wide: string;
  if (!scale) wide = to.node('Cast', [bits!.name], { attributes: { to: { int: 1 } }, ...last });
  else {
    const blocks = sizeOf(shape) / BLOCK;
    const bytes = shaped(bits!.name, [blocks, offset ? BLOCK / 2 : BLOCK]);
    const scaled = emitScaled(to, bytes, {
      isHalved: offset !== undefined,
      scale: (dims) => real(shaped(scale.name, [blocks, ...dims])),
    });
    const moved = offset
      ? to.node('Add', [scaled, real(shaped(offset.name, [blocks, 1]))])
      : scaled;
    wide = to.node('Reshape', [moved, integers(to, shape)], last);
  }
  if (output.dtype === 'f64') {
    to.node('Cast', [wide], { attributes: { to: { int: 11 } }, outputs: [output.name] });
  }
}

interface Scaled {
  /** Whether each byte holds two values. */
  readonly isHalved: boolean;
  /** Returns the scales, one per block, reshaped with these trailing dimensions. */
  scale(dims: readonly number[]): string;
}

/**
 * Emits values (blocks, 32) times the scale of their block. GPUs lack bit kernels: half bytes are split in f32 there.
 */
function emitScaled(to: Emitter, bytes: string, { isHalved, scale }: Scaled): string {
  if (to.target === 'cpu' || (to.target === 'cuda' && !isHalved)) {
    return to.node('DequantizeLinear', [isHalved ? emitHalves(to, bytes) : bytes, scale([])], {
      attributes: { axis: { int: 0 } },
    });
  }
  const real = to.node('Cast', [bytes], { attributes: { to: { int: 1 } } });
  const number = (value: number) => to.constant('f32', [], [value]);
  // signed bytes are stored as value + 128 there
  if (!isHalved) return to.node('Mul', [to.node('Sub', [real, number(128)]), scale([1])]);
  const high = to.node('Floor', [to.node('Mul', [real, number(1 / 16)])]);
  const low = to.node('Sub', [real, to.node('Mul', [high, number(16)])]);
  const values = to.node('Concat', [low, high], { attributes: { axis: { int: 1 } } });
  return to.node('Mul', [values, scale([1])]);
}

/** Splits bytes (blocks, 16) into integers (blocks, 32). */
function emitHalves(to: Emitter, bytes: string): string {
  const low = to.node('BitwiseAnd', [bytes, to.constant('u8', [], [15])]);
  const high = to.node('BitShift', [bytes, to.constant('u8', [], [4])], {
    attributes: { direction: { text: 'RIGHT' } },
  });
  return to.node('Concat', [low, high], { attributes: { axis: { int: 1 } } });
}

const keepLast = { keepdims: { int: 1 } };

/**
 * Computes the layer piece by piece, like FlashAttention (arXiv 2205.14135): it tracks the largest logit so far, the
 * sum of exponentials relative to it and, for the derivative, the mean of the layer's rows weighted by those.
 */
function emitPieced(e: Emission<OpAttributes['piecedCrossEntropy']>): void {
  const { inputs, outputs, attributes, to } = e;
  const [x, targets, ...parts] = inputs;
  const [losses, slopes] = outputs;
  const { dtype } = x!;
  const axis = integers(to, [1]);
  const over = (type: string, name: string) =>
    to.node(type, [name, axis], { attributes: keepLast });
  let at: { readonly peak: string; readonly sum: string; readonly mean: string } | undefined;
  const height = parts[0]!.shape[0]!;
  for (let from = 0; from < height; from += attributes.rows) {
    const rows = Math.min(attributes.rows, height - from);
    const weight = emitPiece(
      to,
      parts,
      { from, rows, dtype },
      at && (e.uses(1) ? at.mean : at.sum),
    );
    const logits = to.node('Gemm', [x!.name, weight], { attributes: { transB: { int: 1 } } });
    const highest = over('ReduceMax', logits);
    const peak = at ? to.node('Max', [at.peak, highest]) : highest;
    const shares = to.node('Exp', [to.node('Sub', [logits, peak])]);
    const total = over('ReduceSum', shares);
    if (at) {
      const shrink = to.node('Exp', [to.node('Sub', [at.peak, peak])]);
      const shrunk = (name: string) => to.node('Mul', [name, shrink]);
      const sum = to.node('Add', [shrunk(at.sum), total]);
      const mean = e.uses(1) ? to.node('Gemm', [shares, weight, shrunk(at.mean)]) : '';
      at = { peak, sum, mean };
    } else {
      at = { peak, sum: total, mean: e.uses(1) ? to.node('Gemm', [shares, weight]) : '' };
    }
  }
  const { peak, sum, mean } = at!;
  const targetRows = emitRows(to, parts, targets!, dtype);
  const logit = over('ReduceSum', to.node('Mul', [x!.name, targetRows]));
  const loss = to.node('Sub', [to.node('Add', [to.node('Log', [sum]), peak]), logit]);
  to.node('Squeeze', [loss, axis], { outputs: [losses!.name] });
  if (e.uses(1))
    to.node('Sub', [to.node('Div', [mean, sum]), targetRows], { outputs: [slopes!.name] });
}

interface Piece {
  readonly from: number;
  readonly rows: number;
  readonly dtype: Part['dtype'];
}

/** Emits a range of rows of a quantized tensor, widened no earlier than `other` is computed. */
function emitPiece(
  to: Emitter,
  parts: readonly Part[],
  { from, rows, dtype }: Piece,
  other: string | undefined,
): string {
  const bounds = { axis: 0, start: from, end: from + rows };
  const cut = parts.map((part, i) => {
    const late = i === 0 && other !== undefined ? emitAfter(to, part, other) : part.name;
    const name = emitCut(to, { ...part, name: late }, bounds);
    return { ...part, name, shape: [rows, ...part.shape.slice(1)] };
  });
  const name = `${cut[0]!.name}.wide`;
  emitWiden(to, cut, { name, dtype });
  return name;
}

/** Emits the rows at these indices, widened. */
function emitRows(to: Emitter, parts: readonly Part[], rows: Part, dtype: Part['dtype']): string {
  const pieceRows = parts.map(({ name, dtype: type, shape }) => ({
    name: to.node('Gather', [name, rows.name]),
    dtype: type,
    shape: [...rows.shape, ...shape.slice(1)],
  }));
  const name = `${pieceRows[0]!.name}.wide`;
  emitWiden(to, pieceRows, { name, dtype });
  return name;
}

export const widening = {
  widen: {
    infer: (parts, { to }) => [{ dtype: to, shape: widened(parts) }],
    emit: ({ inputs, outputs: [y], to }) => {
      emitWiden(to, inputs, y!);
    },
    derive: 'a quantized tensor is frozen',
  },
  blockProduct: {
    infer: ([rows, bytes, scales], { bits }) => {
      const [height, width] = rows!.shape;
      const [outputs, blocks, size] = bytes!.shape;
      const isWhole = width === BLOCK * blocks! && size === 4 * bits;
      if (!isWhole || scales!.shape.join() !== `${outputs},${blocks}`) {
        throw new TypeError(`[${rows!.shape}] cannot be multiplied with blocks [${bytes!.shape}]`);
      }
      return [{ dtype: 'f32', shape: [height!, outputs!] }];
    },
    emit: ({ inputs, outputs: [y], attributes: { bits }, to }) => {
      const [outputs, blocks] = inputs[1]!.shape;
      to.node(
        'MatMulNBits',
        inputs.map(({ name }) => name),
        {
          domain: 'com.microsoft',
          attributes: {
            K: { int: BLOCK * blocks! },
            N: { int: outputs! },
            bits: { int: bits },
            block_size: { int: BLOCK },
            // 8 bits are fast with rounded rows alone, 4 bits also with rows in f32
            accuracy_level: { int: bits === 8 ? 4 : 1 },
          },
          outputs: [y!.name],
        },
      );
    },
    derive: 'a quantized tensor is frozen',
  },
  piecedCrossEntropy: {
    infer: ([x, targets, ...parts]) => {
      const [rows, width] = x?.shape ?? [];
      if (widened(parts)[1] !== width || targets?.shape.join() !== `${rows}`) {
        throw new TypeError('cross-entropy takes rows, a weight [V, width] and one target per row');
      }
      return [{ dtype: x!.dtype, shape: targets.shape }, x!];
    },
    saves: true,
    emit: emitPieced,
    derive: ({ grad, inputs: [x], outputs: [, slopes] }) => [
      mul(slopes!, reshape(grad, [x!.shape[0]!, 1])),
    ],
  },
} satisfies OpRules;
