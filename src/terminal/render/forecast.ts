/** Draws series, forecasts, pictures and bars in characters. */
import { formatLoss } from '../../base/numbers.ts';

/** Quantiles of the forecast for one step. */
interface Expected {
  readonly low: number;
  readonly middle: number;
  readonly high: number;
}

interface Size {
  readonly width: number;
  readonly height: number;
}

const SHADES = ' ░▒▓█';

/** Returns the lines of a chart: `•` the past, `o` the forecast, `:` between its quantiles; the range on the left. */
export function forecastChart(
  observed: readonly number[],
  expected: readonly Expected[],
  { width, height }: Size,
): readonly string[] {
  const margin = 10;
  const chartWidth = Math.max(2, width - margin - 2);
  // if there are more steps than columns, every n-th step is shown
  const every = Math.max(1, Math.ceil((2 * expected.length) / chartWidth));
  const ahead = expected.filter((_, i) => i % every === every - 1);
  const before = observed
    .filter((_, i) => (observed.length - 1 - i) % every === 0)
    .slice(-(chartWidth - ahead.length - 1));
  const all = [...before, ...ahead.flatMap(({ low, high }) => [low, high])];
  const [high, low] = [Math.max(...all), Math.min(...all)];
  const row = (value: number) =>
    high > low ? Math.round(((high - value) / (high - low)) * (height - 1)) : 0;
  const columns = [
    ...before.map((value) => (line: number) => (line === row(value) ? '•' : ' ')),
    () => '│',
    ...ahead.map((step) => (line: number) => {
      if (line === row(step.middle)) return 'o';
      return line > row(step.high) && line < row(step.low) ? ':' : ' ';
    }),
  ];
  return Array.from({ length: height }, (_, line) => {
    const label = line === 0 ? formatLoss(high) : line === height - 1 ? formatLoss(low) : '';
    const cells = columns.map((cell) => cell(line)).join('');
    return `${label.padStart(margin)} │${cells}`.trimEnd();
  });
}

/** Returns the lines of a picture, two characters per pixel, shaded by brightness. */
export function pictureLines(
  bytes: Uint8Array,
  { pixels, channels }: { readonly pixels: number; readonly channels: number },
): readonly string[] {
  return Array.from({ length: pixels }, (_, y) =>
    Array.from({ length: pixels }, (_, x) => {
      const at = (y * pixels + x) * channels;
      const pixel = bytes.subarray(at, at + channels);
      const bright = pixel.reduce((sum, value) => sum + value, 0) / channels / 256;
      return (SHADES[Math.floor(bright * SHADES.length)] ?? ' ').repeat(2);
    }).join(''),
  );
}

const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const LEVELS = '▁▂▃▄▅▆▇█';

/** Returns a bar of `width` characters, filled to an eighth of a character. */
export function bar(share: number, width: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, share)) * width * 8);
  const filled = '█'.repeat(Math.floor(eighths / 8)) + EIGHTHS[eighths % 8];
  return filled + '░'.repeat(width - filled.length);
}

/** Returns at most `width` characters, from the lowest to the highest value; non-finite values leave a gap. */
export function sparkline(values: readonly number[], width: number): string {
  const columns = resample(values, width);
  const finite = columns.filter(Number.isFinite);
  const low = Math.min(...finite);
  const span = Math.max(...finite) - low;
  return columns
    .map((value) => {
      if (!Number.isFinite(value)) return ' ';
      const level = span > 0 ? Math.round(((value - low) / span) * (LEVELS.length - 1)) : 0;
      return LEVELS[level];
    })
    .join('');
}

const MOST_COLUMNS = 4;

/**
 * Returns `height` lines of at most `width` characters, with the range on the left; no lines for fewer than two values.
 */
export function plot(values: readonly number[], width: number, height: number): readonly string[] {
  if (values.length < 2) return [];
  const [high, low] = [Math.max(...values), Math.min(...values)];
  const labels = [formatLoss(high), formatLoss(low)];
  const margin = Math.max(...labels.map((label) => label.length));
  const chartWidth = Math.max(1, width - margin - 2);
  const each = Math.min(MOST_COLUMNS, Math.max(1, Math.floor(chartWidth / values.length)));
  const columns = resample(values, chartWidth).flatMap((value) => Array<number>(each).fill(value));
  const steps = LEVELS.length;
  const filled = columns.map((value) =>
    Math.round(1 + (high > low ? (value - low) / (high - low) : 0) * (height * steps - 1)),
  );
  return Array.from({ length: height }, (_, line) => {
    const below = (height - 1 - line) * steps;
    const cells = filled.map((all) => ` ${LEVELS}`[Math.min(steps, Math.max(0, all - below))]);
    const label = line === 0 ? labels[0]! : line === height - 1 ? labels[1]! : '';
    return `${label.padStart(margin)} │${cells.join('')}`.trimEnd();
  });
}

/** Returns the means of equal ranges if there are more values than columns. */
function resample(values: readonly number[], width: number): readonly number[] {
  if (values.length <= width) return values;
  return Array.from({ length: width }, (_, i) => {
    const part = values.slice(
      Math.floor((i * values.length) / width),
      Math.floor(((i + 1) * values.length) / width),
    );
    return part.reduce((sum, value) => sum + value, 0) / part.length;
  });
}
