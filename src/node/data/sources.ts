/** Opens a worker's data (text, series, pictures or rows of a regression) and checks it against its run. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { concatBytes, toHex } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { parseRegressionCsv } from '../../model/data/csv.ts';
import {
  decodePicture,
  inChannels,
  MOST_FILE_BYTES,
  squareOf,
} from '../../model/data/picture-file.ts';
import {
  gatherPictures,
  hashPictures,
  type Likeness,
  type PictureFile,
  type Pictures,
  unpackPictures,
} from '../../model/data/pictures.ts';
import {
  parseRegressionDataset,
  type RegressionDataset,
  type RegressionSet,
} from '../../model/data/regression.ts';
import { parseSeriesCsv, type Series } from '../../model/data/series.ts';
import { syntheticSeries, syntheticShapes } from '../../model/data/synthetic.ts';
import type { ShardForm } from '../../model/data/text.ts';
import type { Settings } from '../../run/settings.ts';
import type { Start } from '../../run/spec/start.ts';
import { dataHome } from '../files/data-home.ts';
import { readJsonFile } from '../files/documents.ts';
import { createNativeSha256 } from '../native/sha256.ts';
import type { OpensBase } from '../pretrained/base-model.ts';
import type { OpenedModel } from '../pretrained/imported-file.ts';
import { type MemoryData, type OpenCorpus, openCorpus } from './corpus.ts';
import { type PictureFiles, picturesIn } from './picture-lines.ts';

export interface Sources {
  /** The data to train on: a text, .jsonl or CSV file or its https address, or a folder of pictures. */
  readonly corpus?: string | MemoryData | undefined;
  /** A regression dataset, in CSV or in the JSON form of the Python reference. */
  readonly dataset?: string | undefined;
  /** The column of a CSV dataset to predict. */
  readonly target?: string | undefined;
  readonly fixed?: FixedData | undefined;
  /** The model to start from if it is already open; else `openBase` opens it, by default any that is there. */
  readonly base?: OpenedModel | undefined;
  readonly openBase?: OpensBase | undefined;
  readonly onNotice: (message: string) => void;
  readonly signal: AbortSignal;
}

/** What a run spec fixes about the data, and about the model that reads it. */
export interface FixedData {
  /** SHA-256 of the data that all workers train on. */
  readonly sha256?: string;
  /** Address of that data according to the spec. It is only shown to the user, never downloaded automatically. */
  readonly from?: string;
  readonly form?: ShardForm;
  /** Data that all workers evaluate on; then all of a worker's own data is for training. */
  readonly evaluation?: Uint8Array;
  /** The model that the run starts from. */
  readonly start?: Start | null;
}

/** The members of `Sources` that opening a corpus needs. */
export type CorpusSources = Pick<Sources, 'corpus' | 'fixed' | 'onNotice' | 'signal'>;

/** Reads a dataset in the JSON form of the Python reference. Throws a ConfigError (`data/file`). */
export const readDataset = async (file: string): Promise<RegressionDataset> =>
  parseRegressionDataset(
    await readJsonFile(file, {
      code: 'data/file',
      what: 'the dataset',
      hint:
        'write it like {"task": "linear-regression", "examples": [{"inputs": [1, 2], ' +
        '"target": 3}]}',
    }),
  );

/** Reads a `.json` dataset, or any other file as CSV, of which `target` is the column to predict. */
export async function readRows(file: string, target: string | undefined): Promise<RegressionSet> {
  if (!file.endsWith('.json')) return parseRegressionCsv(await textOf(file), target);
  if (target === undefined) return await readDataset(file);
  throw new ConfigError('flag/unused', '--target goes with a --dataset in CSV', {
    hint: 'leave it out: a JSON dataset names its own target',
  });
}

const textOf = (file: string): Promise<string> =>
  readFile(file, 'utf8').catch((cause: unknown) => {
    throw new ConfigError('data/file', `cannot read the dataset ${file}`, {
      hint: 'name a readable file',
      cause,
    });
  });

/** Opens the named file or address, or the text that the run requires, or else the default text. */
export const openNamedCorpus = ({
  corpus: file,
  fixed = {},
  onNotice,
  signal,
  leastBytes,
}: CorpusSources & { readonly leastBytes?: number }): Promise<OpenCorpus> =>
  openCorpus({
    file,
    onNotice,
    signal,
    leastBytes,
    wanted: fixed.sha256,
    from: fixed.from,
    cacheDir: join(dataHome(), 'corpora'),
    allowDownload: true,
  });

/** Maximum size of a series file; the whole file is loaded into memory. */
const MOST_BYTES = 2 ** 28;

/** A series and the file it came from; a synthetic series has no file. */
export interface OpenSeries {
  readonly series: Series;
  /** Data that all workers evaluate on, if the run has such data. */
  readonly holdout?: Series | undefined;
  readonly file?: OpenCorpus;
}

/** Opens the named CSV and checks it against the run; else the run's evaluation data, or a synthetic series. */
export async function openSeries(
  { seed }: Pick<Settings, 'seed'>,
  sources: CorpusSources,
): Promise<OpenSeries> {
  const { sha256, evaluation } = sources.fixed ?? {};
  const holdout = evaluation && parseSeriesCsv(new TextDecoder().decode(evaluation));
  if (sources.corpus === undefined && sha256 === undefined) {
    return holdout ? { series: holdout, holdout } : { series: syntheticSeries(seed) };
  }
  // a series that is too short is reported in steps, not bytes
  const file = await openNamedCorpus({ ...sources, leastBytes: 0 });
  if (file.size > MOST_BYTES) {
    throw new ConfigError(
      'data/series',
      `${file.name} has ${file.size} bytes, more than ${MOST_BYTES}`,
      { hint: 'use longer steps, or fewer columns' },
    );
  }
  const pieces: Uint8Array[] = [];
  for await (const piece of file.read()) pieces.push(piece);
  const series = parseSeriesCsv(new TextDecoder().decode(concatBytes(...pieces)));
  return { series, file, holdout };
}

/** Pictures that are decoded to the same pixels on every machine. */
export interface OpenPictures {
  readonly pictures: Pictures;
  /** Digest of the decoded pixels and their classes; absent for synthetic shapes. */
  readonly sha256?: string;
  /** Data that all workers evaluate on, if the run has such data. */
  readonly holdout?: Pictures | undefined;
}

/** Opens the named folder and checks it against the run; else the run's evaluation data, or synthetic shapes. */
export async function openPictures(
  { seed, pixels }: Pick<Settings, 'seed' | 'pixels'>,
  { corpus, fixed = {}, signal }: Pick<Sources, 'corpus' | 'fixed' | 'signal'>,
): Promise<OpenPictures> {
  const holdout = fixed.evaluation && unpackPictures(fixed.evaluation);
  if (corpus === undefined) {
    if (holdout) return { pictures: holdout, holdout };
    if (fixed.sha256 === undefined) return { pictures: syntheticShapes(seed, pixels) };
    throw new ConfigError('corpus/missing', 'the run trains on a folder of pictures', {
      hint:
        'name it with --corpus ' +
        `FOLDER${fixed.from ? `; the run spec says it is at ${fixed.from}` : ''}`,
    });
  }
  const pictures = await readPictures(corpus, pixels, signal, holdout);
  const sha256 = toHex(hashPictures(pictures, createNativeSha256));
  const opened = { pictures, sha256, holdout };
  if (fixed.sha256 === undefined || fixed.sha256 === sha256) return opened;
  throw new ConfigError(
    'corpus/other',
    `the pictures have SHA-256 ${sha256}; the run trains on those with ${fixed.sha256}`,
    { hint: 'name the folder that the run was created with, with all its files and no others' },
  );
}

/** Decodes the pictures of a folder, or of lines in memory. Throws `data/pictures` that names a bad file. */
export async function readPictures(
  from: string | MemoryData,
  pixels: number,
  signal: AbortSignal,
  like?: Likeness,
): Promise<Pictures> {
  const isFolder = typeof from === 'string';
  const { classes, files } = isFolder ? await filesIn(from) : picturesIn(from);
  const folder = isFolder ? from : from.name;
  return gatherPictures(files, { folder, classes, pixels, like, signal });
}

/** Lists a folder of class folders, files by name. */
export async function filesIn(folder: string): Promise<PictureFiles> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((cause: unknown) => {
    throw new ConfigError('data/pictures', `cannot read the folder of pictures ${folder}`, {
      hint: 'name a folder with one folder of PNG and JPEG files per class',
      cause,
    });
  });
  const folders = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'));
  const classes = folders.map(({ name }) => name);
  const files: PictureFile[] = [];
  for (const name of classes) {
    const inside = join(folder, name);
    const names = await readdir(inside);
    files.push(
      ...names.map((file) => ({
        class: name,
        name: file,
        read: () => bytesOf(join(inside, file)),
      })),
    );
  }
  return { classes, files };
}

/** Decodes a picture file to the size and channels of a model, which may be gray. */
export async function readPicture(
  path: string,
  { pixels, channels }: { readonly pixels: number; readonly channels: number },
): Promise<Uint8Array> {
  return inChannels(squareOf(decodePicture(await bytesOf(path), path), pixels), channels);
}

async function bytesOf(path: string): Promise<Uint8Array> {
  const unreadable = (cause: unknown): never => {
    throw new ConfigError('data/pictures', `${path} cannot be read`, {
      hint: 'make it readable, or remove it',
      cause,
    });
  };
  const { size } = await stat(path).catch(unreadable);
  if (size > MOST_FILE_BYTES) {
    throw new ConfigError(
      'data/pictures',
      `${path} has ${size} bytes, more than ${MOST_FILE_BYTES}`,
      { hint: 'scale it down: models read small pictures' },
    );
  }
  return new Uint8Array(await readFile(path).catch(unreadable));
}
