/** A series made on the machine: sines with noise, whose periods, heights and levels change every few hundred steps. */
import { below, deriveKey, philox, unit } from '../../base/rng.ts';
import type { Series } from './series.ts';

/** Numbers of a step, as models are laid out by. */
export const madeSeriesSizes = { channels: 3 } as const;

const STEPS = 4000;
const NOISE = 0.15;
/** Steps between two changes, at least and beyond that at most. */
const REGIME = { least: 200, more: 400 } as const;

/** The same bits on every engine for a seed. */
export function madeSeries(seed: number): Series {
  const key = deriveKey('nostrain/made-series', seed);
  const { channels } = madeSeriesSizes;
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

/** A sine to a thousandth, over turns, out of sums and products alone: other sines differ between engines. */
function wave(turns: number): number {
  const x = 2 * (turns - Math.floor(turns)) - 1;
  const rough = 4 * x * (Math.abs(x) - 1);
  return rough + 0.225 * (rough * Math.abs(rough) - rough);
}
