/** States as NumPy archives, in the Python reference's two schemas: one double array per tensor, and who wrote it. */
import { ok, type Result, refuse } from '../../base/result.ts';
import type { Params } from '../../tensor/params.ts';
import type { NamedTensor } from '../../tensor/safetensors.ts';
import { stateOfTensors, tensorsOfState } from './named-state.ts';
import { decodeNpy, decodeNpyText, encodeNpy, encodeNpyInteger, encodeNpyText } from './npy.ts';
import { decodeZip, encodeZip } from './zip.ts';

export interface NpzState {
  readonly params: Params;
  /** Free text; the Python reference stores the name of a runtime. */
  readonly runtime?: string | undefined;
}

/** Tensor names are ours, or those PyTorch gives them. */
export type NpzSchema = 'nostrain-model-state' | 'nostrain-pytorch-state-dict';

const SCHEMA = '__nostrain_schema__';
const VERSION = '__nostrain_version__';
const RUNTIME = '__nostrain_runtime__';

/** An archive NumPy opens with `np.load`. */
export function encodeNpz({ params, runtime }: NpzState, schema: NpzSchema): Uint8Array {
  const own = [SCHEMA, VERSION, RUNTIME];
  const tensors = tensorsOfState(params).map(({ name, shape, values }) => {
    if (own.includes(name)) throw new RangeError(`no tensor can be named ${name}`);
    return { name, bytes: encodeNpy({ shape, values: Float64Array.from(values) }) };
  });
  const members = [
    { name: SCHEMA, bytes: encodeNpyText(schema) },
    { name: VERSION, bytes: encodeNpyInteger(1) },
    ...(runtime === undefined ? [] : [{ name: RUNTIME, bytes: encodeNpyText(runtime) }]),
    ...tensors,
  ];
  return encodeZip(members.map(({ name, bytes }) => ({ name: `${name}.npy`, bytes })));
}

/** The state in an archive, sorted by name; an archive that names no schema may be of either. */
export function decodeNpz(file: Uint8Array, schema: NpzSchema): Result<NpzState> {
  const members = decodeZip(file);
  if (!members.ok) return members;
  const texts = new Map<string, string>();
  const tensors: NamedTensor[] = [];
  for (const { name: entry, bytes } of members.value) {
    if (!entry.endsWith('.npy')) return refuse('npz/member', entry, 'is no .npy array');
    const name = entry.slice(0, -'.npy'.length);
    if (name === VERSION) continue;
    if (name === SCHEMA || name === RUNTIME) {
      const text = decodeNpyText(bytes);
      if (!text.ok) return refuse(text.issue.code, entry, text.issue.message);
      texts.set(name, text.value);
      continue;
    }
    const array = decodeNpy(bytes);
    if (!array.ok) return refuse(array.issue.code, entry, array.issue.message);
    tensors.push({ name, ...array.value });
  }
  const found = texts.get(SCHEMA) ?? schema;
  if (found !== schema) {
    return refuse('npz/schema', SCHEMA, `the schema is ${found.slice(0, 80)}, not ${schema}`);
  }
  const params = stateOfTensors(tensors);
  return params.ok ? ok({ params: params.value, runtime: texts.get(RUNTIME) }) : params;
}
