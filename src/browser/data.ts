/** Opens the data that a tab trains on: data named by the spec or chosen by the user, or synthetic examples. */
import { concatBytes } from '../base/bytes.ts';
import { ConfigError } from '../base/errors.ts';
import { sha256Hex } from '../base/hash.ts';
import { parseDocument } from '../model/data/documents.ts';
import { MOST_FILE_BYTES } from '../model/data/picture-file.ts';
import {
  dividePictures,
  gatherPictures,
  packPictures,
  unpackPictures,
} from '../model/data/pictures.ts';
import { writePlay } from '../model/data/playwright.ts';
import { divideSeries, parseSeriesCsv } from '../model/data/series.ts';
import { syntheticData } from '../model/data/synthetic.ts';
import { divideText, type ShardForm } from '../model/data/text.ts';
import { type Tokenizer, tokenizers } from '../model/data/tokens.ts';
import { modelOf } from '../model/from-settings.ts';
import { type FormName, formOf } from '../run/data-forms.ts';
import type { Settings } from '../run/settings.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';
import type { TrainerSetup } from '../trainer/setup.ts';
import type { TabBase } from './base.ts';
import { fetchByChunks } from './base-chunks.ts';
import type { Reach } from './base-files.ts';
import type { Chosen } from './link.ts';
import type { TabStorage } from './storage.ts';

export interface TabTask extends Pick<TrainerSetup, 'model' | 'data'> {
  readonly tokensPerExample: number;
  /** Average over the text; 0 if examples are rows. */
  readonly bytesPerToken: number;
}

export interface TaskSources {
  readonly storage: TabStorage;
  /** Prefix of this worker's names in the storage. */
  readonly prefix: string;
  readonly chosen?: Chosen | undefined;
  /** Data that all workers evaluate on, if the spec names it. */
  readonly evaluation?: Uint8Array | undefined;
  /** The published model of the run, if it has one. */
  readonly base?: TabBase | undefined;
  /** How to download data that the run names in chunks. */
  readonly reach: Reach;
}

/** Prepares the task. Throws `tab/corpus`, or `tab/pictures` for a folder, if the user must choose other data. */
export async function prepareTabTask(
  spec: RunSpec,
  settings: Settings,
  sources: TaskSources,
): Promise<TabTask> {
  const model = sources.base?.model ?? modelOf(settings, spec);
  const form = formOf(settings);
  if (spec.data.kind === 'made' && form !== 'tokens') {
    const data = syntheticData(form, settings);
    return { model, data, tokensPerExample: 1, bytesPerToken: 0 };
  }
  const code = form === 'images' ? 'tab/pictures' : 'tab/corpus';
  const { bytes, name } = await withCode(code, async () => {
    const loaded = await bytesOf(spec, settings, sources);
    const { chosen } = sources;
    const named = chosen?.kind === 'file' ? chosen.file.name : spec.dataFrom;
    if (form === 'tokens') assertPlainText(named, loaded.bytes);
    return loaded;
  });
  const { base, evaluation } = sources;
  const tokenizer = base?.tokenizer ?? tokenizers[settings.tokens];
  const request = { settings, dealt: dealtIn(spec), evaluation, tokenizer };
  const task = await withCode(code, async () => readers[form](bytes, request));
  // data is stored only once it has proved usable
  if (name !== undefined) await sources.storage.put(name, bytes);
  return { model, ...task };
}

/** Rethrows errors about data with a code on which the page asks the user for other data. */
const withCode = <T>(code: string, read: () => Promise<T>): Promise<T> =>
  read().catch((cause: unknown) => {
    if (!(cause instanceof ConfigError)) throw cause;
    const { message, hint = 'choose other data' } = cause;
    throw new ConfigError(code, message, { hint, cause });
  });

const dealtIn = ({ data }: RunSpec): ShardForm =>
  data.kind === 'corpus' ? data.form : 'interleaved';

interface DataRequest {
  readonly settings: Settings;
  readonly dealt: ShardForm;
  readonly evaluation: Uint8Array | undefined;
  readonly tokenizer: Tokenizer;
}

type Read = (bytes: Uint8Array, request: DataRequest) => Omit<TabTask, 'model'>;

const csvOf = (bytes: Uint8Array) => parseSeriesCsv(new TextDecoder().decode(bytes));
const readText: Read = (bytes, { settings, dealt, evaluation, tokenizer }) => {
  const { tokens } = tokenizer.encode(bytes);
  const { context, shard } = settings;
  const holdout = evaluation && tokenizer.encode(evaluation).tokens;
  const parts = divideText(tokens, shard, { form: dealt, context, holdout });
  const bytesPerToken = bytes.length / tokens.length;
  return { data: { kind: 'tokens', ...parts }, tokensPerExample: context, bytesPerToken };
};

const readers: Readonly<Record<FormName, Read>> = {
  tokens: readText,
  rows: readText,
  series: (bytes, { settings, dealt, evaluation }) => {
    const holdout = evaluation && csvOf(evaluation);
    const data = divideSeries(csvOf(bytes), { ...settings, form: dealt, holdout });
    return { data, tokensPerExample: 1, bytesPerToken: 0 };
  },
  images: (bytes, { settings, evaluation }) => {
    const holdout = evaluation && unpackPictures(evaluation);
    const data = dividePictures(unpackPictures(bytes), settings.shard, holdout);
    return { data, tokensPerExample: 1, bytesPerToken: 0 };
  },
};

interface LoadedData {
  readonly bytes: Uint8Array;
  /** Name to store it under; undefined if it is already stored. */
  readonly name?: string;
}

/**
 * Returns the data: chosen now or stored before, the built-in text, or downloaded from the server of the page or as
 * chunks of the run. Pictures are packed.
 */
async function bytesOf(
  spec: RunSpec,
  settings: Settings,
  sources: TaskSources,
): Promise<LoadedData> {
  const { storage, prefix, chosen } = sources;
  const wanted = spec.data.kind === 'corpus' ? spec.data.sha256 : undefined;
  const name = wanted === undefined ? `${prefix}/text` : `corpus/${wanted}`;
  const isWanted = (bytes: Uint8Array) => wanted === undefined || sha256Hex(bytes) === wanted;
  if (chosen !== undefined) {
    const bytes = await read(chosen, settings, sources);
    if (isWanted(bytes)) return { bytes, name };
    throw missing(spec, settings, 'the run trains on other data');
  }
  const kept = await storage.get(name);
  if (kept instanceof Uint8Array && isWanted(kept)) return { bytes: kept };
  if (wanted === undefined)
    throw missing(spec, settings, 'each worker of this run trains on its own data');
  const play = writePlay();
  if (isWanted(play)) return { bytes: play };
  const { reach } = sources;
  const served =
    (await fetchData(wanted)) ?? (await fetchByChunks(spec, wanted, MOST_BYTES, reach));
  if (served !== undefined && isWanted(served)) return { bytes: served, name };
  throw missing(spec, settings, 'this browser does not have the data of the run');
}

/** Maximum bytes of the first line that is read to recognize documents. */
const MOST_LINE_BYTES = 1 << 20;

/** Throws a ConfigError for documents: by the name, or by the first line, since data under its hash has no name. */
function assertPlainText(named: string, bytes: Uint8Array): void {
  const end = bytes.subarray(0, MOST_LINE_BYTES).indexOf(10);
  const line = new TextDecoder().decode(bytes.subarray(0, end < 0 ? MOST_LINE_BYTES : end));
  if (!/\.jsonl$/i.test(named) && !parseDocument(line).ok) return;
  throw new ConfigError('tab/corpus', 'a tab trains on plain text, and this data is documents', {
    hint: 'choose a plain text, or join with the program: nostrain run join naddr1…',
  });
}

/** Maximum bytes of data in a tab. */
const MOST_BYTES = 64 << 20;

async function read(
  chosen: Chosen,
  settings: Settings,
  { evaluation, reach: { signal } }: TaskSources,
): Promise<Uint8Array> {
  if (chosen.kind === 'file') return bounded(chosen.file, MOST_BYTES);
  const { pixels } = settings;
  const like = evaluation && unpackPictures(evaluation);
  const files = chosen.files.map(({ class: name, file }) => ({
    class: name,
    name: file.name,
    read: () => bounded(file, MOST_FILE_BYTES),
  }));
  const classes = [...new Set(files.map((file) => file.class))];
  const { folder } = chosen;
  const packed = packPictures(
    await gatherPictures(files, { folder, classes, pixels, like, signal }),
  );
  const bytes = concatBytes(...packed);
  if (bytes.length <= MOST_BYTES) return bytes;
  throw tooLong(folder, bytes.length, MOST_BYTES);
}

async function bounded(file: File, most: number): Promise<Uint8Array> {
  if (file.size > most) throw tooLong(file.name, file.size, most);
  return new Uint8Array(await file.arrayBuffer());
}

const tooLong = (name: string, bytes: number, most: number): ConfigError =>
  new ConfigError('tab/corpus', `${name} has ${bytes} bytes, more than ${most}`, {
    hint: 'choose less data, or join with the program: nostrain run join naddr1…',
  });

/** Downloads data from the server of this page only; undefined if it is missing or has another hash. */
async function fetchData(sha256: string): Promise<Uint8Array | undefined> {
  const answer = await fetch(new URL(`corpus/${sha256}`, import.meta.url)).catch(() => undefined);
  if (!answer?.ok || Number(answer.headers.get('content-length') ?? 0) > MOST_BYTES) {
    return undefined;
  }
  const bytes = new Uint8Array(await answer.arrayBuffer());
  return sha256Hex(bytes) === sha256 ? bytes : undefined;
}

function missing({ dataFrom }: RunSpec, settings: Settings, message: string): ConfigError {
  const choice = CHOICES[formOf(settings)];
  return new ConfigError('tab/corpus', message, {
    hint: dataFrom === '' ? choice : `${choice}; the run spec says it is at ${dataFrom}`,
  });
}

const CHOICES: Readonly<Record<FormName, string>> = {
  tokens: 'choose the text',
  rows: 'choose the file',
  series: 'choose a CSV with a column of times',
  images: 'choose a folder with one folder of PNG and JPEG files per class',
};
