/** Model states in files: the reference's JSON, safetensors, or the folder of a run. */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointError, NostrainError } from '../base/errors.ts';
import { compareCodePoints, createLayout, type Params } from '../tensor/params.ts';
import { decodeSafetensors } from '../tensor/safetensors.ts';
import { parseStateJson } from '../tensor/state-json.ts';
import { joinTensors, OWN } from './state-file.ts';

const FORMATS = 'name a JSON state, a .safetensors file or the folder of a run';

/** The parameters in a file, sorted by name. Throws `state/file` naming the file and what is wrong with it. */
export async function readStateFile(
  path: string,
  format: 'auto' | 'json' = 'auto',
): Promise<Params> {
  const isFolder = await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
  const file = isFolder ? join(path, 'state.safetensors') : path;
  const refuse = (message: string, cause?: unknown, hint = FORMATS) =>
    new CheckpointError('state/file', message, { hint, cause });
  const bytes = await readFile(file).catch((cause: unknown) => {
    throw refuse(`cannot read the state ${file}`, cause);
  });
  const isJson = format === 'json' && !isFolder;
  const [foreign] = /\.(?:npz|pth?)$/i.exec(file) ?? [];
  if (foreign !== undefined && !isJson) throw refuse(`${file}: ${foreign} states cannot be read`);
  try {
    return isJson || !file.endsWith('.safetensors')
      ? parseStateJson(bytes.toString('utf8'))
      : fromSafetensors(bytes);
  } catch (cause) {
    if (!(cause instanceof NostrainError)) throw cause;
    throw refuse(`${file} is no usable state: ${cause.message}`, cause, cause.hint);
  }
}

function fromSafetensors(bytes: Uint8Array): Params {
  const decoded = decodeSafetensors(bytes);
  if (!decoded.ok) throw new CheckpointError('state/file', decoded.issue.message);
  const tensors = decoded.value.tensors
    .filter(({ name }) => !name.startsWith(OWN))
    .sort((a, b) => compareCodePoints(a.name, b.name));
  const layout = createLayout(tensors);
  return { layout, values: joinTensors(tensors, layout) };
}
