/** Series and pictures out of characters: what was, what a model expects, and how sure it is of that. */
import { formatLoss } from '../../base/numbers.ts';

/** What is expected of one step. */
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

/** Lines of a chart: `•` what was, `o` what is expected, `:` between its quantiles; the highest and lowest number at the left. */
export function forecastChart(
  past: readonly number[],
  expected: readonly Expected[],
  { width, height }: Size,
): readonly string[] {
  const margin = 10;
  const room = Math.max(2, width - margin - 2);
  // where all steps do not fit each column is one of several
  const every = Math.max(1, Math.ceil((2 * expected.length) / room));
  const ahead = expected.filter((_, i) => i % every === every - 1);
  const before = past
    .filter((_, i) => (past.length - 1 - i) % every === 0)
    .slice(-(room - ahead.length - 1));
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

/** Lines of a picture, two characters a pixel; colours by how bright they are. */
export function pictureLines(
  bytes: Uint8Array,
  { pixels, channels }: { readonly pixels: number; readonly channels: number },
): readonly string[] {
  return Array.from({ length: pixels }, (_, y) =>
    Array.from({ length: pixels }, (_, x) => {
      const at = (y * pixels + x) * channels;
      const own = bytes.subarray(at, at + channels);
      const bright = own.reduce((sum, value) => sum + value, 0) / channels / 256;
      return (SHADES[Math.floor(bright * SHADES.length)] ?? ' ').repeat(2);
    }).join(''),
  );
}
