/** A trained forecaster or vision transformer, with the data that says how it reads: for whoever shows what it has learned. */
import { ConfigError } from '../../base/errors.ts';
import { forecastsPerNumber, QUANTILES } from '../../model/architectures/patches.ts';
import { type Series, scaled, scaleOf } from '../../model/data/series.ts';
import { asNumbers } from '../../model/forms/table.ts';
import type { ForecasterSpec, VitSpec } from '../../run/spec/model-spec.ts';
import { createTrainer } from '../engine/trainer.ts';
import type { TrainedRun } from '../files/trained-run.ts';
import type { Sources } from './sources.ts';
import { openPictures, openSeries } from './sources.ts';
import { prepareTask } from './task.ts';

type From = Pick<Sources, 'corpus' | 'fixed' | 'onNotice' | 'signal'>;

/** The quantiles of one number, or three times the one forecast. */
export interface Forecast {
  readonly low: number;
  readonly middle: number;
  readonly high: number;
}

export interface SeriesForecast {
  readonly series: Series;
  /** Of each channel, step by step. */
  readonly channels: readonly (readonly Forecast[])[];
}

/** What comes after the end of the series that the run was trained on, or of another one with the same columns. */
export async function forecastSeries(run: TrainedRun, from: From): Promise<SeriesForecast> {
  const { series } = await openSeries(run.settings, from);
  const { model, trainer } = await openTrained<ForecasterSpec>(run, from);
  try {
    const { context, horizon, channels } = model;
    const scale = scaleOf(series, model);
    const window = scaled(series, scale, [series.steps - context, series.steps]);
    const numbers = await trainer.predict(run.values, window);
    const each = forecastsPerNumber(model);
    const at = (step: number, channel: number, quantile: number) =>
      numbers[(step * channels + channel) * each + quantile]! * scale.spread[channel]! +
      scale.mean[channel]!;
    const forecast = (step: number, channel: number): Forecast => {
      const last = each === QUANTILES.length ? each - 1 : 0;
      const [low, high] = [at(step, channel, 0), at(step, channel, last)];
      return { low, middle: at(step, channel, last / 2), high };
    };
    return {
      series,
      channels: Array.from({ length: channels }, (_, channel) =>
        Array.from({ length: horizon }, (_, step) => forecast(step, channel)),
      ),
    };
  } finally {
    await trainer.close();
  }
}

/** A picture as the model reads it, and how likely each class is. */
export interface Guess {
  readonly pixels: Uint8Array;
  readonly shares: readonly number[];
  /** Its class, where that is known. */
  readonly label?: number;
}

export interface Guesses {
  readonly classes: readonly string[];
  readonly model: Pick<VitSpec, 'pixels' | 'channels'>;
  readonly guesses: readonly Guess[];
}

/** What the model makes of a picture, or of some that nobody trained on; `picture` gives its bytes at a size. */
export async function guessPictures(
  run: TrainedRun,
  from: From,
  {
    picture,
    count,
  }: { readonly picture?: (model: VitSpec) => Promise<Uint8Array>; readonly count: number },
): Promise<Guesses> {
  const { pictures } = await openPictures(run.settings, from);
  const { model, trainer, data } = await openTrained<VitSpec>(run, from);
  try {
    const size = model.pixels * model.pixels * model.channels;
    const held = data.kind === 'images' ? data.validation : undefined;
    const shown = picture
      ? [{ pixels: await picture(model) }]
      : Array.from({ length: Math.min(count, held?.labels.length ?? 0) }, (_, i) => ({
          pixels: held!.pixels.subarray(i * size, (i + 1) * size),
          label: held!.labels[i]!,
        }));
    const guesses: Guess[] = [];
    for (const each of shown) {
      const logits = await trainer.predict(run.values, asNumbers(each.pixels));
      guesses.push({ ...each, shares: softmax(logits) });
    }
    return { classes: pictures.classes, model, guesses };
  } finally {
    await trainer.close();
  }
}

function softmax(logits: Float32Array): readonly number[] {
  const most = Math.max(...logits);
  const weights = Array.from(logits, (value) => Math.exp(value - most));
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / all);
}

/** The model that the data is laid out for. Throws a ConfigError (`sample/model`) where the parameters are another's. */
async function openTrained<M extends ForecasterSpec | VitSpec>(run: TrainedRun, from: From) {
  const settings = { ...run.settings, shard: { index: 1, count: 1 } };
  const task = await prepareTask(settings, from);
  const trainer = await createTrainer({ ...task, batch: 1, device: 'cpu', threads: 1 });
  if (trainer.layout.size === run.layout.size) return { ...task, model: task.model as M, trainer };
  await trainer.close();
  const sizes = `${run.layout.size} parameters; for this data the model has ${trainer.layout.size}`;
  throw new ConfigError('sample/model', `${run.path} holds ${sizes}`, {
    hint: 'name the data it was trained on (--corpus), and its sizes as they were',
  });
}
