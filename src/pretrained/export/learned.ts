/** What a run has made of a published model, tensor by tensor, for the files it is taken elsewhere in. */
import { type LoraSpec, mergeLora } from '../../model/adapters/lora.ts';
import type { Pretrained } from '../pretrained.ts';
import { readFinite } from '../weights.ts';

/** A published model and what was learned of it. */
export interface Learned {
  readonly pretrained: Pretrained;
  /** Undefined where all of the model's own tensors were trained. */
  readonly adapter: LoraSpec | undefined;
  /** The learned tensors by name: those of the adapter, trained or not, or all of the model. */
  own(name: string): Float32Array;
}

/** A file to be written, in pieces, so that no model is ever in memory as a whole. */
export interface OutFile {
  readonly name: string;
  pieces(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** One tensor of the model, what was learned included. */
export interface LearnedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  read(): Promise<Float32Array>;
}

/** In the order of the model's files. */
export function learnedTensors({ pretrained, adapter, own }: Learned): readonly LearnedTensor[] {
  const merges = adapter ? mergeLora(pretrained.spec, adapter) : undefined;
  return [...pretrained.tensors].map(([name, stored]) => ({
    name,
    shape: stored.shape,
    read: async () => {
      if (!merges) return own(name);
      const base = await readFinite(name, stored);
      return merges.get(name)?.(base, own) ?? base;
    },
  }));
}

/** A file of one piece. */
export const outFile = (name: string, bytes: Uint8Array): OutFile => ({
  name,
  pieces: () => [bytes],
});

/** A JSON file as people read it. */
export const jsonFile = (name: string, value: unknown): OutFile =>
  outFile(name, new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`));

/** The bytes that numbers lie in. */
export const rawBytes = (values: Float32Array | Uint16Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
