/** An ONNX file on disk: its graph, its weights, and the hashes by which the workers of a run compare it. */
import { readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { ConfigError } from '../../base/errors.ts';
import type { CustomModel } from '../../model/architectures/architecture.ts';
import { type Imported, importOnnx } from '../../model/imported/import-onnx.ts';
import { importedModel } from '../../model/imported/model.ts';
import { modelLayout } from '../../model/parameters.ts';
import type { ImportedModelName } from '../../run/data-forms.ts';
import type { Settings } from '../../run/settings.ts';
import type { BaseIdentity } from '../../run/spec/start.ts';
import type { HashOptions } from '../files/atomic-file.ts';
import { hashFiles } from './model-files.ts';

/** Maximum length of an ONNX file and of a data file next to it; both are loaded into memory. */
const MOST_BYTES = 2 ** 31 - 1;

export interface ImportedFile extends Imported {
  readonly bytes: Uint8Array;
  /** Names of the file and of the data files next to it. */
  readonly names: readonly string[];
  /** Returns the bytes of a data file. */
  beside(name: string): Uint8Array;
}

/** Opens an ONNX file. Throws a ConfigError (`onnx/…`) that names what cannot be read. */
export async function openImported(path: string): Promise<ImportedFile> {
  const file = await stat(path).catch(() => undefined);
  if (!file?.isFile() || file.size > MOST_BYTES) {
    const reason = file?.isFile() ? `has ${file.size} bytes` : 'is not a file';
    throw new ConfigError('onnx/missing', `${path} ${reason}`, {
      hint: 'name an .onnx file of at most 2 GiB with --model; larger weights go into a data file',
    });
  }
  const bytes = new Uint8Array(readFileSync(path));
  const data = new Map<string, Uint8Array>();
  const beside = (name: string): Uint8Array => {
    const known = data.get(name) ?? readBeside(join(dirname(path), name));
    data.set(name, known);
    return known;
  };
  const imported = importOnnx(bytes, beside);
  return { ...imported, bytes, beside, names: [basename(path), ...data.keys()] };
}

function readBeside(path: string): Uint8Array {
  try {
    return new Uint8Array(readFileSync(path));
  } catch (error) {
    throw unreadable(path, error);
  }
}

const unreadable = (path: string, cause: unknown): ConfigError =>
  new ConfigError('onnx/missing', `the data file ${path} cannot be read`, {
    hint: 'copy it next to the .onnx file, or export with external_data=False',
    cause,
  });

/** An imported model that a worker trains. */
export interface ImportedTask extends BaseIdentity {
  readonly model: CustomModel;
  /** Returns the weights of the file in the layout of the model. */
  first(): Float32Array;
  /** Returns the tensors that are not trained. */
  frozen(): Promise<Readonly<Record<string, Float32Array>>>;
}

/** Opens the file of these settings as the model to train. */
export async function openImportedTask(
  { base, model: name, context }: Pick<Settings, 'base' | 'model' | 'context'>,
  options: HashOptions,
): Promise<ImportedTask> {
  const file = await openImported(base);
  const { graph, elementsOf } = file;
  const model = importedModel(graph, name as ImportedModelName, context);
  const frozen = graph.tensors.filter(({ role }) => role === 'frozen');
  return {
    model,
    files: await hashFiles(base, file.names, options),
    // the tokens of imported text models are those of the settings
    tokenizerSha256: '0'.repeat(64),
    first: () => {
      const { slots, size } = modelLayout(model);
      const values = new Float32Array(size);
      for (const slot of slots) values.set(elementsOf(slot.name), slot.offset);
      return values;
    },
    frozen: async () =>
      Object.fromEntries(frozen.map((tensor) => [tensor.name, elementsOf(tensor.name)])),
  };
}
