/** Model states in files: the reference's JSON, safetensors, or the folder of a run. */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointError } from '../base/errors.ts';
import { compareCodePoints, createLayout, type Params } from '../tensor/params.ts';
import { decodeSafetensors } from '../tensor/safetensors.ts';
import { parseStateJson } from '../tensor/state-json.ts';
import { joinTensors, OWN } from './state-file.ts';

/** The parameters in a file, sorted by name. Throws `state/file` naming the file and what is wrong with it. */
export async function readStateFile(path: string): Promise<Params> {
  const isFolder = await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
  const file = isFolder ? join(path, 'state.safetensors') : path;
  const bytes = await readFile(file).catch((cause: unknown) => {
    throw new CheckpointError('state/file', `cannot read the state ${file}`, {
      hint: 'name a JSON state, a .safetensors file or the folder of a run',
      cause,
    });
  });
  if (!file.endsWith('.safetensors')) return parseStateJson(bytes.toString('utf8'));
  const decoded = decodeSafetensors(bytes);
  if (!decoded.ok) {
    throw new CheckpointError('state/file', `${file} is no usable state: ${decoded.issue.message}`);
  }
  const tensors = decoded.value.tensors
    .filter(({ name }) => !name.startsWith(OWN))
    .sort((a, b) => compareCodePoints(a.name, b.name));
  const layout = createLayout(tensors);
  return { layout, values: joinTensors(tensors, layout) };
}
