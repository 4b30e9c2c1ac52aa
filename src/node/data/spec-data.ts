/** Reads the data that a new spec refers to: the shared corpus, and the evaluation slice. */

import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { concatBytes } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import type { Untyped } from '../../base/shape.ts';
import type { NamedCorpus, SpecRequest } from '../../certified/make-spec.ts';
import { dividePictures, packPictures } from '../../model/data/pictures.ts';
import { scaleOf } from '../../model/data/series.ts';
import { manifestDigest } from '../../network/chunks/manifest.ts';
import { type ChunkedFile, SEALED_FILE } from '../../run/chunked-files.ts';
import { type FormName, formOf } from '../../run/data-forms.ts';
import type { Settings } from '../../run/settings.ts';
import { readSpec } from '../../run/spec/read-spec.ts';
import { canonicalSpec, type RunSpec } from '../../run/spec/run-spec.ts';
import { findManifest } from '../checkpoint/sources.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { packedIn } from './sealed-data.ts';
import type { Sources } from './sources.ts';
import { openNamedCorpus, openPictures, openSeries, readPictures } from './sources.ts';

export interface DataFlags {
  readonly corpus?: string | undefined;
  /** File of the evaluation slice. */
  readonly evaluation?: string | undefined;
}

interface Surroundings {
  onNotice(message: string): void;
  readonly signal: AbortSignal;
}

/** Returns the parts of a SpecRequest that come from files on this machine. */
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

/** Readers of a corpus, by the form of data of the model. */
const readers: Readonly<Record<FormName, Reader>> = {
  tokens: readText,
  rows: readText,
  series: async (sources, training) => {
    const { series, file } = await openSeries(training, sources);
    scaleOf(series, training); // throws if the series is too short
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
    dividePictures(pictures, WHOLE); // throws if a class has too few pictures
    const { channels, classes, labels, bytes } = pictures;
    const name = `${labels.length} pictures of ${classes.length} classes`;
    const sizes = { channels, classes: classes.length };
    return { ...namedOf(sha256), bytes: bytes.length, name, sizes };
  },
};

function namedOf(sha256: string | undefined) {
  if (sha256 !== undefined) return { sha256 };
  throw new ConfigError('spec/data', 'the data of the run is not named', {
    hint: 'name it with --corpus, or remove data from the document to use synthetic data',
  });
}

/** Reads the evaluation slice: the file of a text or CSV, or all pictures of a folder. */
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
      hint: 'name a readable text or CSV with --evaluation FILE',
      cause,
    });
  });
  if (buffer.length > 0) return new Uint8Array(buffer);
  throw new ConfigError('spec/evaluation', `the evaluation slice ${file} is empty`, {
    hint: 'name a longer file with --evaluation FILE',
  });
}

export interface PackedFlags {
  /** Folder that `nostrain shard seal` wrote. */
  readonly sealed?: string | undefined;
  /** `[name=]manifest`, each for the text or for a file of the base. */
  readonly packed?: readonly string[] | undefined;
  readonly packedAt?: readonly string[] | undefined;
  readonly corpus?: string | undefined;
}

/**
 * Returns the spec with the manifests and sources of its chunked files. Throws `spec/packed` for a file that the run
 * does not need.
 */
export async function withPacked(
  spec: RunSpec,
  { packed: named = [], packedAt = [], corpus = '', sealed }: PackedFlags,
  signal: AbortSignal,
): Promise<RunSpec> {
  const packed = sealed === undefined ? named : [...named, `${SEALED_FILE}=${packedIn(sealed)}`];
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
        `${what} is neither the text of the run nor a file of its base`,
        {
          hint:
            'pack the file that --corpus or --base names; ' +
            'for a base file other than its weights use NAME=FOLDER',
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
