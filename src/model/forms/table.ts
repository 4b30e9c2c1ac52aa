/**
 * The forms of training data (rows, series, pictures; tokens are in `tokens.ts`): for each form the graph inputs, and
 * the checks of the data. To add one, add a line to the table and to `DataForm`.
 */
import type { DataForm, ImageForm, RowForm, SeriesForm } from '../architectures/architecture.ts';
import { type AnyModel, dataFormOf } from '../architectures/table.ts';
import { ANY } from '../graph/rule.ts';
import { add, cast, gather, mul, reshape, slice, sub } from '../graph/verbs.ts';
import {
  type CheckedData,
  type Data,
  type DataHolder,
  type DataName,
  type FormRules,
  refuseMasked,
  unfit,
} from './form.ts';
import { type TokenData, tokens } from './tokens.ts';

interface Rows {
  /** Inputs in row-major order. */
  readonly inputs: Float32Array;
  readonly targets: Float32Array;
}

/** A worker's rows, and the validation rows. */
export interface RowData extends Rows {
  readonly kind: 'regression';
  readonly features: number;
  readonly validation?: Rows;
}

const rows = ({ features }: RowForm): FormRules<RowData> => ({
  data: 'regression',
  says: `rows of ${features} features`,
  tokensPerRow: 1,
  open: (graph, reading) => {
    refuseMasked(reading);
    const { dtype } = reading;
    const inputs = graph.input('inputs', { dtype, shape: [ANY, features] });
    const targets = graph.input('targets', { dtype, shape: [ANY] });
    return (at) => ({ inputs: gather(inputs, at), targets: gather(targets, at) });
  },
  single: (dtype) => ({ dtype, shape: [1, features] }),
  hold: (data) => {
    if (data.features !== features) throw unfit(`the model trains on rows of ${features} features`);
    const { validation } = data;
    checkRows(data, features, '');
    if (validation) checkRows(validation, features, 'validation ');
    return {
      feeds: {
        shard: feedsOf(data, features),
        ...(validation && { validation: feedsOf(validation, features) }),
      },
      masked: false,
      bound: (on) => (on === 'shard' ? data : validation)?.targets.length ?? 0,
      stride: 1,
      offsetsOf: (_, at) => at,
      evaluationRows: (_, at) => at,
    };
  },
  anything: () => {
    const inputs = Float32Array.from({ length: 16 * features }, (_, i) => Math.sin(i));
    return { kind: 'regression', features, inputs, targets: new Float32Array(16).fill(1) };
  },
});

function feedsOf({ inputs, targets }: Rows, features: number): Data {
  const shape = [targets.length, features];
  const wanted = { elements: targets, shape: [targets.length] };
  const feeds = { inputs: { elements: inputs, shape }, targets: wanted };
  return { kind: 'feeds', feeds, window: 1 };
}

function checkRows({ inputs, targets }: Rows, features: number, of: string): void {
  if (targets.length === 0)
    throw unfit(`the ${of}data has no rows`, 'use data with at least one row');
  const needed = targets.length * features;
  if (inputs.length === needed) return;
  throw unfit(
    `${of}inputs has ${inputs.length} numbers; ${targets.length} targets of ${features} ` +
      `features need ${needed}.`,
  );
}

/** A range of a series, and the steps at which windows begin. */
export interface SeriesPart {
  /** Values of each step, channel by channel. */
  readonly values: Float32Array;
  /** First step of each window, ascending. */
  readonly starts: Int32Array;
}

/** A worker's windows, and the validation windows. */
export interface SeriesData {
  readonly kind: 'series';
  readonly channels: number;
  readonly shard: SeriesPart;
  readonly validation: SeriesPart;
}

/** Minimum windows to evaluate on, if available; they may overlap then. */
const FEW = 32;

const series = ({ channels, context, horizon }: SeriesForm): FormRules<SeriesData> => ({
  data: 'series',
  says: `series of ${channels} channels`,
  tokensPerRow: 1,
  open: (graph, reading) => {
    refuseMasked(reading);
    const steps = context + horizon;
    const values = graph.input('series', { dtype: reading.dtype, shape: [ANY, channels] });
    const offsets = graph.constant({ dtype: 'i32', shape: [1, steps] }, [...Array(steps).keys()]);
    return (rows) => {
      // (B, T + H, C)
      const windows = gather(values, add(reshape(rows, [rows.shape[0]!, 1]), offsets));
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
    checkSeries(data.shard, 'shard', { channels, steps: context + horizon });
    checkSeries(data.validation, 'validation', { channels, steps: context + horizon });
    const feeds = ({ values }: SeriesPart): Data => {
      const feed = { elements: values, shape: [values.length / channels, channels] };
      return { kind: 'feeds', feeds: { series: feed }, window: context + horizon };
    };
    const offsetsOf = (on: DataName, rows: Int32Array) => rows.map((row) => data[on].starts[row]!);
    return {
      feeds: { shard: feeds(data.shard), validation: feeds(data.validation) },
      masked: false,
      bound: (on) => data[on].starts.length,
      // in a short series windows overlap, so that the loss covers more than two or three
      stride: Math.max(1, Math.min(horizon, Math.floor(data.validation.starts.length / FEW))),
      offsetsOf,
      evaluationRows: offsetsOf,
    };
  },
  anything: () => {
    const length = (context + horizon) * channels;
    const values = Float32Array.from({ length }, (_, i) => Math.sin(i));
    const part = { values, starts: Int32Array.of(0) };
    return { kind: 'series', channels, shard: part, validation: part };
  },
});

function checkSeries(
  { values, starts }: SeriesPart,
  name: string,
  { channels, steps }: { readonly channels: number; readonly steps: number },
): void {
  const length = values.length / channels;
  const isInside = starts.every((at) => at >= 0 && at + steps <= length);
  if (starts.length > 0 && Number.isSafeInteger(length) && isInside) return;
  throw unfit(
    `the ${name} part has ${Math.floor(length)} steps and ${starts.length} windows; a window is ` +
      `${steps} steps`,
    'use a longer series, fewer workers, or a smaller context or horizon',
  );
}

/** Pictures, one after the other, row by row, pixel by pixel; and their classes. */
export interface ImagePart {
  readonly pixels: Uint8Array;
  readonly labels: Int32Array;
}

/** A worker's pictures, and the validation pictures. */
export interface ImageData {
  readonly kind: 'images';
  readonly shard: ImagePart;
  readonly validation: ImagePart;
}

/** Pixels counted as one token of work: with 8, ResNet-18 trains in parts of 8 pictures of 32 x 32, its fastest. */
const PIXELS_PER_TOKEN = 8;

/** Half of the largest byte: 0 becomes -1, 255 becomes 1. */
const HALF = 127.5;

const images = ({ pixels, channels, classes }: ImageForm): FormRules<ImageData> => {
  const shape = [pixels, pixels, channels];
  const size = pixels * pixels * channels;
  return {
    data: 'images',
    says: `pictures of ${pixels} x ${pixels} pixels`,
    tokensPerRow: 1,
    workPerRow: (pixels * pixels) / PIXELS_PER_TOKEN,
    open: (graph, reading) => {
      refuseMasked(reading);
      const { dtype } = reading;
      const bytes = graph.input('pixels', { dtype: 'u8', shape: [ANY, ...shape] });
      const labels = graph.input('labels', { dtype: 'i32', shape: [ANY] });
      return (rows) => ({
        inputs: sub(mul(cast(gather(bytes, rows), dtype), 1 / HALF), 1),
        targets: gather(labels, rows),
      });
    },
    single: (dtype) => ({ dtype, shape: [1, ...shape] }),
    hold: (data) => {
      const feeds = (part: ImagePart): Data => ({
        kind: 'feeds',
        feeds: {
          pixels: { elements: part.pixels, shape: [part.labels.length, ...shape] },
          labels: { elements: part.labels, shape: [part.labels.length] },
        },
        window: 1,
      });
      for (const name of ['shard', 'validation'] as const) {
        const { labels, pixels: bytes } = data[name];
        const isKnown = labels.every((label) => label >= 0 && label < classes);
        if (labels.length > 0 && bytes.length === labels.length * size && isKnown) continue;
        throw unfit(
          `the ${name} part has ${bytes.length} bytes and ${labels.length} classes of pictures; ` +
            `one picture is ${size} bytes, of a class below ${classes}`,
          'use more pictures of every class, or fewer workers',
        );
      }
      return {
        feeds: { shard: feeds(data.shard), validation: feeds(data.validation) },
        masked: false,
        bound: (on) => data[on].labels.length,
        stride: 1,
        offsetsOf: (_, rows) => rows,
        evaluationRows: (_, rows) => rows,
      };
    },
    anything: () => {
      const labels = Int32Array.from({ length: 2 * classes }, (_, i) => i % classes);
      const bytes = Uint8Array.from({ length: labels.length * size }, (_, i) => (37 * i) % 256);
      const part = { pixels: bytes, labels };
      return { kind: 'images', shard: part, validation: part };
    },
  };
};

/** Scales bytes like the graph does, for predictions. */
export const asNumbers = (bytes: Uint8Array): Float32Array =>
  Float32Array.from(bytes, (value) => Math.fround(Math.fround(value * Math.fround(1 / HALF)) - 1));

type Kind = DataForm['kind'];
type FormOf = { readonly [K in Kind]: Extract<DataForm, { readonly kind: K }> };

/** The worker's data of each form. */
interface DataOf {
  readonly tokens: TokenData;
  readonly rows: RowData;
  readonly series: SeriesData;
  readonly images: ImageData;
}

const forms: { readonly [K in Kind]: (form: FormOf[K]) => FormRules<DataOf[K]> } = {
  tokens,
  rows,
  series,
  images,
};

/** A worker's data, of any form. */
export type TrainerData = DataOf[Kind];

/** Returns the rules of a form of data. */
export function rulesOf<K extends Kind>(form: FormOf[K] & { readonly kind: K }) {
  return forms[form.kind](form);
}

/** Checks a worker's data. Throws a ConfigError (`training/data`) if it is inconsistent or does not fit the model. */
export function holdData(form: DataForm, data: TrainerData, holder: DataHolder): CheckedData {
  const rules: Omit<FormRules<never>, 'anything'> = rulesOf(form);
  if (data.kind === rules.data) return rules.hold(data as never, holder);
  throw unfit(`a ${holder.model} model trains on ${rules.says}, not on ${kindWords[data.kind]}`);
}

const kindWords: Readonly<Record<TrainerData['kind'], string>> = {
  tokens: 'tokens',
  regression: 'feature rows',
  series: 'a series',
  images: 'pictures',
};

/** Returns the work of a row in tokens, by which batches are divided. */
export function workPerRow(model: AnyModel): number {
  const rules = rulesOf(dataFormOf(model));
  return rules.workPerRow ?? rules.tokensPerRow;
}

/** Returns the tokens per row, for throughput: the context of a text model, else 1. */
export const tokensPerRow = (model: AnyModel): number => rulesOf(dataFormOf(model)).tokensPerRow;
