/** Labelled pictures: reads them from a folder, packs them into one file, divides them among workers. */

import { utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import type { CreateSha256 } from '../../base/hash.ts';
import { deriveKey, philox } from '../../base/rng.ts';
import { isObject, isWithin, listOf, type Untyped } from '../../base/shape.ts';
import type { Shard } from '../../run/field.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import type { ImageData, ImagePart } from '../forms/table.ts';
import { decodePicture, inChannels, squareOf } from './picture-file.ts';

/** Pictures that are decoded, scaled and cropped to squares. */
export interface Pictures {
  /** Class names, ascending. */
  readonly classes: readonly string[];
  /** Pixels per side. */
  readonly pixels: number;
  readonly channels: number;
  /** All pictures, one after the other, row by row, pixel by pixel. */
  readonly bytes: Uint8Array;
  /** Class index of each picture. */
  readonly labels: Int32Array;
}

/** Packs pictures: a line of JSON, then the pixels. The result does not depend on how the files were compressed. */
export const packPictures = ({
  classes,
  pixels,
  channels,
  labels,
  bytes,
}: Pictures): readonly [head: Uint8Array, pixels: Uint8Array] => [
  utf8(`${JSON.stringify({ classes, pixels, channels, labels: [...labels] })}\n`),
  bytes,
];

export function hashPictures(pictures: Pictures, createSha256: CreateSha256): Uint8Array {
  const hash = createSha256();
  for (const part of packPictures(pictures)) hash.update(part);
  return hash.digest();
}

const LINE_END = 10;
/** Maximum bytes of the JSON line: class names and a label per picture. */
const MOST_HEAD_BYTES = 2 ** 24;
const MOST_CLASSES = 10_000;
const MOST_PIXELS = 1024;
const LONGEST_NAME = 255;

/** Unpacks pictures. Throws `data/pictures` if the bytes are not packed pictures. */
export function unpackPictures(packed: Uint8Array): Pictures {
  const end = packed.subarray(0, MOST_HEAD_BYTES).indexOf(LINE_END);
  const { classes, pixels, channels, labels } = headIn(packed.subarray(0, Math.max(0, end)));
  const bytes = packed.slice(end + 1);
  const isNamed =
    Array.isArray(classes) &&
    classes.length >= 2 &&
    classes.length <= MOST_CLASSES &&
    classes.every(
      (name, i) => isName(name) && (i === 0 || compareCodePoints(classes[i - 1], name) < 0),
    );
  const isSized = isWithin(1, MOST_PIXELS)(pixels) && (channels === 1 || channels === 3);
  if (!isNamed || !isSized) throw unreadable();
  const areLabels = listOf(isWithin(0, classes.length - 1), Number.POSITIVE_INFINITY, 1);
  if (!areLabels(labels) || bytes.length !== labels.length * pixels * pixels * channels) {
    throw unreadable();
  }
  return { classes, pixels, channels, bytes, labels: Int32Array.from(labels) };
}

function headIn(line: Uint8Array): Untyped {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(line));
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

const isName = (name: unknown): name is string =>
  typeof name === 'string' && name.length > 0 && name.length <= LONGEST_NAME;

const unreadable = (): ConfigError =>
  new ConfigError('data/pictures', 'these bytes are not packed pictures of a run', {
    hint: 'name a folder with one folder of PNG and JPEG files per class',
  });

/** Every tenth picture of a class is held out for validation. */
const HELD_OUT = 10;

/** Returns a worker's pictures and the validation part: some pictures of each class, or all of `holdout`. */
export function dividePictures(pictures: Pictures, shard: Shard, holdout?: Pictures): ImageData {
  const { shardPictures, kept, few } = drawn(
    pictures,
    shard,
    holdout === undefined ? HELD_OUT : Infinity,
  );
  const { index, count } = shard;
  if (few !== undefined && holdout === undefined) {
    throw new ConfigError('data/too-small', `class ${JSON.stringify(few)} has only one picture`, {
      hint: 'add pictures: each class needs at least two, one of them for validation',
    });
  }
  if (shardPictures.length === 0) {
    throw new ConfigError('data/too-small', `there are no pictures for shard ${index}/${count}`, {
      hint: 'use more pictures or fewer workers',
    });
  }
  const validation =
    holdout === undefined ? partOf(pictures, kept) : partOf(holdout, [...holdout.labels.keys()]);
  return { kind: 'images', shard: partOf(pictures, shardPictures), validation };
}

/** Draws the pictures of a shard and the held-out ones: the first and then every `every`-th of each class. */
function drawn({ classes, labels }: Pictures, { index, count }: Shard, every: number) {
  const key = deriveKey('nostrain/pictures');
  const order = [...labels.keys()]
    .map((at) => ({ at, drawn: philox(key, at, 0, 0, 0)[0] }))
    .sort((a, b) => a.drawn - b.drawn || a.at - b.at)
    .map(({ at }) => at);
  const seen = new Int32Array(classes.length);
  const [shardPictures, kept]: [number[], number[]] = [[], []];
  for (const at of order) {
    const rank = seen[labels[at]!]!++;
    const before = every === Infinity ? 0 : 1 + Math.floor(rank / every);
    if (before > 0 && rank % every === 0) kept.push(at);
    // offset by the class, so that small classes are shared among the workers as well
    else if ((rank - before + labels[at]!) % count === index - 1) shardPictures.push(at);
  }
  return { shardPictures, kept, few: classes[seen.findIndex((all) => all < 2)] };
}

function partOf(
  { pixels, channels, bytes, labels }: Pictures,
  taken: readonly number[],
): ImagePart {
  const size = pixels * pixels * channels;
  const part = new Uint8Array(taken.length * size);
  taken.forEach((at, i) => {
    part.set(bytes.subarray(at * size, (at + 1) * size), i * size);
  });
  return { pixels: part, labels: Int32Array.from(taken, (at) => labels[at]!) };
}

/** A picture file of a class. */
export interface PictureFile {
  /** Class: the name of the folder. */
  readonly class: string;
  readonly name: string;
  /** Reads the file, which has a limited length. */
  read(): Promise<Uint8Array>;
}

/** Classes and channels that pictures must match; every class must be one of these. */
export type Likeness = Pick<Pictures, 'classes' | 'channels'>;

export interface GatherPictures {
  /** Name of the folder for messages. */
  readonly folder: string;
  /** Names of the class folders. */
  readonly classes: readonly string[];
  readonly pixels: number;
  /** The evaluation pictures of a run whose workers have their own data. */
  readonly like?: Likeness | undefined;
  readonly signal: AbortSignal;
}

/** Maximum values of all pictures together, which are in memory. */
const MOST_BYTES = 2 ** 30;
const IS_PICTURE = /\.(png|jpe?g)$/i;
/** Channels while reading; reduced to one if all pictures are gray. */
const COLOURS = 3;

/** Reads all pictures. Throws `data/pictures` that names the file and the problem. */
export async function gatherPictures(
  all: readonly PictureFile[],
  { folder, classes: classNames, pixels, like, signal }: GatherPictures,
): Promise<Pictures> {
  const classes = like?.classes ?? [...classNames].sort(compareCodePoints);
  assertClasses(classNames, folder, like);
  const files = all
    .filter(({ name }) => IS_PICTURE.test(name) && !name.startsWith('.'))
    .sort((a, b) => compareCodePoints(a.class, b.class) || compareCodePoints(a.name, b.name));
  for (const name of classNames) {
    if (files.some((file) => file.class === name)) continue;
    throw wrong(
      `${folder}/${name} has no pictures`,
      'put PNG or JPEG files there, or remove the folder',
    );
  }
  const size = pixels * pixels * COLOURS;
  if (files.length * size > MOST_BYTES) {
    throw wrong(
      `${folder} has ${files.length} pictures, which exceed ${MOST_BYTES} values`,
      'use fewer pictures, or scale them down with --set pixels=N',
    );
  }
  const bytes = new Uint8Array(files.length * size);
  for (const [i, file] of files.entries()) {
    signal.throwIfAborted();
    const path = `${folder}/${file.class}/${file.name}`;
    bytes.set(squareOf(decodePicture(await file.read(), path), pixels), i * size);
  }
  const labels = Int32Array.from(files, (file) => classes.indexOf(file.class));
  const channels = like?.channels ?? (hasColours(bytes) ? COLOURS : 1);
  return { classes, pixels, channels, bytes: inChannels(bytes, channels), labels };
}

function assertClasses(
  classNames: readonly string[],
  folder: string,
  like: Likeness | undefined,
): void {
  const strange = like && classNames.find((name) => !like.classes.includes(name));
  if (strange !== undefined) {
    throw wrong(
      `${folder} has the class ${JSON.stringify(strange)}; those of the run are ` +
        `${wordsOf(like!.classes)}`,
      'name the folders like the classes of the run, and remove others',
    );
  }
  const least = like ? 1 : 2;
  if (classNames.length >= least && classNames.length <= MOST_CLASSES) return;
  const words =
    classNames.length === 1 ? `one class only, ${classNames[0]}` : `${classNames.length} classes`;
  const needed = like
    ? `add a folder with pictures for at least one of ${wordsOf(like.classes)}`
    : 'add folders: at least two classes are needed';
  throw wrong(`${folder} has ${words}`, needed);
}

const SHOWN = 8;

const wordsOf = (names: readonly string[]): string =>
  `${names
    .slice(0, SHOWN)
    .map((name) => JSON.stringify(name))
    .join(', ')}${names.length > SHOWN ? ', …' : ''}`;

function hasColours(bytes: Uint8Array): boolean {
  for (let i = 0; i < bytes.length; i += COLOURS) {
    if (bytes[i] !== bytes[i + 1] || bytes[i] !== bytes[i + 2]) return true;
  }
  return false;
}

const wrong = (message: string, hint: string): ConfigError =>
  new ConfigError('data/pictures', message, { hint });
