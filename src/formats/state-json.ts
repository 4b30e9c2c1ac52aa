/**
 * A state as the Python reference writes it in JSON: `{"parameters": {name: {"shape": [...], "values": [...]}}}`, f64.
 * Stricter than the Python reference in reading: numbers are numbers, dimensions are integers, nothing is infinite.
 */
import { utf8 } from '../base/bytes.ts';
import { ConfigError } from '../base/errors.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { compareCodePoints, createLayout, type Params } from '../tensor/params.ts';
import {
  indentedJson,
  isJsonObject,
  type Json,
  type JsonObject,
  parseJson,
} from './python-json.ts';

const LARGEST = 0xffff_ffff;
const MAX_NAME_BYTES = 0xffff;

/** A state file's text; tensors come out sorted by name, by code point. Throws ConfigError when it is anything else. */
export function parseStateJson(text: string): Params {
  const json = parseJson(text);
  const state = json.ok ? readState(json.value) : json;
  if (state.ok) return state.value;
  const { at, message } = state.issue;
  throw new ConfigError('state/json', `state JSON, ${at}: ${message}`, {
    hint: 'expected {"parameters": {"<name>": {"shape": [2, 3], "values": [six numbers]}}}',
  });
}

/** A state file's text, to the byte the Python reference's. */
export const formatStateJson = (params: Params): string => `${indentedJson(stateToJson(params))}\n`;

/** A state as a JSON value, floats kept floats. */
export function stateToJson({ layout, values }: Params): JsonObject {
  const parameters: Record<string, Json> = Object.create(null);
  for (const { name, shape, offset, size } of layout.slots) {
    parameters[name] = {
      shape: shape.map((dim) => BigInt(dim)),
      values: [...values.subarray(offset, offset + size)],
    };
  }
  return { parameters };
}

/** A state inside JSON from anyone. */
export function readState(json: Json | undefined): Result<Params> {
  const parameters = isJsonObject(json) ? json.parameters : undefined;
  if (!isJsonObject(parameters) || Object.keys(parameters).length === 0) {
    return refuse('bad-state', 'parameters', 'not an object with at least one tensor');
  }
  const tensors: Tensor[] = [];
  for (const name of Object.keys(parameters).sort(compareCodePoints)) {
    const tensor = readTensor(name, parameters[name]);
    if (!tensor.ok) return tensor;
    tensors.push(tensor.value);
  }
  const layout = createLayout(tensors);
  const values = new Float64Array(layout.size);
  layout.slots.forEach(({ offset }, i) => {
    values.set(tensors[i]!.values, offset);
  });
  return ok({ layout, values });
}

interface Tensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

function readTensor(name: string, json: Json | undefined): Result<Tensor> {
  const at = `parameters.${name.slice(0, 80)}`;
  if (name === '' || utf8(name).length > MAX_NAME_BYTES) {
    return refuse('bad-state', at, 'a tensor name is empty or longer than 65535 bytes');
  }
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
  const values: number[] = [];
  for (const item of json.values) {
    const value = typeof item === 'bigint' || typeof item === 'number' ? Number(item) : Number.NaN;
    if (!Number.isFinite(value)) {
      return refuse('bad-state', `${at}.values.${values.length}`, 'not a finite number');
    }
    values.push(value);
  }
  return ok({ name, shape, values });
}

const isDimension = (dim: Json): dim is bigint =>
  typeof dim === 'bigint' && dim >= 0n && dim <= BigInt(LARGEST);
