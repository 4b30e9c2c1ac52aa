/** Folder and training data of a demo: where its workers live, and the text or examples they share. */
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { toHex } from '../../src/base/bytes.ts';
import { ConfigError } from '../../src/base/errors.ts';
import { createSha256 } from '../../src/base/hash.ts';
import type { Scope } from '../../src/base/scope.ts';
import { hashPictures } from '../../src/model/data/pictures.ts';
import { linearExamples } from '../../src/model/data/regression.ts';
import { openCorpus } from '../../src/node/data/corpus.ts';
import { openPictures, openSeries } from '../../src/node/data/sources.ts';
import { isDocuments } from '../../src/node/data/tokenize.ts';
import { dataHome } from '../../src/node/files/data-home.ts';
import { takeLock } from '../../src/node/files/run-folder.ts';
import { presets } from '../../src/run/spec/presets.ts';

export interface DemoData {
  readonly name: string;
  readonly sha256: string;
  readonly bytes: number;
  /** The text, for models that read one. */
  readonly file?: string;
}

export interface TextOptions {
  readonly dir: string;
  readonly corpus: string | undefined;
  readonly onNotice: (message: string) => void;
  readonly signal: AbortSignal;
}

/** One text for all workers, kept in the demo's folder. */
export async function demoText({
  dir,
  corpus: given,
  onNotice,
  signal,
}: TextOptions): Promise<DemoData> {
  const { name, sha256, size, read } = await openCorpus({
    ...(given === undefined ? {} : { file: given }),
    cacheDir: join(dataHome(), 'corpora'),
    allowDownload: true,
    onNotice,
    signal,
  });
  const file = join(dir, isDocuments(name) ? 'corpus.jsonl' : 'corpus.txt');
  await writeFile(file, read());
  return { name: basename(name), sha256, bytes: size, file };
}

/** The made-up examples of all shards; each worker makes its own again from the seed. */
export function demoExamples(seed: number, workers: number): DemoData {
  const hash = createSha256();
  let bytes = 0;
  for (let index = 1; index <= workers; index++) {
    const { inputs, targets } = linearExamples({ seed, shard: { index, count: workers } });
    for (const { buffer } of [inputs, targets]) {
      hash.update(new Uint8Array(buffer));
      bytes += buffer.byteLength;
    }
  }
  const name = `y = 3x1 - 1.5x2 + 0.5x3 + 1, seed ${seed}`;
  return { name, sha256: toHex(hash.digest()), bytes };
}

/** The CSV that is named; else a series of sines that each worker makes again from the seed. */
export async function demoSeries(seed: number, sources: TextOptions): Promise<DemoData> {
  const { series, file } = await openSeries({ seed }, sources);
  if (file === undefined) {
    const { buffer, byteLength } = series.values;
    const hash = createSha256();
    hash.update(new Uint8Array(buffer));
    const name = `sines with noise and changes, seed ${seed}`;
    return { name, sha256: toHex(hash.digest()), bytes: byteLength };
  }
  return namedData(basename(file.name), file.sha256, file.size, sources);
}

/** The folder of pictures that is named; else shapes that each worker draws again from the seed. */
export async function demoPictures(seed: number, sources: TextOptions): Promise<DemoData> {
  const { pixels = 0 } = presets.vit;
  const { pictures, sha256 } = await openPictures({ seed, pixels }, sources);
  const { bytes, labels, classes } = pictures;
  const hash = sha256 ?? toHex(hashPictures(pictures, createSha256));
  const name = `${labels.length} pictures of ${classes.join(', ')}`;
  return namedData(name, hash, bytes.length, sources);
}

const namedData = (
  name: string,
  sha256: string,
  bytes: number,
  { corpus }: TextOptions,
): DemoData => ({ name, sha256, bytes, ...(corpus !== undefined && { file: corpus }) });

/** An empty folder the person names, or our own, replaced each time. Never empties a folder that somebody named; throws `run/busy` when another demo uses ours. */
export async function demoFolder(
  name: string,
  given: string | undefined,
  scope: Scope,
): Promise<string> {
  const dir = given ?? join(dataHome(), 'demos', name);
  await mkdir(dir, { recursive: true });
  const entries = await readdir(dir);
  if (given !== undefined && entries.length > 0) {
    throw new ConfigError('demo/folder', `${dir} is not empty`, {
      hint: 'name a new folder with --dir, or leave it out',
    });
  }
  const lock = await takeLock(dir);
  scope.defer(() => lock.release());
  for (const entry of entries) {
    if (entry !== 'lock') await rm(join(dir, entry), { recursive: true, force: true });
  }
  return dir;
}
