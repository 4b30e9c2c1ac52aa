/** Series from CSV, synthetic ones, and how workers share them. */

import { ConfigError } from 'nostrain/base';
import { syntheticSeries } from 'nostrain/model';
import { describe, expect, it } from 'vitest';
import { divideSeries, parseSeriesCsv, scaleOf } from '../../../src/model/data/series.ts';

const lines = (...all: readonly string[]) => `${all.join('\n')}\n`;

describe('a series in a CSV', () => {
  it('has a channel for each column but that of times', () => {
    const series = parseSeriesCsv(lines('a,Date,b', '1,2024-01-01,2', '3,2024-01-02,4'));
    expect(series).toMatchObject({ names: ['a', 'b'], channels: 2, steps: 2 });
    expect([...series.values]).toEqual([1, 2, 3, 4]);
    expect(series.times).toMatchObject({ step: 86_400_000, unit: 'milliseconds' });
  });

  it('counts months as steps, whatever their days, and numbers as they are', () => {
    const monthly = parseSeriesCsv(lines('month,x', '2024-01-01,1', '2024-02-01,2', '2024-03,3'));
    expect(monthly.times).toEqual({ first: 12 * 2024, step: 1, unit: 'months' });
    const yearly = parseSeriesCsv(lines('year;x', '1900;1', '1901;2', '1902;2'));
    expect(yearly.times).toEqual({ first: 1900, step: 1, unit: 'number' });
    const clock = parseSeriesCsv(lines('time,x', '2024-01-01T00:00,1', '2024-01-01 01:00:00Z,2'));
    expect(clock.times.step).toBe(3_600_000);
  });

  it.each([
    ['no time column', ['a,b', '1,2', '3,4'], /no time column; its columns are "a", "b"/],
    ['a hole in a column', ['time,a', '1,2', '2,', '3,4'], /empty cell in line 3, column "a"/],
    ['a step that is missing', ['time,a', '1,2', '2,2', '4,4'], /gap before line 4: 2 steps/],
    ['a month that is missing', ['month,a', '2024-01-01,2', '2024-02-01,2', '2024-05-01,4'], /gap/],
    ['a step back', ['time,a', '1,2', '2,2', '0,4'], /goes back in time in line 4/],
    ['no number', ['time,a', '1,2', '2,x'], /"x" in line 3, column "a", which is not a number/],
    ['a number beyond f32', ['time,a', '1,2', '2,1e300'], /not a number/],
    [
      'no time',
      ['time,a', '1,2', 'soon,3'],
      /"soon" in line 3, column "time", which is not a time/,
    ],
    ['times in two ways', ['time,a', '1,2', '2024-01-01,3'], /in two formats/],
    ['short lines', ['time,a', '1,2', '2'], /1 cells in line 3/],
    ['nothing but a heading', ['time,a'], /two lines below it/],
  ])('is refused with a hint for %s', (_, text, words) => {
    const read = () => parseSeriesCsv(lines(...text));
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(words);
    try {
      read();
    } catch (error) {
      expect((error as ConfigError).hint).toBeTruthy();
      expect((error as ConfigError).code).toBe('data/series');
    }
  });
});

describe('workers of a series', () => {
  const sizes = { context: 12, horizon: 4, form: 'interleaved' } as const;
  const counting = (steps: number) => ({
    ...{
      names: ['x'],
      channels: 1,
      steps,
      values: Float64Array.from({ length: steps }, (_, i) => i),
    },
    times: { first: 0, step: 1, unit: 'number' } as const,
  });

  it.each(['interleaved', 'contiguous'] as const)(
    'share every window of the training part once (%s), and evaluate on what comes after it',
    (form) => {
      const series = counting(200);
      const shards = [1, 2, 3].map((index) =>
        divideSeries(series, { ...sizes, form, shard: { index, count: 3 } }),
      );
      const starts = shards.flatMap(({ shard }) => [...shard.starts]).sort((a, b) => a - b);
      expect(starts).toEqual(Array.from({ length: 180 - 15 }, (_, i) => i));
      const [first] = shards;
      const { mean, deviation } = scaleOf(series, sizes);
      const original = (value: number) => value * deviation[0]! + mean[0]!;
      const targets = [...first!.validation.values].slice(12).map(original);
      expect(Math.round(targets[0]!)).toBe(180);
      expect(Math.max(...[...first!.shard.values].map(original))).toBeLessThan(180);
      expect(first!.validation.starts).toHaveLength(20 - 3);
    },
  );

  it('scale by the training part alone, and leave a channel that never moves', () => {
    const flat = { ...counting(100), values: new Float64Array(100).fill(7) };
    const { shard } = divideSeries(flat, { ...sizes, shard: { index: 1, count: 1 } });
    expect(new Set(shard.values)).toEqual(new Set([0]));
  });

  it('are told when it is too short, or has too many of them', () => {
    const divide = (steps: number, count: number) => () =>
      divideSeries(counting(steps), { ...sizes, shard: { index: count, count } });
    expect(divide(15, 1)).toThrow(/15 steps; a context of 12 and a horizon of 4 need at least 20/);
    expect(divide(40, 9)).toThrow(/no windows for shard 9\/9/);
  });
});

it('synthetic series are finite, alike for a seed and different for another', () => {
  const [one, again, other] = [syntheticSeries(1), syntheticSeries(1), syntheticSeries(2)];
  expect(one.values).toEqual(again.values);
  expect(one.values).not.toEqual(other.values);
  expect(one.values.every(Number.isFinite)).toBe(true);
  expect(one.values).toHaveLength(one.steps * one.channels);
});
