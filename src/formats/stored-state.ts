/** States as bytes and back, in every format of the Python reference; PyTorch states must be of a regression model. */
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

/** A state and what the file said it is for. */
export interface StoredState extends Params {
  readonly runtime?: string | undefined;
}

export const torchPayloads = ['state-dict', 'module'] as const;

/** What `encodeStoredState` and `decodeStoredState` take beside the file's name. */
export interface StorageOptions {
  /** `auto` goes by the file's name. */
  readonly format?: StateFormat | 'auto' | undefined;
  /** What a `.pt` or `.pth` file holds. */
  readonly torchPayload?: (typeof torchPayloads)[number] | undefined;
}

/**
 * The format named, else what the file's name promises, else JSON. Throws a ConfigError for an unknown format.
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
  const found = stateFormats.find((known) => known === format);
  if (found !== undefined) return found;
  throw new ConfigError('state/format', `${JSON.stringify(format.slice(0, 80))} is no format`, {
    hint: `the formats are auto, ${stateFormats.join(', ')}`,
  });
}

/**
 * What a `.pt` or `.pth` file is to hold: what is named, else a state dict. Throws a ConfigError for any other name.
 *
 * @example
 * ```ts
 * import { resolveTorchCheckpointPayloadKind } from 'nostrain/python';
 *
 * resolveTorchCheckpointPayloadKind(); // => 'state-dict'
 * resolveTorchCheckpointPayloadKind('module'); // => 'module'
 * ```
 */
export function resolveTorchPayload(kind: string = 'state-dict'): (typeof torchPayloads)[number] {
  const found = torchPayloads.find((known) => known === kind);
  if (found !== undefined) return found;
  throw new ConfigError('state/payload', `${JSON.stringify(kind.slice(0, 80))} is no payload`, {
    hint: `the payloads are ${torchPayloads.join(' and ')}`,
  });
}

/** The state in a file of that name, sorted. Throws a ConfigError that says what is wrong with it. */
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

/** The bytes of a file of that name. Throws a ConfigError when the format cannot hold the state. */
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

/** The first state dict in the file that is one of a regression model. */
function fromTorch(bytes: Uint8Array): StoredState {
  const payload = unwrap(decodeTorch(bytes));
  const hint = findRuntimeHint(payload, parseRuntime);
  let refused: Result<StoredState> = refuse('torch/format', 'file', 'holds no state dict');
  for (const dict of findStateDicts(payload)) {
    const found = attempt(() =>
      imported(unwrap(stateOfTensors(unwrap(readStateDict(dict)))), hint),
    );
    if (found.ok) return found.value;
    // the outermost dict is seldom the one; the reason that counts is that of the last with tensors
    if (refused.ok || found.issue.code !== 'torch/state-dict') refused = found;
  }
  return unwrap(refused);
}

function imported(stateDict: Params, asked: RegressionTask | undefined): StoredState {
  const params = importTorchStateDict(stateDict, asked);
  return { ...params, runtime: runtimeOfState(params) };
}

/** A runtime somebody wrote into the file. */
function runtimeNamed(text: string | undefined): RegressionTask | undefined {
  const runtime = text === undefined ? undefined : parseRuntime(text);
  if (text === undefined || runtime !== undefined) return runtime;
  throw new ConfigError('state/runtime', `${text.slice(0, 80)} is no runtime`, {
    hint: 'PyTorch states are of linear-regression or mlp-regression',
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
 * `safetensors` is ours, the others the Python reference's.
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

/** The endings of a file name, in lower case: `.pt` and `.npz` of `x.PT.npz`. */
function endings(path: string): readonly string[] {
  const name = (path.split(/[/\\]/).at(-1) ?? '').replace(/^\.+/, '');
  return name.toLowerCase().match(/\.[^.]+/g) ?? [];
}

/**
 * The format a file's name promises; JSON unless it says otherwise.
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

/** Whether a PyTorch state of this name is PyTorch's own file; else it is an archive of NumPy's. */
const isNativeTorch = (path: string): boolean => isTorch(endings(path).at(-1));

const isTorch = (ending: string | undefined): boolean => ending === '.pt' || ending === '.pth';
