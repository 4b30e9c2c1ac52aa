/** Synthetic training data: series and pictures generated from the run's seed, the same on every machine. */

import { below, deriveKey, philox, unit } from '../../base/rng.ts';
import type { FormName } from '../../run/data-forms.ts';
import type { Settings } from '../../run/settings.ts';
import type { TrainerData } from '../forms/table.ts';
import { dividePictures, type Pictures } from './pictures.ts';
import { asRows, syntheticRows } from './regression.ts';
import { divideSeries, type Series } from './series.ts';

const makers: Readonly<Record<Exclude<FormName, 'tokens'>, (settings: Settings) => TrainerData>> = {
  rows: (settings) => {
    const { rows, validation } = syntheticRows(settings);
    return {
      kind: 'regression',
      features: rows.features,
      ...asRows(rows),
      validation: asRows(validation),
    };
  },
  series: (settings) =>
    divideSeries(syntheticSeries(settings.seed), { ...settings, form: 'interleaved' }),
  images: ({ seed, pixels, shard }) => dividePictures(syntheticShapes(seed, pixels), shard),
};

/** Returns a worker's synthetic data and the validation part. Synthetic text is in `playwright.ts`. */
export const syntheticData = (form: Exclude<FormName, 'tokens'>, settings: Settings): TrainerData =>
  makers[form](settings);

/** Sizes of the synthetic series, for the model's layout. */
export const syntheticSeriesSizes = { channels: 3 } as const;

const STEPS = 4000;
const NOISE = 0.15;
/** Steps of a regime: at least `least`, and up to `more` in addition. */
const REGIME = { least: 200, more: 400 } as const;

/** Generates a series of waves in changing regimes; the same bits on every engine. */
export function syntheticSeries(seed: number): Series {
  const key = deriveKey('nostrain/made-series', seed);
  const { channels } = syntheticSeriesSizes;
  const values = new Float64Array(STEPS * channels);
  let regime = drawRegime(seed, 0);
  let [left, count] = [regime.steps, 0];
  const phases = [0, 0];
  for (let step = 0; step < STEPS; step++) {
    if (left-- === 0) {
      regime = drawRegime(seed, ++count);
      left = regime.steps - 1;
    }
    phases.forEach((phase, i) => {
      phases[i] = phase + 1 / regime.periods[i]!;
    });
    const words = philox(key, step, 0, 0, 0);
    for (let channel = 0; channel < channels; channel++) {
      const lag = channel / 8;
      const waves = phases.map((phase, i) => regime.heights[i]! * wave(phase - lag * (1 + i)));
      const noise = unit(words[channel]!) + unit((words[channel]! * 2654435761) % 2 ** 32) - 1;
      values[step * channels + channel] =
        regime.level * (1 - channel / 2) + waves[0]! + waves[1]! + NOISE * noise;
    }
  }
  return {
    names: Array.from({ length: channels }, (_, i) => `wave ${i + 1}`),
    channels,
    steps: STEPS,
    values,
    times: { first: 0, step: 1, unit: 'number' },
  };
}

function drawRegime(seed: number, index: number) {
  const [a, b, c, d] = philox(deriveKey('nostrain/made-series/regime', seed), index, 0, 0, 0);
  const [e, f] = philox(deriveKey('nostrain/made-series/regime', seed), index, 1, 0, 0);
  return {
    steps: REGIME.least + below(a, REGIME.more),
    periods: [12 + below(b, 13), 30 + below(c, 31)] as const,
    heights: [0.4 + 0.8 * unit(d), 0.3 + 0.6 * unit(e)] as const,
    level: 2 * unit(f) - 1,
  };
}

/** Sine of an angle in cycles, accurate to 0.001. Only sums and products: `Math.sin` differs between engines. */
function wave(cycles: number): number {
  const x = 2 * (cycles - Math.floor(cycles)) - 1;
  const rough = 4 * x * (Math.abs(x) - 1);
  return rough + 0.225 * (rough * Math.abs(rough) - rough);
}

/** The shapes, in the order of their classes. */
const NAMES = ['circle', 'cross', 'square', 'triangle'] as const;

/** Sizes of the synthetic pictures, for the model's layout. */
export const syntheticShapeSizes = { channels: 1, classes: NAMES.length } as const;

const EACH = 500;

/** Reports whether a point is inside a shape of size 1 around 0. */
const inside: Readonly<Record<(typeof NAMES)[number], (x: number, y: number) => boolean>> = {
  circle: (x, y) => x * x + y * y <= 1,
  cross: (x, y) =>
    Math.min(Math.abs(x), Math.abs(y)) <= 0.3 && Math.max(Math.abs(x), Math.abs(y)) <= 1,
  square: (x, y) => Math.max(Math.abs(x), Math.abs(y)) <= 0.85,
  triangle: (x, y) => y <= 0.8 && y >= 2 * Math.abs(x) - 1,
};

/** Generates pictures of shapes, with the classes in turn; the same bits on every engine. */
export function syntheticShapes(seed: number, pixels: number): Pictures {
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
