/** What `nostrain sample` shows of models that write no text: a forecast as a chart, and what pictures are taken for. */
import { ConfigError } from '../../../base/errors.ts';
import {
  forecastSeries,
  guessPictures,
  type SeriesForecast,
} from '../../../node/data/patch-model.ts';
import { readPicture } from '../../../node/data/sources.ts';
import type { TrainedRun } from '../../../node/files/text-writer.ts';
import { writeNote, writeOut, writeResult } from '../../../terminal/output.ts';
import { bar } from '../../../terminal/render/bars.ts';
import { forecastChart, pictureLines } from '../../../terminal/render/forecast.ts';

interface Asked {
  readonly corpus?: string | undefined;
  readonly picture?: string | undefined;
  readonly output?: string | undefined;
  /** What the run evaluates on, where each worker has its own data. */
  readonly evaluation?: Uint8Array | undefined;
  readonly signal: AbortSignal;
}

const SIZE = { width: 78, height: 9 };
/** Pictures that are shown where none is named, and classes of each. */
const SHOWN = 4;
const LIKELIEST = 5;

/** Charts of all channels on the terminal, or the numbers as CSV in a file. */
export async function showForecast(
  run: TrainedRun,
  { corpus, output, evaluation, signal }: Asked,
): Promise<void> {
  const fixed = evaluation && { evaluation };
  const found = await forecastSeries(run, { corpus, fixed, onNotice: writeNote, signal });
  if (output !== undefined) return writeResult(asCsv(found), output);
  const { series, channels } = found;
  const isSure = channels.every((steps) => steps.every(({ low, high }) => low === high));
  writeOut(
    `• what was   o the next ${channels[0]!.length} steps${isSure ? '' : ', : from quantile 0.1 to 0.9'}\n`,
  );
  channels.forEach((expected, channel) => {
    const past = Array.from(
      { length: series.steps },
      (_, step) => series.values[step * series.channels + channel]!,
    );
    const lines = forecastChart(past, expected, SIZE);
    writeOut(`\n${series.names[channel]}\n${lines.join('\n')}\n`);
  });
}

function asCsv({ series, channels }: SeriesForecast): string {
  const isSure = channels.every((steps) => steps.every(({ low, high }) => low === high));
  const names = series.names.map((name) => JSON.stringify(name));
  const heading = names.flatMap((name) =>
    isSure ? [name] : ['0.1', '0.5', '0.9'].map((quantile) => `${name} ${quantile}`),
  );
  const rows = channels[0]!.map((_, step) => [
    timeAfter(series, step + 1),
    ...channels.flatMap((steps) => {
      const { low, middle, high } = steps[step]!;
      return isSure ? [middle] : [low, middle, high];
    }),
  ]);
  return `${[['time', ...heading], ...rows].map((row) => row.join(',')).join('\n')}\n`;
}

function timeAfter({ steps, times }: SeriesForecast['series'], step: number): string {
  const time = times.first + (steps - 1 + step) * times.step;
  if (times.unit === 'number') return String(time);
  const date = times.unit === 'months' ? Date.UTC(Math.floor(time / 12), time % 12) : time;
  return new Date(date).toISOString().replace('T00:00:00.000Z', '');
}

/** The picture that is named, or some that nobody trained on, with what the model takes them for. */
export async function showGuesses(
  run: TrainedRun,
  { corpus, picture, evaluation, signal }: Asked,
): Promise<void> {
  const { classes, model, guesses } = await guessPictures(
    run,
    { corpus, fixed: evaluation && { evaluation }, onNotice: writeNote, signal },
    {
      count: SHOWN,
      ...(picture !== undefined && { picture: (sizes) => readPicture(picture, sizes) }),
    },
  );
  for (const { pixels, shares, label } of guesses) {
    const lines = pictureLines(pixels, model);
    const order = shares.map((_, i) => i).sort((a, b) => shares[b]! - shares[a]!);
    const words = order.slice(0, LIKELIEST).map((i) => {
      const mark = i === label ? ' ✓' : '';
      return `${bar(shares[i]!, 12)} ${(100 * shares[i]!).toFixed(1).padStart(5)} % ${classes[i]}${mark}`;
    });
    const height = Math.max(lines.length, words.length);
    const rows = Array.from({ length: height }, (_, i) =>
      `${lines[i] ?? ' '.repeat(2 * model.pixels)}  ${words[i] ?? ''}`.trimEnd(),
    );
    writeOut(`${rows.join('\n')}\n\n`);
  }
}

/** Flags of other models. Throws `flag/unused` at the first. */
export function assertTakes(run: TrainedRun, typed: readonly string[]): void {
  const { model } = run.settings;
  const takes = model === 'vit' ? ['corpus', 'picture'] : ['corpus', 'output'];
  const odd = typed.find((name) => !takes.includes(name));
  if (odd === undefined) return;
  const flag = odd.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new ConfigError('flag/unused', `--${flag} goes with other models than ${model}`, {
    hint: `a ${model} takes ${takes.map((name) => `--${name}`).join(' and ')}`,
  });
}
