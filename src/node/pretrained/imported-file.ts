/**
 * An ONNX file on disk, or the folder of a certified run that has its graph and weights: the model to train, and the
 * hashes by which the workers of a run compare it.
 */
import { readFileSync } from 'node:fs';
import { mkdir, readFile, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { toHex } from '../../base/bytes.ts';
import { canonicalJson, type Json } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import type { CustomModel } from '../../model/architectures/architecture.ts';
import { type Imported, importOnnx } from '../../model/imported/import-onnx.ts';
import { importedModel } from '../../model/imported/model.ts';
import {
  firstParameters,
  importedShape,
  MOST_GRAPH_BYTES,
  type PackedModel,
  packImported,
  unpackImported,
} from '../../model/imported/packed.ts';
import { modelLayout } from '../../model/parameters.ts';
import { LEAST_CHUNK_BYTES } from '../../network/chunks/manifest.ts';
import { type ImportedModelName, isImported } from '../../run/data-forms.ts';
import type { Settings } from '../../run/settings.ts';
import { importedFiles } from '../../run/spec/imported-shape.ts';
import { assertSameBase, type BaseIdentity, hashBase, type Start } from '../../run/spec/start.ts';
import { packFile } from '../checkpoint/pack.ts';
import { kindOf, writeAtomically } from '../files/atomic-file.ts';
import { dataHome } from '../files/data-home.ts';
import { nativeSha256 } from '../native/sha256.ts';
import {
  type BaseModel,
  type FirstParameters,
  type OpenBase,
  openBase,
  rootOf,
  startFrom,
} from './base-model.ts';

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
export interface ImportedTask extends BaseIdentity, FirstParameters {
  readonly model: CustomModel;
  readonly packed: PackedModel;
  /** Returns the tensors that are not trained. */
  frozen(): Promise<Readonly<Record<string, Float32Array>>>;
}

/** The model that a run starts from, open: a published one, or one from an .onnx file. */
export type OpenedModel = BaseModel | ImportedTask;

type ImportedSettings = Pick<Settings, 'base' | 'model' | 'context'>;

/**
 * Opens the file or folder of these settings as the model to train. Throws a ConfigError (`base/other`) if it is not
 * the model of the run that `start` describes.
 */
export async function openImportedTask(
  { base, model: name, context }: ImportedSettings,
  start?: Start | null,
): Promise<ImportedTask> {
  const isFolder = (await kindOf(base)) === 'folder';
  const imported = isFolder ? await openFolder(base) : await openImported(base);
  const packed = packImported(imported);
  const identity = identityOf(packed);
  if (start) assertSameBase(identity, start);
  const { graph, elementsOf } = imported;
  const model = importedModel(graph, name as ImportedModelName, context);
  const shape: Json = JSON.parse(JSON.stringify(importedShape(model)));
  if (start && canonicalJson(shape) !== canonicalJson(start.model as never)) {
    throw new ConfigError('base/other', 'the run spec names other parameters than its graph has', {
      hint: 'the run spec is wrong: ask its creator for a new run',
    });
  }
  const frozen = graph.tensors.filter(({ role }) => role === 'frozen');
  return {
    ...identity,
    model,
    packed,
    first: async () => firstParameters(imported, modelLayout(model)),
    frozen: async () =>
      Object.fromEntries(frozen.map((tensor) => [tensor.name, elementsOf(tensor.name)])),
  };
}

/** Reads the files of a certified run. Throws a ConfigError (`onnx/missing`, `onnx/graph`) if they are unusable. */
async function openFolder(folder: string): Promise<Imported> {
  const read = async (name: string, most: number): Promise<Uint8Array> => {
    const path = join(folder, name);
    const size = (await stat(path).catch(() => undefined))?.size ?? 0;
    if (size > 0 && size <= most) return new Uint8Array(await readFile(path));
    throw new ConfigError('onnx/missing', `${path} is missing or too large`, {
      hint: 'name an .onnx file, or join the run again to download its model',
    });
  };
  return unpackImported({
    graph: await read(importedFiles.graph, MOST_GRAPH_BYTES),
    weights: await read(importedFiles.weights, MOST_BYTES),
  });
}

function identityOf({ graph, weights }: PackedModel): BaseIdentity {
  const file = (name: string, bytes: Uint8Array) => ({
    name,
    bytes: bytes.length,
    sha256: toHex(nativeSha256(bytes)),
  });
  return {
    files: [file(importedFiles.graph, graph), file(importedFiles.weights, weights)],
    // the tokens of imported text models are those of the settings
    tokenizerSha256: '0'.repeat(64),
  };
}

/** Returns the start section of a run spec for an imported model. */
async function startFromImported(
  settings: ImportedSettings & Pick<Settings, 'alpha' | 'targets'>,
): Promise<Start> {
  const { model, files, tokenizerSha256, first } = await openImportedTask(settings);
  const { alpha, targets } = settings;
  return {
    files,
    tokenizerSha256,
    from: [],
    model: importedShape(model),
    adapter: { rank: 0, alpha, targets, adapterTrain: 'both' },
    root: rootOf({ layout: modelLayout(model), values: await first(0) }),
  };
}

/** Returns the start section of a run spec for the .onnx file or the published model of these settings. */
export const startOfSettings = async (
  settings: Settings,
  options: OpenBase,
  more: readonly string[] = [],
): Promise<Start> =>
  isImported(settings)
    ? startFromImported(settings)
    : startFrom(await openBase({ ...settings, tiers: 0 }, options), settings, more);

/** Writes graph and weights of an imported model for joiners. Returns their folder. */
export async function writeForRun(settings: ImportedSettings): Promise<string> {
  const task = await openImportedTask(settings);
  const folder = join(dataHome(), 'models', `onnx-${hashBase(task).slice(0, 16)}`);
  await mkdir(folder, { recursive: true });
  for (const part of ['graph', 'weights'] as const)
    await writeAtomically(join(folder, importedFiles[part]), task.packed[part]);
  return folder;
}

/**
 * Writes the files of an imported model and their chunks, which joiners fetch. Returns the folders of the chunks.
 */
export async function packForRun(
  settings: ImportedSettings,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const folder = await writeForRun(settings);
  const folders: string[] = [];
  for (const name of Object.values(importedFiles)) {
    const path = join(folder, name);
    await packFile(path, `${path}.chunks`, {
      // events of relays are short
      chunkBytes: LEAST_CHUNK_BYTES,
      erasure: null,
      signal,
      onProgress: () => undefined,
    });
    folders.push(`${path}.chunks`);
  }
  return folders;
}
