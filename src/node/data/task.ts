/** Prepares a task from settings: the model sized to its data, the optimizer, and this worker's part of the data. */
import { join } from 'node:path';
import { ConfigError } from '../../base/errors.ts';
import type { DataForm } from '../../model/architectures/architecture.ts';
import { type AnyModel, dataFormOf } from '../../model/architectures/table.ts';
import { dividePictures } from '../../model/data/pictures.ts';
import { asRows, dealRows, syntheticRows } from '../../model/data/regression.ts';
import { divideSeries } from '../../model/data/series.ts';
import { type Tokenizer, tokenizers } from '../../model/data/tokens.ts';
import {
  gptSpec,
  inputOf,
  optimizerOf,
  patchModel,
  sizeSettings,
} from '../../model/from-settings.ts';
import { type EventSize, estimateEventSize } from '../../network/wire/cost.ts';
import { type FormName, formOf, isImported } from '../../run/data-forms.ts';
import type { Settings } from '../../run/settings.ts';
import type { Layout } from '../../tensor/params.ts';
import type { TrainerSetup } from '../../trainer/setup.ts';
import { mostChunks } from '../../worker/chunk-assignment.ts';
import { dataHome } from '../files/data-home.ts';
import { type BaseModel, openBase } from '../pretrained/base-model.ts';
import { type ImportedTask, openImportedTask } from '../pretrained/imported-file.ts';
import type { Protocol } from '../protocol.ts';
import { openNamedCorpus, openPictures, openSeries, readRows, type Sources } from './sources.ts';
import { builtInForm, prepareTokens, publishedForm } from './token-parts.ts';

export interface Task extends Pick<TrainerSetup, 'model' | 'optimizer' | 'data'> {
  readonly name: string;
  /** Tokens per example; 1 if examples are rows. */
  readonly tokensPerExample: number;
  readonly text?: {
    readonly tokenizer: Tokenizer;
    /** Average over the validation part; converts loss per token to bits per byte. */
    readonly bytesPerToken: number;
  };
  /** The published model that is trained, in full or by adapters. */
  readonly base?: BaseModel;
  /** The ONNX file that is trained. */
  readonly imported?: ImportedTask;
  /** Tensors of the model that are not trained. */
  readonly frozen?: BaseModel['frozen'];
}

type Prepare = (settings: Settings, sources: Sources) => Promise<Omit<Task, 'optimizer'>>;

/** Returns settings that describe the data of an imported model by the built-in model of the same form. */
const asPatches = (settings: Settings, model: 'forecaster' | 'vit'): Settings => ({
  ...settings,
  model,
});

/** Prepares the task of each form of data. */
const prepares: Readonly<Record<FormName, Prepare>> = {
  tokens: async (settings, sources) => {
    const { base: opened, openBase: open = openBase, fixed = {} } = sources;
    const isPublished = settings.model === 'pretrained';
    const base = isPublished
      ? ((opened as BaseModel) ?? (await open(settings, sources)))
      : undefined;
    const textTokenizer = tokenizers[settings.tokens];
    const form = base
      ? publishedForm(base.pretrained, base.tokenizerSha256)
      : builtInForm(textTokenizer);
    const { context, shard, model: name } = settings;
    const { data, bytesPerToken } = await prepareTokens(await openNamedCorpus(sources), form, {
      context,
      shard,
      onNotice: sources.onNotice,
      signal: sources.signal,
      folder: join(dataHome(), 'corpora'),
      form: fixed.form ?? 'interleaved',
      evaluation: fixed.evaluation,
    });
    return {
      name,
      model: base?.model ?? gptSpec(settings, textTokenizer.vocabulary),
      data,
      tokensPerExample: context,
      text: { tokenizer: form.tokenizer, bytesPerToken },
      ...(base && { base, frozen: base.frozen }),
    };
  },
  // the named file, or synthetic rows from the seed; those after the last shard are for validation
  rows: async ({ model: name, hidden, seed, shard }, { dataset, target }) => {
    const { rows, validation } =
      dataset === undefined
        ? syntheticRows({ seed, shard })
        : dealRows(await readRows(dataset, target), shard);
    const { features } = rows;
    const data = {
      kind: 'regression',
      features,
      ...asRows(rows),
      ...(validation && { validation: asRows(validation) }),
    } as const;
    const model: AnyModel =
      name === 'linear'
        ? { architecture: 'linear', features }
        : { architecture: 'mlp', features, hidden };
    return { name, model, data, tokensPerExample: 1 };
  },
  series: async (settings, sources) => {
    const { series, holdout } = await openSeries(settings, sources);
    const form = sources.fixed?.form ?? 'interleaved';
    const { channels } = series;
    return {
      name: settings.model,
      model: patchModel(settings, inputOf(asPatches(settings, 'forecaster'), { channels })!),
      data: divideSeries(series, { ...settings, form, holdout }),
      tokensPerExample: 1,
    };
  },
  images: async (settings, sources) => {
    const { pictures, holdout } = await openPictures(settings, sources);
    const { channels, classes } = pictures;
    return {
      name: settings.model,
      model: patchModel(
        settings,
        inputOf(asPatches(settings, 'vit'), { channels, classes: classes.length })!,
      ),
      data: dividePictures(pictures, settings.shard, holdout),
      tokensPerExample: 1,
    };
  },
};

export async function prepareTask(settings: Settings, sources: Sources): Promise<Task> {
  const optimizer = optimizerOf(settings);
  if (isImported(settings)) return { ...(await prepareImported(settings, sources)), optimizer };
  const task = await prepares[formOf(settings)](settings, sources);
  return { ...task, optimizer };
}

/** Prepares the data for a model from an ONNX file, whose graph has the sizes of its input. */
async function prepareImported(
  settings: Settings,
  sources: Sources,
): Promise<Omit<Task, 'optimizer'>> {
  const { base, fixed } = sources;
  const imported = base && 'packed' in base ? base : await openImportedTask(settings, fixed?.start);
  const { model, frozen } = imported;
  const { data: form } = model;
  const sized = { ...settings, ...sizeSettings(form) };
  const task = await prepares[formOf(settings)](sized, sources);
  assertSizes(form, task);
  return { ...task, model, frozen, imported };
}

/** Throws `onnx/data` if the data has other sizes than the graph. */
function assertSizes(form: DataForm, { model, text }: Pick<Task, 'model' | 'text'>): void {
  const own = dataFormOf(model);
  const wrong = (what: string, actual: number, wanted: number): ConfigError =>
    new ConfigError('onnx/data', `the data has ${actual} ${what}; the model reads ${wanted}`, {
      hint: 'export a model for this data, or name other data',
    });
  if (form.kind === 'images' && own.kind === 'images') {
    if (own.channels !== form.channels) throw wrong('channels', own.channels, form.channels);
    if (own.classes > form.classes) throw wrong('classes', own.classes, form.classes);
  }
  if (form.kind === 'rows' && own.kind === 'rows' && own.features !== form.features) {
    throw wrong('columns', own.features, form.features);
  }
  if (form.kind === 'series' && own.kind === 'series' && own.channels !== form.channels) {
    throw wrong('channels', own.channels, form.channels);
  }
  if (form.kind === 'tokens' && (text?.tokenizer.vocabulary ?? 0) > form.vocabulary) {
    throw wrong('kinds of tokens', text!.tokenizer.vocabulary, form.vocabulary);
  }
}

/** Returns the number of workers that the settings imply. */
export const expectedWorkers = ({ sync, shard, waitFor }: Settings): number =>
  sync.strategy === 'strict' ? sync.workers : Math.max(1, shard.count, waitFor);

export function largestEvent(
  settings: Settings,
  layout: Layout,
  {
    sizes,
    workers = expectedWorkers(settings),
  }: Pick<Protocol, 'sizes'> & { readonly workers?: number },
): EventSize {
  const { run, packing, eventBudget, owners, fragments } = settings;
  if (sizes) return sizes.largestEvent(run, layout);
  const most = mostChunks({ size: layout.size, owners, fragments }, workers);
  return estimateEventSize({ run, size: layout.size, packing, eventBudget, most });
}
