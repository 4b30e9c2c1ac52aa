/** Models exported by PyTorch (test/vectors/make_onnx.py), opened. */
import { inflateSync } from 'node:zlib';
import { importOnnx } from '../../src/model/imported/import-onnx.ts';
import { importedModel } from '../../src/model/imported/model.ts';
import type { ImportedModelName } from '../../src/run/data-forms.ts';
import { readVectors } from './vectors.ts';

export interface ExportedCase {
  readonly name: string;
  readonly model: ImportedModelName;
  readonly exporter: string;
  readonly opset: number;
  readonly onnx: string;
  readonly data: string | readonly number[];
  readonly targets: readonly number[] | null;
  readonly losses: readonly number[];
  readonly loss: number;
  readonly gradient: Readonly<Record<string, string>>;
  /** Losses of 20 steps. */
  readonly steps: readonly number[];
  readonly statistics: Readonly<Record<string, string>>;
}

export const { cases, batch } = readVectors<{
  readonly cases: readonly ExportedCase[];
  readonly batch: number;
}>('onnx.json');

const bytesOf = (text: string) => Uint8Array.from(Buffer.from(text, 'base64'));
export const floats = (text: string) => new Float32Array(bytesOf(text).buffer);

const none = (): Uint8Array => {
  throw new Error('there is no data file');
};

/** Returns the file, its weights and the model. */
export const opened = ({ onnx, model }: ExportedCase) => {
  const file = new Uint8Array(inflateSync(bytesOf(onnx)));
  const imported = importOnnx(file, none);
  return { file, imported, model: importedModel(imported.graph, model) };
};
