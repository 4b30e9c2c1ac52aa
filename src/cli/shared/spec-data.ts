/** The data that a new spec names, from this machine: the corpus that everybody trains on, and the slice on which all evaluate. */
import { readFile, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { ConfigError, RelayError } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import type { SpecRequest } from '../../certified/make-spec.ts';
import { manifestDigest } from '../../checkpoint/manifest.ts';
import { fetchSlice } from '../../network/wire/run-board.ts';
import { findManifest } from '../../node/checkpoint/find-manifest.ts';
import { openCorpus } from '../../node/corpus.ts';
import { dataHome } from '../../node/data-home.ts';
import { nativeSha256 } from '../../node/native-sha256.ts';
import type { ChunkedFile } from '../../run/chunked-files.ts';
import { readSpec } from '../../run/read-spec.ts';
import { canonicalSpec, type RunSpec } from '../../run/run-spec.ts';
import type { Untyped } from '../../run/spec-readers.ts';
import { type Reach, withRelays } from './with-relays.ts';

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
    slice: evaluation === undefined ? undefined : await readSlice(evaluation),
    namesCorpus: file !== undefined,
    corpus: async (wanted) => {
      const cacheDir = join(dataHome(), 'corpora');
      const source = { file, wanted, cacheDir, allowDownload: true, onNotice, signal };
      const { sha256, size, name } = await openCorpus(source);
      onNotice(`the data is ${name}, ${size} bytes`);
      return { sha256, bytes: size };
    },
  };
}

async function readSlice(file: string): Promise<Uint8Array> {
  const buffer = await readFile(file).catch((cause: unknown) => {
    throw new ConfigError('spec/evaluation', `cannot read the evaluation slice ${file}`, {
      hint: 'name a text you may read with --evaluation FILE',
      cause,
    });
  });
  if (buffer.length > 0) return new Uint8Array(buffer);
  throw new ConfigError('spec/evaluation', `the evaluation slice ${file} is empty`, {
    hint: 'name a longer text with --evaluation FILE',
  });
}

export interface PackedFlags {
  /** `[name=]manifest`, each of the text or of a file of the base. */
  readonly packed?: readonly string[] | undefined;
  readonly packedAt?: readonly string[] | undefined;
  readonly corpus?: string | undefined;
}

/** The spec with where its text and the files of its base are in chunks. Throws a ConfigError about what the run does not need. */
export async function withPacked(
  spec: RunSpec,
  { packed = [], packedAt = [], corpus = '' }: PackedFlags,
  signal: AbortSignal,
): Promise<RunSpec> {
  if (packed.length === 0) return spec;
  const { data, start } = spec;
  const each: ChunkedFile[] = [];
  for (const text of packed) {
    const [, said, what = ''] = /^(?:([^=/\\]+)=)?(.+)$/s.exec(text) ?? [];
    const { manifest } = await findManifest(what, [], signal);
    const { bytes, sha256, blake3 } = manifest;
    const isText = data.kind === 'corpus' && data.sha256 === sha256;
    const ofBase = start?.files.find((file) => file.sha256 === sha256);
    const name = said ?? ofBase?.name ?? (isText ? `text${extname(corpus) || '.txt'}` : undefined);
    if (name === undefined) {
      throw new ConfigError(
        'spec/packed',
        `${what} is not of the text of the run, nor of its base`,
        {
          hint: 'pack the very file that --corpus or --base names; of a base say NAME=FOLDER for what is read beside its weights',
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

const SLICE_MS = 120_000;

/** The evaluation slice from the folder, or from relays and then kept there. */
export async function sliceOf(
  { evaluation, author }: RunSpec,
  dir: string,
  urls: readonly string[],
  reach: Reach,
): Promise<Uint8Array | undefined> {
  if (evaluation === null) return undefined;
  const file = join(dir, 'evaluation.txt');
  const kept = await readFile(file).catch(() => undefined);
  if (kept && sha256Hex(kept) === evaluation.sha256) return new Uint8Array(kept);
  return withRelays(urls, reach, async (board) => {
    const found = await fetchSlice(evaluation, author, { ...board, timeoutMs: SLICE_MS });
    if (!found.ok) {
      throw new RelayError(
        'run/slice',
        `the evaluation slice is not there: ${found.issue.message}`,
        { hint: 'ask other relays with --relay URL, or have its author publish the run again' },
      );
    }
    await writeFile(file, found.value);
    return found.value;
  });
}
