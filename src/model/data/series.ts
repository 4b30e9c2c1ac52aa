/**
 * Time series: parses CSV tables with a column of times and one channel per other column, and divides a series among
 * workers. The last tenth is for validation; windows are dealt by their first step.
 */
import { ConfigError } from '../../base/errors.ts';
import type { Shard } from '../../run/field.ts';
import type { SeriesData } from '../forms/table.ts';
import { type CsvLine, readCsv } from './csv.ts';
import type { ShardForm } from './text.ts';

/** A series of evenly spaced steps with one or more channels. */
export interface Series {
  /** Channel names. */
  readonly names: readonly string[];
  readonly channels: number;
  readonly steps: number;
  /** (steps, channels), step by step. */
  readonly values: Float64Array;
  readonly times: Times;
}

/** The time of the first step, and the interval: in milliseconds, months, or plain numbers. */
export interface Times {
  readonly first: number;
  readonly step: number;
  readonly unit: 'number' | 'milliseconds' | 'months';
}

/** Accepted names of the time column, in any case. */
const TIME_NAMES = ['time', 'date', 'datetime', 'timestamp', 'ds', 'day', 'month', 'year', 't'];
const MOST_CHANNELS = 1024;

/** Parses a CSV with column names. Throws `data/series` with the line and column of the problem. */
export function parseSeriesCsv(text: string): Series {
  const [header, ...lines] = readCsv(text);
  if (header === undefined || header.cells.length < 2 || lines.length < 2) {
    throw wrong('needs a header with at least two column names, and two lines below it');
  }
  const names = header.cells.map((name) => name.trim());
  const at = names.findIndex((name) => TIME_NAMES.includes(name.toLowerCase()));
  if (at < 0) {
    const list = names.map((name) => JSON.stringify(name)).join(', ');
    throw wrong(
      `has no time column; its columns are ${list}`,
      `name the time column one of ${TIME_NAMES.join(', ')}`,
    );
  }
  const channels = names.toSpliced(at, 1);
  if (channels.length > MOST_CHANNELS) throw wrong(`has more than ${MOST_CHANNELS} columns`);
  for (const { cells, line } of lines) {
    if (cells.length === names.length) continue;
    throw wrong(`has ${cells.length} cells in line ${line}, where line 1 has ${names.length}`);
  }
  const values = new Float64Array(lines.length * channels.length);
  lines.forEach(({ cells, line }, step) => {
    cells.toSpliced(at, 1).forEach((cell, channel) => {
      values[step * channels.length + channel] = numberIn(cell, line, channels[channel]!);
    });
  });
  const times = timesOf(lines, at, names[at]!);
  return { names: channels, channels: channels.length, steps: lines.length, values, times };
}

function numberIn(cell: string, line: number, name: string): number {
  if (cell.trim() === '') {
    throw wrong(
      `has an empty cell in line ${line}, column ${JSON.stringify(name)}`,
      'fill it in, for example with the previous value, or remove the column',
    );
  }
  const value = Number(cell);
  if (Number.isFinite(value) && Number.isFinite(Math.fround(value))) return value;
  throw wrong(
    `has ${JSON.stringify(cell)} in line ${line}, column ${JSON.stringify(name)}, which is not ` +
      'a number',
    'remove such columns, or use numbers',
  );
}

/** Maximum deviation of an interval, as a share; allows for clock jitter but not for missing steps. */
const UNEVEN = 0.01;

function timesOf(lines: readonly CsvLine[], at: number, name: string): Times {
  const read = lines.map(({ cells, line }) => {
    const time = timeIn(cells[at]!.trim());
    if (time !== undefined) return { ...time, line };
    throw wrong(
      `has ${JSON.stringify(cells[at])} in line ${line}, column ${JSON.stringify(name)}, which ` +
        'is not a time',
      'use numbers, or dates such as 2024-01-31 and 2024-01-31T12:00:00Z',
    );
  });
  const [first, second] = [read[0]!, read[1]!];
  const other = read.find(({ unit }) => unit !== first.unit);
  if (other) throw wrong(`has times in two formats, the second one in line ${other.line}`);
  const byMonth = first.months !== undefined && read.every(({ months }) => months !== undefined);
  const monthStep = byMonth ? second.months! - first.months! : 0;
  const isMonthly =
    monthStep > 0 && read.every(({ months }, i) => months === first.months! + i * monthStep);
  if (isMonthly) return { first: first.months!, step: monthStep, unit: 'months' };
  const step = second.time - first.time;
  read.forEach(({ time, line }, i) => {
    const gap = i === 0 ? step : time - read[i - 1]!.time;
    if (gap <= 0) throw wrong(`goes back in time in line ${line}`, 'sort it by time');
    if (Math.abs(gap - step) <= UNEVEN * step) return;
    throw wrong(
      `has a gap before line ${line}: ${gap / step} steps instead of one`,
      'add a row for every step, or use longer steps',
    );
  });
  return { first: first.time, step, unit: first.unit };
}

const DATE = /^\d{4}-\d\d(-\d\d)?([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$/;

/** Parses a number or an ISO 8601 date; the first day of a month also gets its month number. */
function timeIn(
  text: string,
): (Pick<Times, 'unit'> & { time: number; months?: number }) | undefined {
  if (text === '') return undefined;
  const number = Number(text);
  if (Number.isFinite(number)) return { unit: 'number', time: number };
  if (!DATE.test(text)) return undefined;
  const isZoned = /(Z|[+-]\d\d:?\d\d)$/.test(text.slice(10));
  const time = Date.parse(text.length > 10 && !isZoned ? `${text.replace(' ', 'T')}Z` : text);
  if (!Number.isFinite(time)) return undefined;
  const date = new Date(time);
  const isFirst = time % 86_400_000 === 0 && date.getUTCDate() === 1;
  const months = 12 * date.getUTCFullYear() + date.getUTCMonth();
  return { unit: 'milliseconds', time, ...(isFirst && { months }) };
}

/** Mean and standard deviation of each channel in the training part, for scaling. */
export interface SeriesScale {
  readonly mean: Float64Array;
  readonly deviation: Float64Array;
}

export interface DivideSeries {
  readonly shard: Shard;
  readonly context: number;
  readonly horizon: number;
  readonly form: ShardForm;
  /** The evaluation series of a run whose workers have their own data. */
  readonly holdout?: Series | undefined;
}

const HELD_OUT = 0.1;
/** Length of a dealt block, in windows. */
const BLOCK = 2;

/** Returns the number of steps before the validation part. */
const cutOf = (
  { steps }: Series,
  { context, horizon }: Pick<DivideSeries, 'context' | 'horizon'>,
): number => {
  const cut = steps - Math.max(horizon, Math.floor(steps * HELD_OUT));
  if (cut >= context + horizon) return cut;
  throw new ConfigError(
    'data/too-small',
    `the series has ${steps} steps; a context of ${context} and a horizon of ${horizon} need at ` +
      `least ${context + 2 * horizon}`,
    { hint: 'use a longer series, or a smaller --context and horizon' },
  );
};

/** Returns the scale of the whole training part, the same for all workers. */
export function scaleOf(
  series: Series,
  sizes: Pick<DivideSeries, 'context' | 'horizon'>,
): SeriesScale {
  const { channels, values } = series;
  const cut = cutOf(series, sizes);
  const mean = new Float64Array(channels);
  const deviation = new Float64Array(channels);
  for (let channel = 0; channel < channels; channel++) {
    let sum = 0;
    for (let step = 0; step < cut; step++) sum += values[step * channels + channel]!;
    mean[channel] = sum / cut;
    let squares = 0;
    for (let step = 0; step < cut; step++) {
      squares += (values[step * channels + channel]! - mean[channel]!) ** 2;
    }
    // a constant channel is not divided
    deviation[channel] = Math.sqrt(squares / cut) || 1;
  }
  return { mean, deviation };
}

/** Returns a range of steps, scaled, as a model reads them. */
export const scaled = (
  { values, channels }: Pick<Series, 'values' | 'channels'>,
  { mean, deviation }: SeriesScale,
  [from, to]: readonly [number, number],
): Float32Array =>
  Float32Array.from(
    values.subarray(from * channels, to * channels),
    (value, i) => (value - mean[i % channels]!) / deviation[i % channels]!,
  );

/**
 * Returns a worker's windows and the validation windows, which follow the training part. With `holdout`, the worker
 * trains on its whole series and validates on `holdout`; each is scaled by its own statistics.
 */
export function divideSeries(series: Series, options: DivideSeries): SeriesData {
  const { shard, context, horizon, form, holdout } = options;
  const { channels } = series;
  if (holdout) assertSameColumns(series, holdout);
  const cut = holdout ? series.steps : cutOf(series, options);
  const scale = scaleOf(series, options);
  const all = cut - context - horizon + 1;
  const shardStarts = Array.from({ length: all }, (_, i) => i).filter((start) => {
    if (form === 'contiguous') return Math.floor((start * shard.count) / all) === shard.index - 1;
    const block = Math.floor(start / (BLOCK * (context + horizon)));
    return block % shard.count === shard.index - 1;
  });
  if (shardStarts.length === 0) {
    throw new ConfigError(
      'data/too-small',
      `the series has no windows for shard ${shard.index}/${shard.count}`,
      { hint: 'use a longer series, fewer workers, or a smaller --context and horizon' },
    );
  }
  const holdoutScale = holdout ? scaleOf(holdout, options) : scale;
  const [whole, from] = holdout ? [holdout, 0] : [series, cut - context];
  return {
    kind: 'series',
    channels,
    shard: { values: scaled(series, scale, [0, cut]), starts: Int32Array.from(shardStarts) },
    validation: {
      values: scaled(whole, holdoutScale, [from, whole.steps]),
      starts: Int32Array.from({ length: whole.steps - from - context - horizon + 1 }, (_, i) => i),
    },
  };
}

function assertSameColumns({ names }: Series, holdout: Series): void {
  const list = (all: readonly string[]) => all.map((name) => JSON.stringify(name)).join(', ');
  if (list(names) === list(holdout.names)) return;
  throw wrong(
    `has the columns ${list(names)}; those of the run are ${list(holdout.names)}`,
    'name the columns as the run does, in its order, and remove others',
  );
}

const wrong = (
  message: string,
  hint = 'write it like "time,price" and below it "2024-01-01,12.5"',
): ConfigError => new ConfigError('data/series', `the series ${message}`, { hint });
