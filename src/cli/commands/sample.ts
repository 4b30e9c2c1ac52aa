/** `nostrain sample`: shows what a trained or published model generates: text, a forecast, or picture classes. */

import type { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { createSlowReporter, whileSlow } from '../../base/slow.ts';
import { createTextStream } from '../../model/sample.ts';
import { createChatRenderer } from '../../node/data/chat-renderer.ts';
import { readPicture } from '../../node/data/sources.ts';
import {
  forecastSeries,
  guessPictures,
  openGptWriter,
  openPublishedWriter,
  openTrainedBase,
  readTrainedRun,
  type SeriesForecast,
  type TextWriter,
  type TrainedRun,
} from '../../node/files/trained-run.ts';
import { keptSlice } from '../../node/join/find-run.ts';
import { type BaseModel, openBase } from '../../node/pretrained/base-model.ts';
import { isImported } from '../../run/data-forms.ts';
import { type PartialSettings, settingNames } from '../../run/settings.ts';
import { defineCommand } from '../../terminal/command.ts';
import {
  type FlagValues,
  numeric,
  settingFlags,
  text,
  toggle,
  whole,
  withDefault,
} from '../../terminal/flag-table.ts';
import { refuseUnused, settingsFromFlags } from '../../terminal/options.ts';
import { writeNote, writeOut, writeResult } from '../../terminal/output.ts';
import { bar, forecastChart, pictureLines } from '../../terminal/render/forecast.ts';

const DEFAULT_SEED = 1;

const sampleFlags = {
  prompt: withDefault(text('<text>', 'text to continue'), '\n'),
  chat: toggle('send the prompt as a user message, using the chat template of the model'),
  length: withDefault(whole('<n>', 'maximum tokens to generate', 1, 1_000_000), 400),
  temperature: withDefault(
    numeric('<x>', 'randomness; 0 always takes the likeliest token', 0, 100),
    0.8,
  ),
  topP: withDefault(
    numeric('<x>', 'sample from the most likely tokens that together have this probability', 0, 1),
    1,
  ),
  topK: withDefault(whole('<n>', 'sample from the n most likely tokens; 0 for all', 0), 0),
  threads: whole('<n>', 'threads of the engine (default: all cores)', 1, 1024),
  ...settingFlags([
    'base',
    'rank',
    'alpha',
    'targets',
    'seed',
    'basePrecision',
    'tokens',
    'width',
    'layers',
    'heads',
    'context',
    'ffn',
    'tiers',
    'tier',
    'helperRotation',
    'experts',
    'expertsPerToken',
    'groups',
  ]),
  corpus: text(
    '<path>',
    'forecaster, vit: CSV file or picture folder of the run, unless its data is synthetic',
  ),
  without: text('<group>', 'leave out the experts of this group, in a run with groups'),
  picture: text('<file>', 'vit: PNG or JPEG to classify'),
  output: {
    ...text('<file>', 'write to this file instead of stdout (a forecast as CSV)'),
    short: 'o',
  },
};

type SampleFlags = FlagValues<typeof sampleFlags>;

export const sample = defineCommand({
  name: 'sample',
  help:
    'show what a run has learned: text, a forecast or picture classes; or generate text with ' +
    'a published model (--base)',
  args: [['[state]', 'name of a run (`nostrain runs`), its folder, or a state file']],
  flags: sampleFlags,
  async run(flags, { args: [named], signal, command }) {
    const given = settingsFromFlags(command);
    const run = named === undefined ? undefined : await readTrainedRun(named, given);
    if (run && (await showOther(run, flags, command, signal))) return;
    refuseUnused(command, OF_PATCHES);
    const opened = await whileSlow('loading the model', writeNote, () =>
      open(run, given, flags, signal),
    );
    try {
      await write(opened, flags, signal);
    } finally {
      await opened.writer.close();
    }
  },
});

/** Flags that text models do not use. */
const OF_PATCHES = [
  { flags: ['corpus', 'picture'], goesWith: '--model forecaster and vit', holds: false },
];

/** Shows the output of a model that is not a text model; returns false if it is one. */
async function showOther(
  run: TrainedRun,
  flags: SampleFlags,
  command: Command,
  signal: AbortSignal,
): Promise<boolean> {
  const { model } = run.settings;
  if (model !== 'forecaster' && model !== 'vit') return false;
  const names = command.options.map((option) => option.attributeName());
  const isSetting = (name: string) => settingNames.some((each) => each === name);
  assertTakes(
    run,
    names.filter((name) => command.getOptionValueSource(name) === 'cli' && !isSetting(name)),
  );
  const evaluation = run.isFolder ? await keptSlice(run.path) : undefined;
  const request = { ...flags, evaluation, signal };
  if (model === 'vit') await showGuesses(run, request);
  else await showForecast(run, request);
  return true;
}

interface Opened {
  readonly writer: TextWriter;
  /** Undefined for a model trained from random parameters. */
  readonly base: BaseModel | undefined;
  readonly seed: number;
}

async function open(
  run: TrainedRun | undefined,
  given: PartialSettings,
  { threads, without }: Pick<SampleFlags, 'threads' | 'without'>,
  signal: AbortSignal,
): Promise<Opened> {
  const options = { onNotice: writeNote, signal };
  if (run === undefined) {
    const { base: from = '', seed = DEFAULT_SEED, basePrecision = 'f32' } = given;
    if (from === '') {
      throw new ConfigError('flag/state', 'name a run, or use --base for a published model', {
        hint: '`nostrain runs` lists the runs on this machine',
      });
    }
    const untrained = { rank: 0, alpha: 1, targets: 'qv' };
    const base = await openBase({ base: from, seed, basePrecision, ...untrained }, options);
    return { writer: await openPublishedWriter(base, await base.first(seed), threads), base, seed };
  }
  const { seed } = run.settings;
  if (isImported(run.settings)) {
    throw new ConfigError('sample/model', `${run.path} holds a model from an .onnx file`, {
      hint: 'use it with onnxruntime: `nostrain model export RUN --onnx FILE`',
    });
  }
  if (run.settings.model !== 'pretrained') {
    return { writer: await openGptWriter(run, threads, without), base: undefined, seed };
  }
  if (without !== undefined) {
    throw new ConfigError('flag/without', 'a published model has no groups of experts', {
      hint: 'leave out --without',
    });
  }
  const { base, values } = await openTrainedBase(run, options);
  return { writer: await openPublishedWriter(base, values, threads), base, seed };
}

/** Prints the text as it is generated, or collects it for the file. */
async function write(
  { writer, base, seed }: Opened,
  { prompt, chat, output, ...choice }: SampleFlags,
  signal: AbortSignal,
): Promise<void> {
  const { tokenizer } = writer;
  const ends = endsOf(base);
  const promptTokens = chat ? await question(base, prompt) : plain(writer, base, prompt);
  const stream = createTextStream((tokens) => tokenizer.decode(tokens));
  let text = '';
  const show = (part: string) => {
    if (output === undefined) writeOut(part);
    else text += part;
  };
  if (!chat) show(prompt.trimStart());
  const request = { ...choice, prompt: promptTokens, seed, ends, signal };
  const slowly = createSlowReporter(output === undefined ? () => undefined : writeNote);
  let count = 0;
  await writer.write(request, (token) => {
    slowly(`${++count} tokens written`);
    if (!ends.has(token)) show(stream.push(token));
  });
  show(`${stream.end()}\n`);
  if (output !== undefined) await writeResult(text, output);
}

/** Returns the tokens of the prompt, after the begin tokens that the model expects. */
const plain = (
  { tokenizer }: TextWriter,
  base: BaseModel | undefined,
  prompt: string,
): readonly number[] => [
  ...(base?.tokenizer.begin ?? []),
  ...Array.from(tokenizer.encode(prompt).tokens),
];

async function question(base: BaseModel | undefined, prompt: string): Promise<readonly number[]> {
  const template = base?.pretrained.chatTemplate;
  if (!base || template === undefined) {
    const name = base?.name ?? 'a model trained from random parameters';
    throw new ConfigError('sample/chat', `${name} has no chat template`, {
      hint: 'leave out --chat, or use a chat model',
    });
  }
  const { config } = base.pretrained.tokenizerFiles;
  const renderer = createChatRenderer({ template, config });
  try {
    const text = await renderer.ask([{ role: 'user', content: prompt }]);
    return base.tokenizer.ids(text);
  } finally {
    await renderer.close();
  }
}

/** Returns the end-of-text tokens that the model's files declare. */
function endsOf(base: BaseModel | undefined): ReadonlySet<number> {
  if (!base) return new Set();
  const { eos_token_id: ids } = base.pretrained.config;
  const numbers = [ids].flat().filter((id) => typeof id === 'number');
  return new Set([...numbers, ...base.tokenizer.end]);
}

interface SampleRequest extends Pick<SampleFlags, 'corpus' | 'picture' | 'output'> {
  /** Evaluation data of the run, if each worker has its own training data. */
  readonly evaluation?: Uint8Array | undefined;
  readonly signal: AbortSignal;
}

const SIZE = { width: 78, height: 9 };
/** Number of pictures shown if none is named, and of classes for each. */
const SHOWN = 4;
const LIKELIEST = 5;

/** Draws charts of all channels on the terminal, or writes the numbers to a CSV file. */
async function showForecast(
  run: TrainedRun,
  { corpus, output, evaluation, signal }: SampleRequest,
): Promise<void> {
  const fixed = evaluation && { evaluation };
  const forecast = await forecastSeries(run, { corpus, fixed, onNotice: writeNote, signal });
  if (output !== undefined) return writeResult(asCsv(forecast), output);
  const { series, channels } = forecast;
  const isSure = channels.every((steps) => steps.every(({ low, high }) => low === high));
  writeOut(
    `• observed   o the next ${channels[0]!.length} steps` +
      `${isSure ? '' : ', : quantiles 0.1 to 0.9'}\n`,
  );
  channels.forEach((expected, channel) => {
    const observed = Array.from(
      { length: series.steps },
      (_, step) => series.values[step * series.channels + channel]!,
    );
    const lines = forecastChart(observed, expected, SIZE);
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

/** Shows the named picture, or some held-out ones, with the most likely classes. */
async function showGuesses(
  run: TrainedRun,
  { corpus, picture, evaluation, signal }: SampleRequest,
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
      const share = `${(100 * shares[i]!).toFixed(1).padStart(5)} %`;
      return `${bar(shares[i]!, 12)} ${share} ${classes[i]}${mark}`;
    });
    const height = Math.max(lines.length, words.length);
    const rows = Array.from({ length: height }, (_, i) =>
      `${lines[i] ?? ' '.repeat(2 * model.pixels)}  ${words[i] ?? ''}`.trimEnd(),
    );
    writeOut(`${rows.join('\n')}\n\n`);
  }
}

/** Throws `flag/unused` at the first flag of another model. */
function assertTakes(run: TrainedRun, typed: readonly string[]): void {
  const { model } = run.settings;
  const takes = model === 'vit' ? ['corpus', 'picture'] : ['corpus', 'output'];
  const odd = typed.find((name) => !takes.includes(name));
  if (odd === undefined) return;
  const flag = odd.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new ConfigError('flag/unused', `--${flag} goes with other models than ${model}`, {
    hint: `a ${model} accepts ${takes.map((name) => `--${name}`).join(' and ')}`,
  });
}
