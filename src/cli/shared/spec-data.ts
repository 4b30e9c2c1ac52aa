/**
 * The data that a new spec names, from this machine: the corpus that everybody trains on, and the slice on which
 * all evaluate.
 */
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { concatBytes } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import type { NamedCorpus, SpecRequest } from '../../certified/make-spec.ts';
import { dividePictures, packPictures } from '../../model/data/pictures.ts';
import { scaleOf } from '../../model/data/series.ts';
import { manifestDigest } from '../../network/chunks/manifest.ts';
import { findManifest } from '../../node/checkpoint/sources.ts';
import type { Sources } from '../../node/data/sources.ts';
import {
  openNamedCorpus,
  openPictures,
  openSeries,
  readPictures,
} from '../../node/data/sources.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import type { ChunkedFile } from '../../run/chunked-files.ts';
import { type FormName, formOf } from '../../run/data-forms.ts';
import type { Settings } from '../../run/settings.ts';
import { readSpec } from '../../run/spec/read-spec.ts';
import { canonicalSpec, type RunSpec } from '../../run/spec/run-spec.ts';
import type { Untyped } from '../../run/spec/spec-readers.ts';

export interface DataFlags {
  readonly corpus?: string | undefined;
  /** File of the evaluation slice. */
  readonly evaluation?: string | undefined;
}

interface Surroundings {
  onNotice(message: string): void;
  readonly signal: AbortSignal;
}

/** What `makeSpec` asks of this machine. */
export async function dataOfSpec(
  { corpus: file, evaluation }: DataFlags,
  { onNotice, signal }: Surroundings,
): Promise<Pick<SpecRequest, 'slice' | 'namesCorpus' | 'corpus' | 'sha256'>> {
  return {
    sha256: nativeSha256,
    slice: evaluation === undefined ? undefined : sliceReader(evaluation, signal),
    namesCorpus: file !== undefined,
    corpus: async (wanted, training) => {
      const sources = {
        corpus: file,
        fixed: { ...(wanted && { sha256: wanted }) },
        onNotice,
        signal,
      };
      const named = await readers[formOf(training)](sources, training);
      onNotice(`the data is ${named.name}, ${named.bytes} bytes`);
      return named;
    },
  };
}

const WHOLE = { index: 1, count: 1 };

type Reader = (
  sources: Pick<Sources, 'corpus' | 'fixed' | 'onNotice' | 'signal'>,
  training: Settings,
) => Promise<NamedCorpus & { readonly name: string }>;

const readText: Reader = async (sources) => {
  const { sha256, size: bytes, name } = await openNamedCorpus(sources);
  return { sha256, bytes, name };
};

/** What a spec says of a corpus, by the form of data that a model reads. */
const readers: Readonly<Record<FormName, Reader>> = {
  tokens: readText,
  rows: readText,
  series: async (sources, training) => {
    const { series, file } = await openSeries(training, sources);
    scaleOf(series, training); // as long as it has to be
    const { channels } = series;
    return {
      ...namedOf(file?.sha256),
      bytes: file?.size ?? 0,
      name: file?.name ?? '',
      sizes: { channels },
    };
  },
  images: async (sources, training) => {
    const { pictures, sha256 } = await openPictures(training, sources);
    dividePictures(pictures, WHOLE); // enough of each class
    const { channels, classes, labels, bytes } = pictures;
    const name = `${labels.length} pictures of ${classes.length} classes`;
    const sizes = { channels, classes: classes.length };
    return { ...namedOf(sha256), bytes: bytes.length, name, sizes };
  },
};

function namedOf(sha256: string | undefined) {
  if (sha256 !== undefined) return { sha256 };
  throw new ConfigError('spec/data', 'the data of the run is not named', {
    hint: 'name it with --corpus, or leave data out of the document for synthetic data',
  });
}

/** Of a text or CSV the file, of pictures all that the folder has. */
const sliceReader =
  (path: string, signal: AbortSignal) =>
  async (training: Settings): Promise<Uint8Array> => {
    if (formOf(training) !== 'images') return readSlice(path);
    const pictures = await readPictures(path, training.pixels, signal);
    return concatBytes(...packPictures(pictures));
  };

async function readSlice(file: string): Promise<Uint8Array> {
  const buffer = await readFile(file).catch((cause: unknown) => {
    throw new ConfigError('spec/evaluation', `cannot read the evaluation slice ${file}`, {
      hint: 'name a text or CSV you may read with --evaluation FILE',
      cause,
    });
  });
  if (buffer.length > 0) return new Uint8Array(buffer);
  throw new ConfigError('spec/evaluation', `the evaluation slice ${file} is empty`, {
    hint: 'name a longer file with --evaluation FILE',
  });
}

export interface PackedFlags {
  /** `[name=]manifest`, each of the text or of a file of the base. */
  readonly packed?: readonly string[] | undefined;
  readonly packedAt?: readonly string[] | undefined;
  readonly corpus?: string | undefined;
}

/**
 * The spec with where its text and the files of its base are in chunks. Throws a ConfigError about what the run
 * does not need.
 */
export async function withPacked(
  spec: RunSpec,
  { packed = [], packedAt = [], corpus = '' }: PackedFlags,
  signal: AbortSignal,
): Promise<RunSpec> {
  if (packed.length === 0) return spec;
  const { data, start } = spec;
  const each: ChunkedFile[] = [];
  for (const text of packed) {
    const [, givenName, what = ''] = /^(?:([^=/\\]+)=)?(.+)$/s.exec(text) ?? [];
    const { manifest } = await findManifest(what, [], signal);
    const { bytes, sha256, blake3 } = manifest;
    const isText = data.kind === 'corpus' && data.sha256 === sha256;
    const ofBase = start?.files.find((file) => file.sha256 === sha256);
    const name =
      givenName ?? ofBase?.name ?? (isText ? `text${extname(corpus) || '.txt'}` : undefined);
    if (name === undefined) {
      throw new ConfigError(
        'spec/packed',
        `${what} is not of the text of the run, nor of its base`,
        {
          hint:
            'pack the very file that --corpus or --base names; ' +
            'of a base say NAME=FOLDER for what is read beside its weights',
        },
      );
    }
    const digest = manifestDigest(manifest, nativeSha256);
    each.push({ name, bytes, sha256, blake3, manifest: digest });
  }
  const files = { at: [...new Set(packedAt)].sort(), each };
  const features = [...new Set([...spec.features, 'files'])].sort();
  return readSpec({ ...(JSON.parse(canonicalSpec(spec)) as Untyped), files, features });
}
