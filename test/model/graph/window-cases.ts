/** Cases of ops that move a window over (N, C, ...); onnxruntime has no f64 kernels of convolutions. */
import { sizeOf, type Value } from 'nostrain/model';
import type { SlidingWindow } from '../../../src/model/graph/rule.ts';
import * as v from '../../../src/model/graph/verbs.ts';
import type { OpCase } from './op-cases.ts';

interface Shapes extends SlidingWindow {
  readonly group: number;
  readonly x: readonly [number, number, number, number];
  readonly w: readonly [number, number, number, number];
}

/** The operand holds the input, the weights and one bias per result channel. */
const partsOf = (flat: Value, { x, w }: Shapes, biases: number) => {
  const [a, b, c] = v.split(flat, 0, [sizeOf(x), sizeOf(w), biases]);
  return [v.reshape(a!, x), v.reshape(b!, w), c!] as const;
};

/** Calls `visit` for each product of an element of the larger side, a weight, and an element of the smaller side. */
function eachProduct(
  { x, w, group, strides, begin, dilations }: Shapes,
  [height, width]: readonly [number, number],
  visit: (large: number, weight: number, small: number, channel: number) => void,
): void {
  const [batch, channels, rows, columns] = x;
  const [results, inner, kernelRows, kernelColumns] = w;
  for (let n = 0; n < batch; n++)
    for (let m = 0; m < results; m++)
      for (let c = 0; c < inner; c++)
        for (let i = 0; i < height; i++)
          for (let j = 0; j < width; j++)
            for (let k = 0; k < kernelRows; k++)
              for (let l = 0; l < kernelColumns; l++) {
                const row = i * strides[0]! + k * dilations[0]! - begin[0]!;
                const column = j * strides[1]! + l * dilations[1]! - begin[1]!;
                if (row < 0 || column < 0 || row >= rows || column >= columns) continue;
                const channel = Math.floor(m / (results / group)) * inner + c;
                visit(
                  ((n * channels + channel) * rows + row) * columns + column,
                  ((m * inner + c) * kernelRows + k) * kernelColumns + l,
                  ((n * results + m) * height + i) * width + j,
                  channel,
                );
              }
}

const spatial = ({ x, w, strides, begin, end, dilations }: Shapes): readonly [number, number] => {
  const size = (axis: 0 | 1) =>
    Math.floor(
      (x[axis + 2]! + begin[axis]! + end[axis]! - dilations[axis]! * (w[axis + 2]! - 1) - 1) /
        strides[axis]!,
    ) + 1;
  return [size(0), size(1)];
};

function convCase(title: string, shapes: Shapes): OpCase {
  const results = shapes.w[0];
  const [height, width] = spatial(shapes);
  return {
    title: `conv, ${title}`,
    shapes: [[sizeOf(shapes.x) + sizeOf(shapes.w) + results]],
    build: (flat) => {
      const [x, w, bias] = partsOf(flat, shapes, results);
      return v.conv(x, w, shapes, bias);
    },
    reference: (flat) => {
      const weights = sizeOf(shapes.x);
      const biases = weights + sizeOf(shapes.w);
      const made = Array.from(
        { length: shapes.x[0] * results * height * width },
        (_, i) => flat[biases + (Math.floor(i / (height * width)) % results)]!,
      );
      eachProduct(shapes, [height, width], (large, weight, small) => {
        made[small]! += flat[large]! * flat[weights + weight]!;
      });
      return made;
    },
  };
}

/** The transpose maps results of a convolution back to inputs. */
function transposeCase(title: string, shapes: Shapes): OpCase {
  const { x, w, group } = shapes;
  const sizes = spatial(shapes);
  const small = [x[0], w[0], ...sizes] as const;
  const channels = w[1] * group;
  const parts: Shapes = { ...shapes, x: small };
  return {
    title: `convTranspose, ${title}`,
    shapes: [[sizeOf(small) + sizeOf(w) + channels]],
    build: (flat) => {
      const [a, b, bias] = partsOf(flat, parts, channels);
      return v.convTranspose(a, b, { ...shapes, sizes: x.slice(2) }, bias);
    },
    reference: (flat) => {
      const weights = sizeOf(small);
      const biases = weights + sizeOf(w);
      const made = Array.from(
        { length: sizeOf(x) },
        (_, i) => flat[biases + (Math.floor(i / (x[2] * x[3])) % channels)]!,
      );
      eachProduct(shapes, sizes, (large, weight, at) => {
        made[large]! += flat[at]! * flat[weights + weight]!;
      });
      return made;
    },
  };
}

const plain = { strides: [1, 1], begin: [0, 0], end: [0, 0], dilations: [1, 1], group: 1 } as const;

const windows: readonly (readonly [string, Shapes])[] = [
  ['one group', { ...plain, x: [2, 2, 4, 4], w: [3, 2, 3, 2] }],
  [
    'strides and padding',
    { ...plain, x: [1, 2, 5, 4], w: [2, 2, 3, 3], strides: [2, 2], begin: [1, 0], end: [1, 1] },
  ],
  ['groups', { ...plain, x: [2, 4, 3, 3], w: [4, 2, 2, 2], group: 2 }],
  [
    'depthwise, dilated',
    { ...plain, x: [1, 2, 5, 5], w: [2, 1, 2, 2], group: 2, dilations: [2, 2] },
  ],
];

const pooled = { strides: [2, 2], begin: [1, 1], end: [1, 1], dilations: [1, 1], kernel: [3, 3] };

export const windowCases = {
  conv: windows.map(([title, shapes]) => convCase(title, shapes)),
  convTranspose: windows.map(([title, shapes]) => transposeCase(title, shapes)),
  patches: [
    {
      title: 'patches, as values without a gradient',
      shapes: [[1, 2, 5, 4]],
      build: (x: Value) =>
        v.mul(v.reduceSum(x), v.patches(v.filled(x, [1, 2, 5, 4], 0.5), { ...pooled, group: 1 })),
    },
  ],
  maxPool: [
    {
      title: 'maxPool',
      shapes: [[2, 2, 5, 4]],
      range: [-1.5, 1.5],
      build: (x: Value) => v.maxPool(x, pooled),
    },
  ],
  track: [
    {
      title: 'track, by the losses',
      shapes: [[3], [2]],
      build: (x: Value, y: Value) => v.add(v.track(x, v.filled(y, [2], 1), y), v.reduceSum(y)),
    },
  ],
} satisfies Readonly<Record<string, readonly OpCase[]>>;
