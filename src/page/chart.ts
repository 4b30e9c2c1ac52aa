/** Draws a line chart as SVG: axes, a line per series, and a mark at the selected round. */
import { roundNumber } from '../run/ids.ts';
import { s } from './dom.ts';

/** Size and selection of a chart. */
export interface Drawing {
  /** Width in CSS pixels. */
  readonly width: number;
  /** The selected round. */
  readonly chosen: number | undefined;
  /** Maximum number of rounds on the axis. */
  readonly rounds: number;
}

export interface ChartSeries {
  readonly name: string;
  /** CSS class that sets color and dash. */
  readonly className: string;
  readonly points: readonly { readonly round: number; readonly value: number }[];
}

const HEIGHT = 240;
/** Minimum width: a narrower chart would be all labels. */
const LEAST_WIDTH = 280;
const BOX = { left: 56, right: 12, top: 12, bottom: 34 };
const TICKS = 4;
/** Maximum number of points per line: more points than pixels are not visible. */
const MOST_POINTS = 600;

/** Returns the chart; undefined if there is nothing to draw yet. */
export function chart(
  label: string,
  series: readonly ChartSeries[],
  { width, chosen, rounds }: Drawing,
): SVGSVGElement | undefined {
  const shown = series
    .map((each) => ({
      ...each,
      points: thinned(each.points.filter(({ value }) => Number.isFinite(value))),
    }))
    .filter(({ points }) => points.length > 0);
  const values = shown.flatMap(({ points }) => points.map(({ value }) => value));
  if (values.length === 0) return undefined;
  const [low, high] = bounds(values);
  const wide = Math.max(LEAST_WIDTH, width);
  const last = Math.max(1, rounds - 1);
  const x = (round: number) => BOX.left + (round / last) * (wide - BOX.left - BOX.right);
  const y = (value: number) =>
    BOX.top + ((high - value) / (high - low)) * (HEIGHT - BOX.top - BOX.bottom);
  return s(
    'svg',
    { viewBox: `0 0 ${wide} ${HEIGHT}`, role: 'img', 'aria-label': describe(label, shown) },
    ...gridOf(low, high, wide, y),
    ...roundTicks(last, wide, x),
    ...shown.flatMap(({ className, points }) => lineOf(className, points, x, y)),
    chosen === undefined
      ? undefined
      : s('line', {
          class: 'chosen',
          x1: x(chosen),
          x2: x(chosen),
          y1: BOX.top,
          y2: HEIGHT - BOX.bottom,
        }),
  );
}

function bounds(values: readonly number[]): readonly [number, number] {
  const low = values.reduce((a, b) => Math.min(a, b));
  const high = values.reduce((a, b) => Math.max(a, b));
  const margin = (high - low || Math.abs(high) || 1) * 0.05;
  return [low - margin, high + margin];
}

function thinned<T>(points: readonly T[]): readonly T[] {
  if (points.length <= MOST_POINTS) return points;
  const step = (points.length - 1) / (MOST_POINTS - 1);
  return Array.from({ length: MOST_POINTS }, (_, i) => points[Math.round(i * step)]!);
}

function lineOf(
  className: string,
  points: ChartSeries['points'],
  x: (round: number) => number,
  y: (value: number) => number,
): readonly SVGElement[] {
  const at = points.map(({ round, value }) => `${x(round).toFixed(1)},${y(value).toFixed(1)}`);
  const line = s('polyline', { class: `line ${className}`, points: at.join(' ') });
  const end = points.at(-1)!;
  const dot = s('circle', { class: `dot ${className}`, cx: x(end.round), cy: y(end.value), r: 4 });
  return [line, dot];
}

function gridOf(
  low: number,
  high: number,
  wide: number,
  y: (value: number) => number,
): readonly SVGElement[] {
  return Array.from({ length: TICKS + 1 }, (_, i) => low + ((high - low) * i) / TICKS).flatMap(
    (value) => [
      s('line', { class: 'grid', x1: BOX.left, x2: wide - BOX.right, y1: y(value), y2: y(value) }),
      s('text', { x: BOX.left - 8, y: y(value) + 4, 'text-anchor': 'end' }, value.toFixed(2)),
    ],
  );
}

function roundTicks(
  last: number,
  wide: number,
  x: (round: number) => number,
): readonly SVGElement[] {
  const step = Math.max(1, Math.ceil(last / Math.max(3, wide / 120)));
  const rounds = Array.from({ length: Math.floor(last / step) + 1 }, (_, i) => i * step);
  return rounds.map((round) =>
    s('text', { x: x(round), y: HEIGHT - 12, 'text-anchor': 'middle' }, roundNumber(round)),
  );
}

/** Returns the description for screen readers. */
function describe(label: string, series: readonly ChartSeries[]): string {
  const lines = series.map(({ name, points }) => {
    const [first, last] = [points[0]!, points.at(-1)!];
    return (
      `${name} from ${first.value.toFixed(3)} in round ${roundNumber(first.round)} to ` +
      `${last.value.toFixed(3)} in round ${roundNumber(last.round)}`
    );
  });
  return `${label}: ${lines.join('; ')}`;
}
