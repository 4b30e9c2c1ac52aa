/** What is told of a CUDA that lacks something: the file, and the part that it belongs to. */
import { copyFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { missingLibraries, wordMissing } from '../../../src/node/engine/onnxruntime.ts';
import { itWith } from '../../support/needs.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const folder = temporaryFolder();
const isHere = process.platform === 'linux' && process.arch === 'x64';

it('names the library and where it comes from', () => {
  expect(wordMissing(['libcublasLt.so.13'])).toBe(
    'libcublasLt.so.13 (cuBLAS, of CUDA 13) is missing',
  );
  expect(wordMissing(['libcudnn.so.9', 'libcuda.so.1', 'libz.so.1'])).toBe(
    'libcudnn.so.9 (cuDNN 9), libcuda.so.1 (NVIDIA driver), libz.so.1 are missing',
  );
  expect(wordMissing(['libcurand.so.10'])).toBe('libcurand.so.10 (cuRAND of CUDA) is missing');
});

itWith(isHere ? undefined : 'the loader of Linux on x64 is asked')(
  'finds out by the loader of the machine',
  async () => {
    const engine = dirname(createRequire(import.meta.url).resolve('onnxruntime-node'));
    const binding = join(engine, '../bin/napi-v6/linux/x64/onnxruntime_binding.node');
    expect(await missingLibraries(binding)).toEqual([]);
    // taken from beside the library that it needs
    await copyFile(binding, folder('binding.so'));
    expect(await missingLibraries(folder('binding.so'))).toEqual(['libonnxruntime.so.1']);
    expect(await missingLibraries(folder('nowhere.so'))).toEqual([]);
  },
);
