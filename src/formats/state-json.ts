/**
 * States as JSON of the Python reference, `{"parameters": {name: {"shape", "values"}}}`, in f64; and states from the
 * named tensors of any file. Reading is stricter than the reference: dimensions are integers, values finite numbers.
 */
import { utf8 } from '../base/bytes.ts';
import { ConfigError, ok, type Result, refuse } from '../base/errors.ts';
import { compareCodePoints, createLayout, type Params } from '../tensor/params.ts';
import type { NamedTensor } from '../tensor/safetensors.ts';
import {
  indentedJson,
  isJsonObject,
  type PythonJson,
  type PythonObject,
  parseJson,
} from './python-json.ts';

/**
 * Builds a state from tensors, sorted by name; f32 if all of them are, else f64. Fails for a name that is empty or
 * repeated, and for a value that is not finite. Never throws.
 *
 * @example
 * ```ts
 * import { modelStateFromTorchStateDictPayload } from 'nostrain/python';
 *
 * const weight = { name: 'fc.weight', shape: [1, 2], values: Float32Array.of(1, 2) };
 * const bias = { name: 'fc.bias', shape: [1], values: Float32Array.of(3) };
 * const state = modelStateFromTorchStateDictPayload([weight, bias]);
 * state.ok && state.value.values; // => Float32Array.of(3, 1, 2)
 * ```
 */
export function stateOfTensors(tensors: readonly NamedTensor[]): Result<Params> {
  if (tensors.length === 0) return refuse('state/empty', 'tensors', 'the state has no tensors');
  const sorted = [...tensors].sort((a, b) => compareCodePoints(a.name, b.name));
  const seen = new Set<string>();
  for (const { name, shape, values } of sorted) {
    const at = name.slice(0, 80);
    if (name === '' || seen.has(name) || utf8(name).length > MAX_NAME_BYTES) {
      return refuse('state/name', at, 'a name is empty, repeated or longer than 65535 bytes');
    }
    seen.add(name);
    if (shape.length > MAX_NAME_BYTES || shape.some((dim) => dim > LARGEST)) {
      return refuse('state/shape', at, 'has a dimension above 2^32 - 1, or too many dimensions');
    }
    if (!values.every(Number.isFinite))
      return refuse('state/value', at, 'has a value that is not finite');
  }
  const layout = createLayout(sorted);
  const isSingle = sorted.every(({ values }) => values instanceof Float32Array);
  const values = isSingle ? new Float32Array(layout.size) : new Float64Array(layout.size);
  sorted.forEach((tensor, i) => {
    values.set(tensor.values, layout.slots[i]!.offset);
  });
  return ok({ layout, values });
}

/**
 * Returns the tensors of a state in its order. Their values are views, not copies.
 *
 * @example
 * ```ts
 * import { initializeLinearRegressionState, modelStateToTorchTensors } from 'nostrain/python';
 *
 * const tensors = modelStateToTorchTensors(initializeLinearRegressionState(2));
 * tensors.map(({ name, shape }) => [name, shape]); // => [['linear.bias', [1]], ['linear.weight', [1, 2]]]
 * ```
 */
export const tensorsOfState = ({ layout, values }: Params): readonly NamedTensor[] =>
  layout.slots.map(({ name, shape, offset, size }) => ({
    name,
    shape,
    values: values.subarray(offset, offset + size),
  }));

const LARGEST = 0xffff_ffff;
const MAX_NAME_BYTES = 0xffff;

/** Parses a state file; tensors are sorted by code point of their names. Throws a ConfigError if it is invalid. */
export function parseStateJson(text: string): Params {
  const json = parseJson(text);
  const state = json.ok ? readState(json.value) : json;
  if (state.ok) return state.value;
  const { at, message } = state.issue;
  throw new ConfigError('state/json', `state JSON, ${at}: ${message}`, {
    hint: 'expected {"parameters": {"<name>": {"shape": [2, 3], "values": [six numbers]}}}',
  });
}

/** Formats a state file, byte for byte like the Python reference. */
export const formatStateJson = (params: Params): string => `${indentedJson(stateToJson(params))}\n`;

/** Returns a state as a JSON value; floats stay floats. */
export function stateToJson({ layout, values }: Params): PythonObject {
  const parameters: Record<string, PythonJson> = Object.create(null);
  for (const { name, shape, offset, size } of layout.slots) {
    parameters[name] = {
      shape: shape.map((dim) => BigInt(dim)),
      values: [...values.subarray(offset, offset + size)],
    };
  }
  return { parameters };
}

/** Parses a state in untrusted JSON. */
export function readState(json: PythonJson | undefined): Result<Params> {
  const parameters = isJsonObject(json) ? json.parameters : undefined;
  if (!isJsonObject(parameters) || Object.keys(parameters).length === 0) {
    return refuse('bad-state', 'parameters', 'not an object with at least one tensor');
  }
  const tensors: NamedTensor[] = [];
  for (const [name, tensor] of Object.entries(parameters)) {
    const read = readTensor(name, tensor);
    if (!read.ok) return read;
    tensors.push(read.value);
  }
  return stateOfTensors(tensors);
}

function readTensor(name: string, json: PythonJson): Result<NamedTensor> {
  const at = `parameters.${name.slice(0, 80)}`;
  if (!isJsonObject(json)) return refuse('bad-state', at, 'a tensor is an object');
  const dims = typeof json.shape === 'bigint' ? [json.shape] : json.shape;
  if (!Array.isArray(dims) || dims.length > MAX_NAME_BYTES || !dims.every(isDimension)) {
    return refuse('bad-state', `${at}.shape`, 'a shape is a list of integers from 0 to 2^32 - 1');
  }
  const shape = dims.map(Number);
  const size = shape.reduce((product, dim) => product * dim, 1);
  if (!Array.isArray(json.values) || json.values.length !== size) {
    return refuse('bad-state', `${at}.values`, `shape [${shape}] needs a list of ${size} numbers`);
  }
  const isNumber = (item: PythonJson) => typeof item === 'bigint' || typeof item === 'number';
  const odd = json.values.findIndex((item) => !isNumber(item) || !Number.isFinite(Number(item)));
  if (odd >= 0) return refuse('bad-state', `${at}.values.${odd}`, 'not a finite number');
  return ok({ name, shape, values: Float64Array.from(json.values, Number) });
}

const isDimension = (dim: PythonJson): dim is bigint =>
  typeof dim === 'bigint' && dim >= 0n && dim <= BigInt(LARGEST);
