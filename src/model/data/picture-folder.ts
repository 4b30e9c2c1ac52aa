/** A folder of PNG and JPEG files for each class as pictures of one size, wherever those files are: on a disk, or chosen in a page. */
import { ConfigError } from '../../base/errors.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import { decodePicture, inChannels, squareOf } from './picture-file.ts';
import { MOST_CLASSES, type Pictures } from './pictures.ts';

/** One file of a class. */
export interface PictureFile {
  /** The name of its folder. */
  readonly class: string;
  readonly name: string;
  /** The whole of it, of bounded length. */
  read(): Promise<Uint8Array>;
}

/** What pictures must have in common with others: of theirs every class is one. */
export type Likeness = Pick<Pictures, 'classes' | 'channels'>;

export interface GatherPictures {
  /** In front of a person. */
  readonly folder: string;
  /** Of the folders that were found; as many as there are classes. */
  readonly classes: readonly string[];
  readonly pixels: number;
  /** The held-out pictures of a run in which everybody has their own. */
  readonly like?: Likeness | undefined;
  readonly signal: AbortSignal;
}

/** Numbers of all pictures together. */
const MOST_BYTES = 2 ** 30;
const IS_PICTURE = /\.(png|jpe?g)$/i;
/** Colours, until it is known that there are none. */
const COLOURS = 3;

/** Throws `data/pictures` that names what is wrong with which file. */
export async function gatherPictures(
  all: readonly PictureFile[],
  { folder, classes: found, pixels, like, signal }: GatherPictures,
): Promise<Pictures> {
  const classes = like?.classes ?? [...found].sort(compareCodePoints);
  assertClasses(found, folder, like);
  const files = all
    .filter(({ name }) => IS_PICTURE.test(name) && !name.startsWith('.'))
    .sort((a, b) => compareCodePoints(a.class, b.class) || compareCodePoints(a.name, b.name));
  for (const name of found) {
    if (files.some((file) => file.class === name)) continue;
    throw wrong(
      `${folder}/${name} has no pictures`,
      'put PNG or JPEG files there, or take it away',
    );
  }
  const size = pixels * pixels * COLOURS;
  if (files.length * size > MOST_BYTES) {
    throw wrong(
      `${folder} has ${files.length} pictures, ${MOST_BYTES} numbers are the most`,
      'take fewer pictures, or scale them further down with --set pixels=N',
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

function assertClasses(found: readonly string[], folder: string, like: Likeness | undefined): void {
  const strange = like && found.find((name) => !like.classes.includes(name));
  if (strange !== undefined) {
    throw wrong(
      `${folder} has the class ${JSON.stringify(strange)}; those of the run are ${listOf(like!.classes)}`,
      'call the folders as the run calls its classes, and take others away',
    );
  }
  const least = like ? 1 : 2;
  if (found.length >= least && found.length <= MOST_CLASSES) return;
  const words = found.length === 1 ? `one class only, ${found[0]}` : `${found.length} classes`;
  const needed = like
    ? `give a folder with pictures for one of ${listOf(like.classes)} at least`
    : 'give two classes at least, a folder with pictures for each';
  throw wrong(`${folder} has ${words}`, needed);
}

const SHOWN = 8;

const listOf = (names: readonly string[]): string =>
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
