/** A line chart as plain SVG: axes, a path for each series, a mark at the chosen round. */

import { roundNumber } from '../run/ids.ts';
import { s } from './dom.ts';

/** How wide it is drawn, in CSS pixels, and which round is looked at. */
export interface Drawing {
  readonly width: number;
  readonly chosen: number | undefined;
  /** Maximum number of rounds on the axis. */
  readonly rounds: number;
}

export interface ChartSeries {
  readonly name: string;
  /** Class that gives it a colour and a dash. */
  readonly className: string;
  readonly points: readonly { readonly round: number; readonly value: number }[];
}

const HEIGHT = 240;
/** Narrower ones would be all labels. */
const LEAST_WIDTH = 280;
const BOX = { left: 56, right: 12, top: 12, bottom: 34 };
const TICKS = 4;
/** More points than pixels say nothing more. */
const MOST_POINTS = 600;

/** The chart; undefined where there is nothing to draw yet. */
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

/** For who hears the page. */
function describe(label: string, series: readonly ChartSeries[]): string {
  const said = series.map(({ name, points }) => {
    const [first, last] = [points[0]!, points.at(-1)!];
    return (
      `${name} from ${first.value.toFixed(3)} in round ${roundNumber(first.round)} to ` +
      `${last.value.toFixed(3)} in round ${roundNumber(last.round)}`
    );
  });
  return `${label}: ${said.join('; ')}`;
}
