/**
 * Finds state dicts in PyTorch files: checkpoints nest them next to optimizer states and epochs. The search order is
 * that of the Python reference.
 */
import { ok, type Result, refuse } from '../base/errors.ts';
import type { Params } from '../tensor/params.ts';
import type { NamedTensor } from '../tensor/safetensors.ts';
import { stateOfTensors } from './state-json.ts';
import { decodeTorch, readTorchTensor, TorchModule, TorchTensor } from './torch-file.ts';

/**
 * Decodes the first state dict in a PyTorch file, of any architecture, including buffers, sorted by name; f32 if all
 * tensors are. Pickles are read through an allow-list. Never throws.
 *
 * @example
 * ```ts
 * import { decodeTorchState } from 'nostrain/python';
 *
 * decodeTorchState(new Uint8Array(8)).ok; // => false
 * ```
 */
export function decodeTorchState(file: Uint8Array): Result<Params> {
  const payload = decodeTorch(file);
  if (!payload.ok) return payload;
  for (const dict of findStateDicts(payload.value)) {
    const tensors = readStateDict(dict);
    if (tensors.ok) return stateOfTensors(tensors.value);
  }
  return refuse('torch/format', 'file', 'contains no state dict');
}

type Dict = ReadonlyMap<unknown, unknown>;

const isDict = (value: unknown): value is Dict => value instanceof Map;

const CONTAINERS = [
  'state_dict',
  'model_state_dict',
  'network_state_dict',
  'module_state_dict',
  'ema_state_dict',
  'model',
  'module',
  'network',
  'net',
  'ema',
  'ema_model',
  'student',
  'teacher',
  'checkpoint',
  'trainer',
];
const DEPTH = 3;

/** Returns all dicts that may be a state dict, the most likely first. */
export function findStateDicts(payload: unknown): readonly Dict[] {
  const candidates: Dict[] = [];
  const visited = new Set<unknown>();
  const walk = (node: unknown, depth: number) => {
    if (depth < 0 || visited.has(node)) return;
    visited.add(node);
    if (node instanceof TorchModule) candidates.push(moduleState(node));
    if (!isDict(node)) return;
    candidates.push(node);
    for (const key of CONTAINERS) walk(node.get(key), depth - 1);
    for (const [key, value] of node) {
      if (!CONTAINERS.includes(String(key))) walk(value, depth - 1);
    }
  };
  walk(payload, DEPTH);
  return candidates;
}

/** Returns the first runtime that `read` recognizes under the keys that may name one. */
export function findRuntimeHint<T>(
  payload: unknown,
  read: (text: string) => T | undefined,
): T | undefined {
  const search = (node: unknown, depth: number): T | undefined => {
    if (!isDict(node) || depth < 0) return undefined;
    for (const key of ['__nostrain_runtime__', 'runtime']) {
      const text = node.get(key);
      const runtime = typeof text === 'string' ? read(text) : undefined;
      if (runtime !== undefined) return runtime;
    }
    for (const key of ['metadata', 'meta', 'checkpoint']) {
      const runtime = search(node.get(key), depth - 1);
      if (runtime !== undefined) return runtime;
    }
    return undefined;
  };
  return search(payload, DEPTH);
}

/** Maximum modules and length of a tensor name: in a hostile file, modules can contain themselves. */
const MAX_MODULES = 10_000;
const MAX_PATH = 1000;

/** Returns the `state_dict()` of a module: parameters and persistent buffers, with prefixes for inner modules. */
function moduleState(root: TorchModule): Dict {
  const state = new Map<string, unknown>();
  const open = [{ module: root, prefix: '' }];
  for (const { module, prefix } of open) {
    const fleeting = module.members.get('_non_persistent_buffers_set');
    for (const kind of ['_parameters', '_buffers', '_modules']) {
      const members = module.members.get(kind);
      for (const [name, member] of isDict(members) ? members : []) {
        const path = `${prefix}${String(name)}`;
        if (path.length > MAX_PATH || open.length > MAX_MODULES) return new Map();
        if (kind === '_buffers' && Array.isArray(fleeting) && fleeting.includes(name)) continue;
        if (member instanceof TorchModule) open.push({ module: member, prefix: `${path}.` });
        else if (kind !== '_modules' && member !== null) state.set(path, member);
      }
    }
  }
  return state;
}

/** Maximum ratio of values to stored bytes. Tied weights repeat values; more repetition would exhaust memory. */
const MAX_SHARING = 4;

/** Returns the tensors under the text keys of a dict. Fails if a value is not a tensor. */
export function readStateDict(dict: Dict): Result<readonly NamedTensor[]> {
  const tensors: [string, TorchTensor][] = [];
  for (const [name, value] of dict) {
    if (typeof name !== 'string') continue;
    if (!(value instanceof TorchTensor)) {
      return refuse('torch/state-dict', name.slice(0, 80), 'is not a tensor');
    }
    tensors.push([name, value]);
  }
  if (tensors.length === 0) return refuse('torch/state-dict', 'dict', 'contains no tensors');
  const values = tensors.reduce((sum, [, { size }]) => sum + size, 0);
  const storages = new Set(tensors.map(([, { storage }]) => storage.bytes));
  const bytes = [...storages].reduce((sum, storage) => sum + storage.length, 0);
  if (values > MAX_SHARING * bytes) {
    return refuse('torch/state-dict', 'dict', `${values} values from only ${bytes} bytes`);
  }
  return ok(
    tensors.map(([name, tensor]) => ({
      name,
      shape: tensor.shape,
      values: readTorchTensor(tensor),
    })),
  );
}
