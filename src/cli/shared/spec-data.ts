/** The data that a new spec names, from this machine: the corpus that everybody trains on, and the slice on which all evaluate. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../../base/errors.ts';
import type { SpecRequest } from '../../certified/make-spec.ts';
import { openCorpus } from '../../node/corpus.ts';
import { dataHome } from '../../node/data-home.ts';
import { nativeSha256 } from '../../node/native-sha256.ts';

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
