/** Pictures on this machine: a folder of PNG and JPEG files for each class, or shapes that are drawn, and what a worker trains on of them. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { toHex } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { madeShapes } from '../../model/data/made-shapes.ts';
import { dividePictures, hashPictures, type Pictures } from '../../model/data/pictures.ts';
import { inputOf, patchModel } from '../../model/from-settings.ts';
import type { Settings } from '../../run/settings.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import { createNativeSha256 } from '../native-sha256.ts';
import { bytesOf, decodePicture, squareOf } from '../pictures/decode.ts';
import type { Sources, Task } from '../task.ts';

/** Numbers of all pictures together. */
const MOST_BYTES = 2 ** 30;
const MOST_CLASSES = 10_000;
const IS_PICTURE = /\.(png|jpe?g)$/i;
/** Colours, until it is known that there are none. */
const COLOURS = 3;

/** What of a folder is the same on every machine. */
export interface OpenPictures {
  readonly pictures: Pictures;
  /** Of the decoded pixels and their classes; none of shapes that are made up. */
  readonly sha256?: string;
}

type PictureSources = Pick<Sources, 'corpus' | 'fixed' | 'signal'>;

/** The folder that is named, held against a run where it names one; else the shapes of a seed. */
export async function openPictures(
  { seed, pixels }: Pick<Settings, 'seed' | 'pixels'>,
  { corpus, fixed = {}, signal }: PictureSources,
): Promise<OpenPictures> {
  if (corpus === undefined) {
    if (fixed.sha256 === undefined) return { pictures: madeShapes(seed, pixels) };
    throw new ConfigError('corpus/missing', 'the run trains on a folder of pictures', {
      hint: `name it with --corpus FOLDER${fixed.from ? `; whoever made the run says it is at ${fixed.from}` : ''}`,
    });
  }
  const pictures = await readPictures(corpus, pixels, signal);
  const sha256 = toHex(hashPictures(pictures, createNativeSha256));
  if (fixed.sha256 === undefined || fixed.sha256 === sha256) return { pictures, sha256 };
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
  const { pictures } = await openPictures(settings, sources);
  const { channels, classes } = pictures;
  return {
    name: settings.model,
    model: patchModel(settings, inputOf(settings, { channels, classes: classes.length })!),
    data: dividePictures(pictures, settings.shard),
    tokensPerExample: 1,
  };
}

/** A folder for each class, its name; files by name. Throws `data/pictures` that names what is wrong with which file. */
export async function readPictures(
  folder: string,
  pixels: number,
  signal: AbortSignal,
): Promise<Pictures> {
  const classes = await classesIn(folder);
  const files = await filesIn(folder, classes);
  const size = pixels * pixels * COLOURS;
  if (files.length * size > MOST_BYTES) {
    throw wrong(
      `${folder} has ${files.length} pictures, ${MOST_BYTES} numbers are the most`,
      'take fewer pictures, or scale them further down with --pixels',
    );
  }
  const bytes = new Uint8Array(files.length * size);
  for (const [i, { path }] of files.entries()) {
    signal.throwIfAborted();
    bytes.set(squareOf(decodePicture(await bytesOf(path), path), pixels), i * size);
  }
  const labels = Int32Array.from(files, ({ label }) => label);
  const channels = hasColours(bytes) ? COLOURS : 1;
  const held = channels === 1 ? bytes.filter((_, i) => i % COLOURS === 0) : bytes;
  return { classes, pixels, channels, bytes: held, labels };
}

async function classesIn(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((cause: unknown) => {
    throw new ConfigError('data/pictures', `cannot read the folder of pictures ${folder}`, {
      hint: 'name a folder that has a folder of PNG and JPEG files for each class',
      cause,
    });
  });
  const names = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'));
  const classes = names.map(({ name }) => name).sort(compareCodePoints);
  if (classes.length >= 2 && classes.length <= MOST_CLASSES) return classes;
  const found =
    classes.length === 1 ? `one class only, ${classes[0]}` : `${classes.length} classes`;
  throw wrong(
    `${folder} has ${found}`,
    'give two classes at least, a folder with pictures for each',
  );
}

async function filesIn(folder: string, classes: readonly string[]) {
  const files: { readonly path: string; readonly label: number }[] = [];
  for (const [label, name] of classes.entries()) {
    const own = (await readdir(join(folder, name))).filter((file) => IS_PICTURE.test(file));
    if (own.length === 0) {
      throw wrong(
        `${join(folder, name)} has no pictures`,
        'put PNG or JPEG files there, or take it away',
      );
    }
    files.push(
      ...own.sort(compareCodePoints).map((file) => ({ path: join(folder, name, file), label })),
    );
  }
  return files;
}

function hasColours(bytes: Uint8Array): boolean {
  for (let i = 0; i < bytes.length; i += COLOURS) {
    if (bytes[i] !== bytes[i + 1] || bytes[i] !== bytes[i + 2]) return true;
  }
  return false;
}

const wrong = (message: string, hint: string): ConfigError =>
  new ConfigError('data/pictures', message, { hint });
