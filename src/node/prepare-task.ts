/** From settings to something to train: the model's numbers, the optimizer's, and this worker's data. */
import { join } from 'node:path';
import type { AnyModel } from '../model/architectures/table.ts';
import { asRows, dealRows, madeRows } from '../model/data/regression.ts';
import type { ShardForm } from '../model/data/text.ts';
import { type Tokenizer, tokenizers } from '../model/data/tokenizer.ts';
import type { TrainerData } from '../model/forms/table.ts';
import { gptSpec, optimizerOf } from '../model/from-settings.ts';
import { type EventSize, estimateEventSize } from '../network/wire/event-size.ts';
import { measureGradient } from '../python/wire/sizes.ts';
import type { ModelSpec, OptimizerSpec } from '../run/model-spec.ts';
import { isOfText, type Settings } from '../run/settings.ts';
import type { Layout } from '../tensor/params.ts';
import type { Stretch } from '../tensor/partial-vector.ts';
import { mostChunks } from '../worker/chunk-assignment.ts';
import { type BaseModel, openBase } from './base-model.ts';
import { openCorpus } from './corpus.ts';
import { dataHome } from './data-home.ts';
import { readRows } from './dataset-file.ts';
import { builtInForm, prepareTokens, publishedForm } from './tokens/prepare.ts';
import type { CorpusForm } from './tokens/tokenize.ts';

export interface Task {
  readonly name: string;
  readonly model: AnyModel;
  readonly optimizer: OptimizerSpec;
  readonly data: TrainerData;
  /** Tokens in one example; 1 where examples are rows. */
  readonly tokensPerExample: number;
  readonly text?: {
    readonly tokenizer: Tokenizer;
    /** Of the validation part: what its loss per token is as bits per byte. */
    readonly bytesPerToken: number;
  };
  /** The published model that is trained, or whose adapters are. */
  readonly base?: BaseModel;
  /** The tensors of the model that are not trained. */
  readonly frozen?: BaseModel['frozen'];
}

export interface Sources {
  /** A text or .jsonl file to train on, or the https address of one. */
  readonly corpus?: string | undefined;
  /** A regression dataset, as CSV or in the reference's JSON form. */
  readonly dataset?: string | undefined;
  /** The column of a CSV that is to be predicted. */
  readonly target?: string | undefined;
  /** What a run spec says of the data. */
  readonly fixed?: FixedData | undefined;
  /** The base of the settings, where it is open already. */
  readonly base?: BaseModel | undefined;
  readonly onNotice: (message: string) => void;
  readonly signal: AbortSignal;
}

export interface FixedData {
  /** The one text that everybody trains on. */
  readonly sha256?: string;
  /** Where it is, by whoever made the run; nothing is fetched from there unasked. */
  readonly from?: string;
  readonly form?: ShardForm;
  /** A text that everybody evaluates on; all of the own one is then for training. */
  readonly evaluation?: Uint8Array;
}

/** Reads the data and sizes the model to it. */
export async function prepareTask(settings: Settings, sources: Sources): Promise<Task> {
  const optimizer = optimizerOf(settings);
  if (settings.model === 'pretrained') {
    const base = sources.base ?? (await openBase(settings, sources));
    const { model, frozen, pretrained, tokenizerSha256 } = base;
    const form = publishedForm(pretrained, tokenizerSha256);
    return {
      ...(await prepareText(settings, sources, { model, form })),
      optimizer,
      base,
      frozen,
    };
  }
  if (isOfText(settings)) {
    const tokenizer = tokenizers[settings.tokens];
    const model = gptSpec(settings, tokenizer.vocabulary);
    const form = builtInForm(tokenizer);
    return { ...(await prepareText(settings, sources, { model, form })), optimizer };
  }
  return { ...(await prepareRegression(settings, sources)), optimizer };
}

async function prepareRegression(
  settings: Settings,
  sources: Sources,
): Promise<Omit<Task, 'optimizer'>> {
  const { own, validation } = await regressionData(settings, sources);
  const { features } = own;
  const model: ModelSpec =
    settings.model === 'linear'
      ? { architecture: 'linear', features }
      : { architecture: 'mlp', features, hidden: settings.hidden };
  const held = validation && { validation: asRows(validation) };
  const data = { kind: 'regression', features, ...asRows(own), ...held } as const;
  return { name: settings.model, model, data, tokensPerExample: 1 };
}

/** This worker's rows of a file, or made-up ones, of which those past the last shard are for validation. */
async function regressionData({ seed, shard }: Settings, { dataset, target }: Sources) {
  if (dataset !== undefined) return dealRows(await readRows(dataset, target), shard);
  return madeRows({ seed, shard });
}

interface TextModel {
  readonly model: AnyModel;
  readonly form: CorpusForm;
}

async function prepareText(
  settings: Settings,
  sources: Sources,
  { model, form }: TextModel,
): Promise<Omit<Task, 'optimizer'>> {
  const { onNotice, signal, fixed = {} } = sources;
  const corpus = await openCorpus({
    file: sources.corpus,
    wanted: fixed.sha256,
    from: fixed.from,
    cacheDir: join(dataHome(), 'corpora'),
    allowDownload: true,
    onNotice,
    signal,
  });
  const { context, shard } = settings;
  const { data, bytesPerToken } = await prepareTokens(corpus, form, {
    ...{ context, shard, onNotice, signal, folder: join(dataHome(), 'corpora') },
    form: fixed.form ?? 'interleaved',
    evaluation: fixed.evaluation,
  });
  return {
    name: settings.model,
    model,
    data,
    tokensPerExample: context,
    text: { tokenizer: form.tokenizer, bytesPerToken },
  };
}

/** How many workers the settings speak of. */
export const expectedWorkers = ({ sync, shard, waitFor }: Settings): number =>
  sync.strategy === 'strict' ? sync.workers : Math.max(1, shard.count, waitFor);

/** The largest event that a worker of these settings will send. */
export function largestEvent(
  settings: Settings,
  { layout, turns }: { readonly layout: Layout; readonly turns: readonly Stretch[] },
  workers = expectedWorkers(settings),
): EventSize {
  const { profile, run, packing, eventBudget, owners, fragments, topk: ratio } = settings;
  if (profile === 'nostrain/0') return measureGradient(run, layout, ratio);
  const most = mostChunks({ size: layout.size, owners, fragments, turns }, workers);
  return estimateEventSize({ run, size: layout.size, packing, eventBudget, most, ratio });
}
