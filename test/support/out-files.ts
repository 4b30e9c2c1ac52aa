/** Collects generated files in memory, and opens them again. */
import { concatBytes } from 'nostrain/base';
import type { OutFile } from 'nostrain/formats';
import { type ModelFiles, sourceOf } from '../../src/pretrained/weights.ts';

export async function bytesOf({ pieces }: OutFile): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const piece of pieces()) parts.push(Uint8Array.from(piece));
  return concatBytes(...parts);
}

export async function filesFrom(files: readonly OutFile[]): Promise<ModelFiles> {
  const contents = new Map<string, Uint8Array>();
  for (const file of files) contents.set(file.name, await bytesOf(file));
  return {
    name: 'a model',
    open: (name) => {
      const bytes = contents.get(name);
      return Promise.resolve(bytes && sourceOf(name, bytes));
    },
  };
}
