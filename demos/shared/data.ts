/** Prepares the data of the demos: the text, series, pictures or examples that the workers share. */
import { writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { presets } from 'nostrain';
import { toHex } from '../../src/base/bytes.ts';
import { createSha256 } from '../../src/base/hash.ts';
import { hashPictures } from '../../src/model/data/pictures.ts';
import { linearExamples } from '../../src/model/data/regression.ts';
import { openCorpus } from '../../src/node/data/corpus.ts';
import { openPictures, openSeries } from '../../src/node/data/sources.ts';
import { isDocuments } from '../../src/node/data/tokenize.ts';
import { dataHome } from '../../src/node/files/data-home.ts';
import { PIXELS, writeDigits } from '../onnx/digits.ts';
import type { DemoFlags, Stage } from './stage.ts';

export interface DemoData {
  readonly name: string;
  readonly sha256: string;
  readonly bytes: number;
  /** Path for the workers' --corpus; undefined if they generate the data. */
  readonly file?: string;
}

type Sources = Pick<Stage, 'flags' | 'dir' | 'onNotice' | 'signal'>;

/** Copies one text for all workers into the demo's folder. */
export async function demoText({ flags, dir, onNotice, signal }: Sources) {
  const { name, sha256, size, read } = await openCorpus({
    file: flags.corpus,
    cacheDir: join(dataHome(), 'corpora'),
    allowDownload: true,
    onNotice,
    signal,
  });
  const file = join(dir, isDocuments(name) ? 'corpus.jsonl' : 'corpus.txt');
  await writeFile(file, read());
  return { name: basename(name), sha256, bytes: size, file };
}

/** Describes the synthetic examples of all shards; each worker generates its own from the seed. */
export function demoExamples(seed: number, workers: number): DemoData {
  const shards = Array.from({ length: workers }, (_, i) =>
    linearExamples({ seed, shard: { index: i + 1, count: workers } }),
  );
  const parts = shards.flatMap(({ inputs, targets }) => [inputs.buffer, targets.buffer]);
  return {
    name: `y = 3x1 - 1.5x2 + 0.5x3 + 1, seed ${seed}`,
    sha256: hashOf(parts),
    bytes: parts.reduce((sum, { byteLength }) => sum + byteLength, 0),
  };
}

/** Describes the CSV of --corpus, or a series of sines that each worker generates from the seed. */
export async function demoSeries(sources: Sources): Promise<DemoData> {
  const { seed, corpus } = sources.flags;
  const { series, file } = await openSeries({ seed }, { ...sources, corpus });
  if (file === undefined) {
    const { buffer, byteLength: bytes } = series.values;
    return { name: `sines with noise and changes, seed ${seed}`, sha256: hashOf([buffer]), bytes };
  }
  const { name, sha256, size: bytes } = file;
  return { name: basename(name), sha256, bytes, ...(corpus !== undefined && { file: corpus }) };
}

/** Describes the pictures of --corpus, or shapes that each worker generates from the seed. */
export async function demoPictures(
  sources: Sources,
  { corpus }: Pick<DemoFlags, 'corpus'> = sources.flags,
  { pixels = 0 }: { readonly pixels?: number } = presets.vit,
): Promise<DemoData> {
  const { seed } = sources.flags;
  const { pictures, sha256 } = await openPictures({ seed, pixels }, { ...sources, corpus });
  const { bytes, labels, classes } = pictures;
  return {
    name: `${labels.length} pictures of ${classes.join(', ')}`,
    sha256: sha256 ?? toHex(hashPictures(pictures, createSha256)),
    bytes: bytes.length,
    ...(corpus !== undefined && { file: corpus }),
  };
}

/** Writes handwritten digits as a folder of pictures for each class. */
export async function demoDigits(sources: Sources): Promise<DemoData> {
  const corpus = join(sources.dir, 'digits');
  await writeDigits(corpus);
  return demoPictures(sources, { corpus }, { pixels: PIXELS });
}

function hashOf(parts: readonly ArrayBufferLike[]): string {
  const hash = createSha256();
  for (const part of parts) hash.update(new Uint8Array(part));
  return toHex(hash.digest());
}
