/**
 * Arranges the weights of linear layers for programs that continue a text, which multiply them with few rows. f32
 * weights are transposed, which onnxruntime multiplies faster. 8 and 4 bits stay blocks, as onnxruntime's
 * MatMulNBits reads them, in programs that read one token.
 */
import { halfToNumber } from '../tensor/dtype.ts';
import type { Arranged, FrozenTensor } from './architectures/architecture.ts';
import type { Decoder } from './architectures/decoder.ts';
import type { Feed, Feeds } from './feeds.ts';
import type { Graph } from './graph/builder.ts';
import { BLOCK } from './graph/ops/widening.ts';
import type { Recorder, Value } from './graph/rule.ts';
import { add, gemm, reduceSum, reshape } from './graph/verbs.ts';
import { openFrozen, type Part, partsOf } from './precision.ts';

/** A weight [N, K] and the number of bits of its values. */
interface Weight {
  readonly tensor: FrozenTensor;
  readonly bits: 32 | 8 | 4;
}

const BITS: Readonly<Partial<Record<Part['dtype'], Weight['bits']>>> = { f32: 32, i8: 8, u8: 4 };

/** Returns the weights to arrange, by name: those stored as [outputs, inputs], with the last layer if quantized. */
function weightsOf(
  { linears, head, tensors }: Decoder,
  stored: readonly FrozenTensor[],
): ReadonlyMap<string, Weight> {
  const layers = linears.filter((layer) => layer.stored === 'out-in');
  const names = new Set([...layers.map(({ name }) => `${name}.weight`), head]);
  const shapes = new Map(tensors.map(({ name, shape }) => [name, shape.join()]));
  return new Map(
    stored.flatMap((tensor) => {
      const { name, shape } = tensor;
      const bits = BITS[partsOf(tensor)[0].dtype];
      // a slice of a tensor has another shape
      const isWhole = names.has(name) && shapes.get(name) === shape.join();
      // embeddings may be the last layer too, and are read by rows
      if (!isWhole || bits === undefined || (bits === 32 && name === head)) return [];
      return [[name, { tensor, bits }] as const];
    }),
  );
}

/** Names and shapes of the constants of a quantized weight: bytes, scales and, for 4 bits, shifts. */
function constantsOf({ tensor: { name, shape }, bits }: Weight): readonly [Part, Part, ...Part[]] {
  const [rows, columns] = shape;
  const blocks = [rows!, columns! / BLOCK];
  const perBlock = (what: string): Part => ({
    name: `${name}.${what}`,
    dtype: 'f32',
    shape: blocks,
  });
  const bytes: Part = { name: `${name}.bytes`, dtype: 'u8', shape: [...blocks, 4 * bits] };
  return [bytes, perBlock('scales'), ...(bits === 4 ? [perBlock('shifts')] : [])];
}

/** Opens all tensors as inputs, and makes products with arranged weights read them as arranged. */
export function openArranged(
  graph: Graph,
  decoder: Decoder,
  stored: readonly FrozenTensor[],
  tokens: number,
): ReadonlyMap<string, Value> {
  const weights = weightsOf(decoder, stored);
  const products = new Map<Value, Weight>();
  graph.product = (rows, value) => {
    const weight = products.get(value);
    if (weight?.bits === 32) return gemm(rows, value);
    return weight && tokens === 1 ? blockProduct(graph, rows, weight) : undefined;
  };
  return new Map(
    stored.map((tensor) => {
      const weight = weights.get(tensor.name);
      const shape = weight?.bits === 32 ? [...tensor.shape].reverse() : tensor.shape;
      const value = openFrozen(graph, { ...tensor, shape }, 'f32');
      if (weight) products.set(value, weight);
      return [tensor.name, value] as const;
    }),
  );
}

/** Multiplies rows with a quantized weight. */
function blockProduct(graph: Recorder, rows: Value, weight: Weight): Value {
  const { bits } = weight;
  const [bytes, scales, shifts] = constantsOf(weight).map((part) => graph.external(part));
  const product = graph.apply('blockProduct', [rows, bytes!, scales!], { bits: bits as 8 | 4 })[0]!;
  if (!shifts) return product;
  const sums = reduceSum(reshape(rows, [rows.shape[0]!, -1, BLOCK]), [2]);
  return add(product, gemm(sums, shifts, { transB: true }));
}

/** Arranges the tensors of a decoder. Copies f32 weights. */
export function arrange(decoder: Decoder, stored: readonly FrozenTensor[], feeds: Feeds): Arranged {
  const weights = [...weightsOf(decoder, stored).values()];
  // closures keep `all` alone, so that f32 weights can be freed as they were
  const all = withTransposed(feeds, weights);
  return {
    feeds: all,
    constants: () =>
      Object.fromEntries(
        weights
          .filter(({ bits }) => bits !== 32)
          .flatMap((weight) => {
            const parts = partsOf(weight.tensor).map(({ name }) => all[name]!.elements);
            const arrays = weight.bits === 8 ? arranged8(parts) : arranged4(parts);
            return constantsOf(weight).map(({ name, shape }, i) => [
              name,
              { elements: arrays[i]!, shape },
            ]);
          }),
      ),
  };
}

function withTransposed(feeds: Feeds, weights: readonly Weight[]): Feeds {
  const wide = weights.filter(({ bits }) => bits === 32);
  const entries = wide.map(({ tensor: { name } }) => [name, transposed(feeds[name]!)]);
  return { ...feeds, ...Object.fromEntries(entries) };
}

function transposed({ elements, shape: [rows, columns] }: Feed): Feed {
  const swapped = new Float32Array(elements.length);
  for (let from = 0; from < rows!; from += BLOCK) {
    const end = Math.min(rows!, from + BLOCK);
    for (let column = 0; column < columns!; column++) {
      for (let row = from; row < end; row++) {
        swapped[column * rows! + row] = elements[row * columns! + column] as number;
      }
    }
  }
  return { elements: swapped, shape: [columns!, rows!] };
}

const floatsOf = (halves: Feed['elements']): Float32Array =>
  Float32Array.from(halves as Uint16Array, halfToNumber);

/** MatMulNBits stores q + 128 where q is the signed value. */
const arranged8 = ([bits, scales]: readonly Feed['elements'][]) => [
  Uint8Array.from(bits as Int8Array, (value) => value + 128),
  floatsOf(scales!),
];

/**
 * MatMulNBits stores neighbours in one byte, and multiplies scale * (q - 8) where a tensor has scale * q + offset. The
 * shift is the difference.
 */
function arranged4([bits, scales, offsets]: readonly Feed['elements'][]) {
  const bytes = bits as Uint8Array;
  const half = BLOCK / 2;
  const value = (block: number, i: number) =>
    i < half ? bytes[block + i]! & 15 : bytes[block + i - half]! >> 4;
  const paired = Uint8Array.from(bytes, (_, at) => {
    const i = at % half;
    return value(at - i, 2 * i) | (value(at - i, 2 * i + 1) << 4);
  });
  const wide = floatsOf(scales!);
  const shifts = floatsOf(offsets!).map((offset, i) => offset + 8 * wide[i]!);
  return [paired, wide, shifts];
}
