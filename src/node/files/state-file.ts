/** Reads and writes model states in files of every format, and reads the state in the folder of a run. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CheckpointError, NostrainError } from '../../base/errors.ts';
import {
  decodeStoredState,
  encodeStoredState,
  type StorageOptions,
  type StoredState,
} from '../../formats/stored-state.ts';
import { kindOf } from './atomic-file.ts';

const FORMATS = 'name a state as JSON, .npz, .pt, .pth or .safetensors, or the folder of a run';

/**
 * Reads a state, its tensors sorted by name, and the runtime it names. The format follows from the file's name unless
 * given. A folder is taken as the folder of a run. Throws a CheckpointError (`state/file`) with the file and reason.
 *
 * @example
 * ```ts
 * import { mkdtemp, rm } from 'node:fs/promises';
 * import { tmpdir } from 'node:os';
 * import { join } from 'node:path';
 * import { initializeLinearRegressionState, stateDigest } from 'nostrain/python';
 * import { loadModelState, writeModelState } from 'nostrain/python/node';
 *
 * const folder = await mkdtemp(join(tmpdir(), 'state-'));
 * const state = initializeLinearRegressionState(3);
 * await writeModelState(join(folder, 'state.pt'), state);
 * const read = await loadModelState(join(folder, 'state.pt'));
 * await rm(folder, { recursive: true });
 * read.runtime; // => 'linear-regression'
 * stateDigest(read); // => stateDigest(state)
 * ```
 */
export async function readStateFile(
  path: string,
  format: StorageOptions['format'] = 'auto',
): Promise<StoredState> {
  const isFolder = (await kindOf(path)) === 'folder';
  const file = isFolder ? join(path, 'state.safetensors') : path;
  const refuse = (message: string, cause: unknown, hint = FORMATS) =>
    new CheckpointError('state/file', message, { hint, cause });
  const bytes = await readFile(file).catch((cause: unknown) => {
    throw refuse(`cannot read the state ${file}`, cause);
  });
  try {
    return decodeStoredState(bytes, file, { format: isFolder ? 'safetensors' : format });
  } catch (cause) {
    if (!(cause instanceof NostrainError)) throw cause;
    throw refuse(`${file} is not a usable state: ${cause.message}`, cause, cause.hint);
  }
}

/**
 * Writes a state, and creates its folder. The format follows from the file's name unless given. Throws a ConfigError if
 * the format cannot hold the state, and a CheckpointError (`state/write`) if the file cannot be written.
 *
 * @example
 * ```ts
 * import { mkdtemp, readFile, rm } from 'node:fs/promises';
 * import { tmpdir } from 'node:os';
 * import { join } from 'node:path';
 * import { createLayout, formatStateJson } from 'nostrain/python';
 * import { writeModelState } from 'nostrain/python/node';
 *
 * const folder = await mkdtemp(join(tmpdir(), 'state-'));
 * const layout = createLayout([{ name: 'w', shape: [1] }]);
 * const state = { layout, values: Float64Array.of(0.5) };
 * await writeModelState(join(folder, 'deep', 'state.json'), state);
 * const text = await readFile(join(folder, 'deep', 'state.json'), 'utf8');
 * await rm(folder, { recursive: true });
 * text; // => formatStateJson(state)
 * ```
 */
export async function writeStateFile(
  path: string,
  state: StoredState,
  options: StorageOptions = {},
): Promise<void> {
  const bytes = encodeStoredState(state, path, options);
  const write = async () => {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, bytes);
  };
  await write().catch((cause: unknown) => {
    throw new CheckpointError('state/write', `cannot write the state ${path}`, {
      hint: 'name a file in a writable folder',
      cause,
    });
  });
}
