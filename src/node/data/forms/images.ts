/** Pictures on this machine: a folder of PNG and JPEG files for each class, or shapes that are drawn, and what a worker trains on of them. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { toHex } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import { madeShapes } from '../../../model/data/made-shapes.ts';
import {
  decodePicture,
  inChannels,
  MOST_FILE_BYTES,
  squareOf,
} from '../../../model/data/picture-file.ts';
import {
  gatherPictures,
  type Likeness,
  type PictureFile,
} from '../../../model/data/picture-folder.ts';
import {
  dividePictures,
  hashPictures,
  type Pictures,
  unpackPictures,
} from '../../../model/data/pictures.ts';
import { inputOf, patchModel } from '../../../model/from-settings.ts';
import type { Settings } from '../../../run/settings.ts';
import { createNativeSha256 } from '../../native/sha256.ts';
import type { Sources, Task } from '../task.ts';

/** What of a folder is the same on every machine. */
export interface OpenPictures {
  readonly pictures: Pictures;
  /** Of the decoded pixels and their classes; none of shapes that are made up. */
  readonly sha256?: string;
  /** What everybody evaluates on, where each has their own. */
  readonly held?: Pictures;
}

type PictureSources = Pick<Sources, 'corpus' | 'fixed' | 'signal'>;

/** The folder that is named, held against a run where it names one; else what the run evaluates on, or the shapes of a seed. */
export async function openPictures(
  { seed, pixels }: Pick<Settings, 'seed' | 'pixels'>,
  { corpus, fixed = {}, signal }: PictureSources,
): Promise<OpenPictures> {
  const held = fixed.evaluation && unpackPictures(fixed.evaluation);
  if (corpus === undefined) {
    if (held) return { pictures: held, held };
    if (fixed.sha256 === undefined) return { pictures: madeShapes(seed, pixels) };
    throw new ConfigError('corpus/missing', 'the run trains on a folder of pictures', {
      hint: `name it with --corpus FOLDER${fixed.from ? `; whoever made the run says it is at ${fixed.from}` : ''}`,
    });
  }
  const pictures = await readPictures(corpus, pixels, signal, held);
  const sha256 = toHex(hashPictures(pictures, createNativeSha256));
  const found = { pictures, sha256, ...(held && { held }) };
  if (fixed.sha256 === undefined || fixed.sha256 === sha256) return found;
  throw new ConfigError(
    'corpus/other',
    `the pictures of ${corpus} have SHA-256 ${sha256}; the run trains on those with ${fixed.sha256}`,
    { hint: 'name the folder that the run was made with, with all its files and no other' },
  );
}

export async function prepareImages(
  settings: Settings,
  sources: Sources,
): Promise<Omit<Task, 'optimizer'>> {
  const { pictures, held } = await openPictures(settings, sources);
  const { channels, classes } = pictures;
  return {
    name: settings.model,
    model: patchModel(settings, inputOf(settings, { channels, classes: classes.length })!),
    data: dividePictures(pictures, settings.shard, held),
    tokensPerExample: 1,
  };
}

/** A folder for each class, its name; files by name. Throws `data/pictures` that names what is wrong with which file. */
export async function readPictures(
  folder: string,
  pixels: number,
  signal: AbortSignal,
  like?: Likeness,
): Promise<Pictures> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((cause: unknown) => {
    throw new ConfigError('data/pictures', `cannot read the folder of pictures ${folder}`, {
      hint: 'name a folder that has a folder of PNG and JPEG files for each class',
      cause,
    });
  });
  const folders = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'));
  const classes = folders.map(({ name }) => name);
  const files: PictureFile[] = [];
  for (const name of classes) {
    const inside = join(folder, name);
    const own = await readdir(inside);
    files.push(
      ...own.map((file) => ({ class: name, name: file, read: () => bytesOf(join(inside, file)) })),
    );
  }
  return gatherPictures(files, { folder, classes, pixels, like, signal });
}

/** A file as a model of such sizes reads it: grey where the model knows no colours. */
export async function readPicture(
  path: string,
  { pixels, channels }: { readonly pixels: number; readonly channels: number },
): Promise<Uint8Array> {
  return inChannels(squareOf(decodePicture(await bytesOf(path), path), pixels), channels);
}

/** A file of bounded length. */
async function bytesOf(path: string): Promise<Uint8Array> {
  const unreadable = (cause: unknown): never => {
    throw new ConfigError('data/pictures', `${path} cannot be read`, {
      hint: 'make it readable, or take it away',
      cause,
    });
  };
  const { size } = await stat(path).catch(unreadable);
  if (size > MOST_FILE_BYTES) {
    throw new ConfigError(
      'data/pictures',
      `${path} has ${size} bytes, more than ${MOST_FILE_BYTES}`,
      { hint: 'scale it down: models read small pictures anyway' },
    );
  }
  return new Uint8Array(await readFile(path).catch(unreadable));
}
