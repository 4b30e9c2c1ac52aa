/** Pictures of one size with a class each: what they are hashed by, and how workers share them. */
import { utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import type { CreateSha256 } from '../../base/hash.ts';
import { deriveKey, philox } from '../../base/rng.ts';
import type { Shard } from '../../run/field.ts';
import type { ImageData, ImagePart } from '../forms/images.ts';

/** Decoded, scaled and cut to squares. */
export interface Pictures {
  /** Names of the classes, ascending. */
  readonly classes: readonly string[];
  /** Of a side. */
  readonly pixels: number;
  readonly channels: number;
  /** One picture after the other, row by row, pixel by pixel. */
  readonly bytes: Uint8Array;
  /** The class of each. */
  readonly labels: Int32Array;
}

/** What everybody must have in common: classes, sizes and every pixel; how files were packed does not count. */
export function hashPictures(pictures: Pictures, createSha256: CreateSha256): Uint8Array {
  const { classes, pixels, channels, labels, bytes } = pictures;
  const hash = createSha256();
  hash.update(utf8(`${JSON.stringify({ classes, pixels, channels, labels: [...labels] })}\n`));
  hash.update(bytes);
  return hash.digest();
}

/** Of each class every tenth is held out. */
const HELD_OUT = 10;

/** A worker's pictures, and those that all evaluate on. Of every class some of both, in an order that is nobody's choice. */
export function dividePictures(pictures: Pictures, { index, count }: Shard): ImageData {
  const { classes, labels } = pictures;
  const key = deriveKey('nostrain/pictures');
  const order = [...labels.keys()]
    .map((at) => ({ at, drawn: philox(key, at, 0, 0, 0)[0] }))
    .sort((a, b) => a.drawn - b.drawn || a.at - b.at)
    .map(({ at }) => at);
  const seen = new Int32Array(classes.length);
  const [own, held]: [number[], number[]] = [[], []];
  for (const at of order) {
    const place = seen[labels[at]!]!++;
    if (place % HELD_OUT === 0) held.push(at);
    // which worker is next does not depend on the class, so that few of each are shared out too
    else if ((place - 1 - Math.floor(place / HELD_OUT) + labels[at]!) % count === index - 1)
      own.push(at);
  }
  const few = seen.findIndex((all) => all < 2);
  if (few >= 0) {
    throw new ConfigError(
      'data/too-small',
      `class ${JSON.stringify(classes[few])} has one picture only`,
      {
        hint: 'give two pictures of every class at least: one to learn from, one to be tested on',
      },
    );
  }
  if (own.length === 0) {
    throw new ConfigError('data/too-small', `there are no pictures for shard ${index}/${count}`, {
      hint: 'give more pictures, or train with fewer workers',
    });
  }
  return { kind: 'images', shard: partOf(pictures, own), validation: partOf(pictures, held) };
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
