/** Windows of a series of numbers, and the steps after each, which are to be forecast. */
import type { SeriesForm } from '../architectures/architecture.ts';
import { ANY } from '../graph/value.ts';
import { add, gather, reshape, slice } from '../graph/verbs.ts';
import { type Data, type DataName, type FormRules, refuseMasked, unfit } from './form.ts';

/** A stretch of a series, and where in it windows begin. */
export interface SeriesPart {
  /** Step after step, the number of each channel. */
  readonly values: Float32Array;
  /** Steps, ascending. */
  readonly starts: Int32Array;
}

/** The windows of a worker, and those it evaluates on. */
export interface SeriesData {
  readonly kind: 'series';
  readonly channels: number;
  readonly shard: SeriesPart;
  readonly validation: SeriesPart;
}

/** Windows to evaluate on where there are so many, even if they overlap. */
const FEW = 32;

export const series = ({ channels, context, horizon }: SeriesForm): FormRules<SeriesData> => ({
  data: 'series',
  says: `series of ${channels} channels`,
  tokensPerRow: 1,
  inputs: () => ['series'],
  open: (graph, reading) => {
    refuseMasked(reading);
    const steps = context + horizon;
    const values = graph.input('series', { dtype: reading.dtype, shape: [ANY, channels] });
    const places = graph.constant({ dtype: 'i32', shape: [1, steps] }, [...Array(steps).keys()]);
    return (rows) => {
      const windows = gather(values, add(reshape(rows, [rows.shape[0]!, 1]), places)); // (B, T + H, C)
      return {
        inputs: slice(windows, 1, 0, context),
        targets: slice(windows, 1, context, steps),
      };
    };
  },
  single: (dtype) => ({ dtype, shape: [1, context, channels] }),
  hold: (data) => {
    if (data.channels !== channels) {
      throw unfit(`the series has ${data.channels} channels, the model ${channels}`);
    }
    check(data.shard, 'shard', { channels, steps: context + horizon });
    check(data.validation, 'validation', { channels, steps: context + horizon });
    const feeds = ({ values }: SeriesPart): Data => {
      const held = { elements: values, shape: [values.length / channels, channels] };
      return { kind: 'feeds', feeds: { series: held }, window: context + horizon };
    };
    const place = (on: DataName, rows: Int32Array) => rows.map((row) => data[on].starts[row]!);
    return {
      feeds: { shard: feeds(data.shard), validation: feeds(data.validation) },
      masked: false,
      bound: (on) => data[on].starts.length,
      // of a short series windows overlap, so that its loss is of more than two or three of them
      stride: Math.max(1, Math.min(horizon, Math.floor(data.validation.starts.length / FEW))),
      place,
      spread: place,
    };
  },
  anything: () => {
    const length = (context + horizon) * channels;
    const values = Float32Array.from({ length }, (_, i) => Math.sin(i));
    const part = { values, starts: Int32Array.of(0) };
    return { kind: 'series', channels, shard: part, validation: part };
  },
});

function check(
  { values, starts }: SeriesPart,
  name: string,
  { channels, steps }: { readonly channels: number; readonly steps: number },
): void {
  const length = values.length / channels;
  const isInside = starts.every((at) => at >= 0 && at + steps <= length);
  if (starts.length > 0 && Number.isSafeInteger(length) && isInside) return;
  throw unfit(
    `the ${name} part has ${Math.floor(length)} steps and ${starts.length} windows; a window is ${steps} steps`,
    'use a longer series, fewer workers, or a smaller context or horizon',
  );
}
