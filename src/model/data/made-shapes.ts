/** Pictures made on the machine: grey squares with a shape drawn in them, at some place and size, over noise. */
import { deriveKey, philox, unit } from '../../base/rng.ts';
import type { Pictures } from './pictures.ts';

/** Which shapes, in the order of their classes. */
const NAMES = ['circle', 'cross', 'square', 'triangle'] as const;

/** As models are laid out by. */
export const madeShapeSizes = { channels: 1, classes: NAMES.length } as const;

const EACH = 500;

/** Whether a point is in a shape around 0, of which 1 is the size. */
const inside: Readonly<Record<(typeof NAMES)[number], (x: number, y: number) => boolean>> = {
  circle: (x, y) => x * x + y * y <= 1,
  cross: (x, y) =>
    Math.min(Math.abs(x), Math.abs(y)) <= 0.3 && Math.max(Math.abs(x), Math.abs(y)) <= 1,
  square: (x, y) => Math.max(Math.abs(x), Math.abs(y)) <= 0.85,
  triangle: (x, y) => y <= 0.8 && y >= 2 * Math.abs(x) - 1,
};

/** The same bits on every engine for a seed; classes take turns. */
export function madeShapes(seed: number, pixels: number): Pictures {
  const count = EACH * NAMES.length;
  const size = pixels * pixels;
  const bytes = new Uint8Array(count * size);
  const labels = Int32Array.from({ length: count }, (_, i) => i % NAMES.length);
  const key = deriveKey('nostrain/made-shapes', seed);
  for (let i = 0; i < count; i++) {
    const [a, b, c, d] = philox(key, i, 0, 0, 0);
    const radius = pixels * (0.18 + 0.2 * unit(a));
    const [x0, y0] = [b, c].map((word) => radius + (pixels - 2 * radius) * unit(word)) as [
      number,
      number,
    ];
    const ink = 150 + 80 * unit(d);
    let words = philox(key, i, 2, 0, 0);
    const isIn = inside[NAMES[labels[i]!]!];
    for (let at = 0; at < size; at++) {
      const [x, y] = [(at % pixels) + 0.5, Math.floor(at / pixels) + 0.5];
      if (at % 4 === 0) words = philox(key, i, 1, at, 0);
      const noise = 80 * (unit(words[at % 4]!) - 0.5);
      const ground = isIn((x - x0) / radius, (y - y0) / radius) ? ink : 50;
      bytes[i * size + at] = Math.round(ground + noise);
    }
  }
  return { classes: NAMES, pixels, channels: 1, bytes, labels };
}
