/** Encodes and decodes state files in all formats of the Python reference; PyTorch states of regression models only. */
import { utf8 } from '../base/bytes.ts';
import { ConfigError, ok, type Result, refuse } from '../base/errors.ts';
import type { RegressionTask } from '../model/data/regression.ts';
import type { Params } from '../tensor/params.ts';
import { decodeSafetensors, encodeSafetensors } from '../tensor/safetensors.ts';
import { STATE_TENSOR_PREFIX } from '../worker/state-file.ts';
import { decodeNpz, encodeNpz } from './numpy.ts';
import {
  exportTorchStateDict,
  importTorchStateDict,
  parseRuntime,
  runtimeOfState,
} from './regression-state.ts';
import { formatStateJson, parseStateJson, stateOfTensors, tensorsOfState } from './state-json.ts';
import { decodeTorch } from './torch-file.ts';
import { encodeTorch, encodeTorchState, torchModule } from './torch-pickle.ts';
import { findRuntimeHint, findStateDicts, readStateDict } from './torch-state.ts';

/** A state, with the runtime that its file names. */
export interface StoredState extends Params {
  readonly runtime?: string | undefined;
}

export const torchPayloads = ['state-dict', 'module'] as const;

/** Options of `encodeStoredState` and `decodeStoredState`. */
export interface StorageOptions {
  /** `auto` (default) follows the file name. */
  readonly format?: StateFormat | 'auto' | undefined;
  /** Content of a `.pt` or `.pth` file. */
  readonly torchPayload?: (typeof torchPayloads)[number] | undefined;
}

/**
 * Returns the named format; `auto` follows the file name, else JSON. Throws a ConfigError for an unknown format.
 *
 * @example
 * ```ts
 * import { resolveStateFormat } from 'nostrain/python';
 *
 * resolveStateFormat('auto', 'state.pt.npz'); // => 'pytorch-state-dict'
 * resolveStateFormat('numpy-npz'); // => 'numpy-npz'
 * ```
 */
export function resolveStateFormat(format: string = 'auto', path = ''): StateFormat {
  if (format === 'auto') return inferStateFormat(path);
  return oneOf(format, stateFormats, 'state/format', 'a state format');
}

/** Returns the name, which must be one of these. Throws a ConfigError with the code otherwise. */
export function oneOf<T extends string>(
  name: string,
  names: readonly T[],
  code: string,
  what: string,
): T {
  const match = names.find((known) => known === name);
  if (match !== undefined) return match;
  throw new ConfigError(code, `${JSON.stringify(name.slice(0, 80))} is not ${what}`, {
    hint: `use one of ${names.join(', ')}`,
  });
}

/**
 * Returns the content of a `.pt` or `.pth` file to write; default a state dict. Throws a ConfigError for another name.
 *
 * @example
 * ```ts
 * import { resolveTorchCheckpointPayloadKind } from 'nostrain/python';
 *
 * resolveTorchCheckpointPayloadKind(); // => 'state-dict'
 * resolveTorchCheckpointPayloadKind('module'); // => 'module'
 * ```
 */
export const resolveTorchPayload = (kind = 'state-dict'): (typeof torchPayloads)[number] =>
  oneOf(kind, torchPayloads, 'state/payload', 'a payload kind');

/** Decodes the state in a file, sorted by name. Throws a ConfigError if the file is invalid. */
export function decodeStoredState(
  bytes: Uint8Array,
  name: string,
  options: StorageOptions = {},
): StoredState {
  switch (resolveStateFormat(options.format, name)) {
    case 'json':
      return parseStateJson(new TextDecoder().decode(bytes));
    case 'safetensors':
      return fromSafetensors(bytes);
    case 'numpy-npz': {
      const { params, runtime } = unwrap(decodeNpz(bytes, 'nostrain-model-state'));
      return { ...params, runtime };
    }
    case 'pytorch-state-dict':
      return isNativeTorch(name) ? fromTorch(bytes) : fromTorchNpz(bytes);
  }
}

/** Encodes a state file. Throws a ConfigError if the format cannot hold the state. */
export function encodeStoredState(
  state: StoredState,
  name: string,
  options: StorageOptions = {},
): Uint8Array {
  const { runtime } = state;
  switch (resolveStateFormat(options.format, name)) {
    case 'json':
      return utf8(formatStateJson(state));
    case 'safetensors': {
      const metadata = { format: 'nostrain-state', version: '1', ...(runtime && { runtime }) };
      return encodeSafetensors({ tensors: tensorsOfState(state), metadata });
    }
    case 'numpy-npz':
      return encodeNpz({ params: state, runtime }, 'nostrain-model-state');
    case 'pytorch-state-dict': {
      const task = runtimeOfState(state, runtimeNamed(runtime));
      const params = exportTorchStateDict(state, task);
      if (!isNativeTorch(name)) {
        return encodeNpz({ params, runtime: task }, 'nostrain-pytorch-state-dict');
      }
      return options.torchPayload === 'module'
        ? encodeTorch(torchModule(params))
        : encodeTorchState(params);
    }
  }
}

function fromSafetensors(bytes: Uint8Array): StoredState {
  const { tensors, metadata } = unwrap(decodeSafetensors(bytes));
  const params = unwrap(
    stateOfTensors(tensors.filter(({ name }) => !name.startsWith(STATE_TENSOR_PREFIX))),
  );
  return metadata.format === 'nostrain-state' ? { ...params, runtime: metadata.runtime } : params;
}

function fromTorchNpz(bytes: Uint8Array): StoredState {
  const { params, runtime } = unwrap(decodeNpz(bytes, 'nostrain-pytorch-state-dict'));
  return imported(params, runtimeNamed(runtime));
}

/** Returns the first state dict in the file that belongs to a regression model. */
function fromTorch(bytes: Uint8Array): StoredState {
  const payload = unwrap(decodeTorch(bytes));
  const hint = findRuntimeHint(payload, parseRuntime);
  let refused: Result<StoredState> = refuse('torch/format', 'file', 'contains no state dict');
  for (const dict of findStateDicts(payload)) {
    const match = attempt(() =>
      imported(unwrap(stateOfTensors(unwrap(readStateDict(dict)))), hint),
    );
    if (match.ok) return match.value;
    // the outermost dict is rarely the state dict, so report the last one that has tensors
    if (refused.ok || match.issue.code !== 'torch/state-dict') refused = match;
  }
  return unwrap(refused);
}

function imported(stateDict: Params, expected: RegressionTask | undefined): StoredState {
  const params = importTorchStateDict(stateDict, expected);
  return { ...params, runtime: runtimeOfState(params) };
}

/** Returns the runtime that a file names. Throws a ConfigError if it is unknown. */
function runtimeNamed(text: string | undefined): RegressionTask | undefined {
  const runtime = text === undefined ? undefined : parseRuntime(text);
  if (text === undefined || runtime !== undefined) return runtime;
  throw new ConfigError('state/runtime', `unknown runtime ${text.slice(0, 80)}`, {
    hint: 'PyTorch states hold linear-regression or mlp-regression models',
  });
}

function unwrap<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  const { code, at, message } = result.issue;
  throw new ConfigError(code, `${at}: ${message}`);
}

function attempt<T>(read: () => T): Result<T> {
  try {
    return ok(read());
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return refuse(error.code, 'state dict', error.message);
  }
}

/**
 * The formats of state files. `safetensors` is an addition of this project; the Python reference has the others.
 *
 * @example
 * ```ts
 * import { stateFormats } from 'nostrain/python';
 *
 * stateFormats; // => ['json', 'numpy-npz', 'pytorch-state-dict', 'safetensors']
 * ```
 */
export const stateFormats = ['json', 'numpy-npz', 'pytorch-state-dict', 'safetensors'] as const;

/** A file format of states; `stateFormats` lists them. */
export type StateFormat = (typeof stateFormats)[number];

/** Returns the extensions of a file name in lower case: `.pt` and `.npz` of `x.PT.npz`. */
function endings(path: string): readonly string[] {
  const name = (path.split(/[/\\]/).at(-1) ?? '').replace(/^\.+/, '');
  return name.toLowerCase().match(/\.[^.]+/g) ?? [];
}

/**
 * Returns the format that a file name implies; JSON by default.
 *
 * @example
 * ```ts
 * import { inferStateFormatFromPath } from 'nostrain/python';
 *
 * inferStateFormatFromPath('run/state.pt'); // => 'pytorch-state-dict'
 * inferStateFormatFromPath('run/state.npz'); // => 'numpy-npz'
 * inferStateFormatFromPath('run/state.json'); // => 'json'
 * ```
 */
export function inferStateFormat(path: string): StateFormat {
  const [before, last] = ['', ...endings(path)].slice(-2);
  if (last === '.npz') return before && isTorch(before) ? 'pytorch-state-dict' : 'numpy-npz';
  if (last === '.safetensors') return 'safetensors';
  return isTorch(last) ? 'pytorch-state-dict' : 'json';
}

/** Reports whether a PyTorch state with this file name is a PyTorch file rather than a NumPy archive. */
const isNativeTorch = (path: string): boolean => isTorch(endings(path).at(-1));

const isTorch = (ending: string | undefined): boolean => ending === '.pt' || ending === '.pth';
