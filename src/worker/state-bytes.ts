/**
 * A worker's state as one safetensors file: the model's own tensors by name, so any tool can read them, and beside
 * them, under `nostrain.`, outer momentum, residual, optimizer moments and the last rounds.
 */
import { createLayout, type Layout, sameLayout, type Vector } from '../tensor/params.ts';
import { decodeSafetensors, encodeSafetensors, type NamedTensor } from '../tensor/safetensors.ts';
import type { WorkerState } from './state.ts';
import { type AddedMembers, formatRecord, noMembers, parseRecord } from './worker-record.ts';

/** How names of tensors begin that are not the model's. */
export const OWN = 'nostrain.';

/** The file's bytes. */
export function encodeState(
  state: WorkerState,
  added: AddedMembers<object> = noMembers,
): Uint8Array {
  const { params, momentum, moments, residual, unpacked, ...record } = state;
  const own = (name: string, values: Vector): NamedTensor => ({
    name: OWN + name,
    shape: [values.length],
    values,
  });
  const tensors = params.layout.slots.map(({ name, shape, offset, size }) => ({
    name,
    shape,
    values: params.values.subarray(offset, offset + size),
  }));
  return encodeSafetensors({
    tensors: [
      ...tensors,
      own('momentum', momentum),
      own('residual', residual),
      ...(unpacked ? [own('unpacked', unpacked)] : []),
      ...moments.map((values, i) => own(`moment.${i}`, values)),
    ],
    metadata: { format: 'nostrain-run', version: '1', worker: formatRecord(record, added) },
  });
}

/** The state, or why the bytes hold none. */
export function decodeState<M extends object>(
  bytes: Uint8Array,
  layout: Layout,
  added: AddedMembers<M>,
): (WorkerState & M) | string {
  const decoded = decodeSafetensors(bytes);
  if (!decoded.ok) return decoded.issue.message;
  const { tensors, metadata } = decoded.value;
  if (metadata.format !== 'nostrain-run') return 'it is not a saved run';
  if (metadata.version !== '1') return `it is of version ${metadata.version}, this reads 1`;
  const model = tensors.filter(({ name }) => !name.startsWith(OWN));
  const named = model.length > 0 && model.every(({ name }) => name !== '');
  if (!named || !sameLayout(createLayout(model), layout)) return 'it holds another model';
  const own = (name: string) => tensors.find((tensor) => tensor.name === OWN + name)?.values;
  const momentum = own('momentum');
  const residual = own('residual');
  if (momentum?.length !== layout.size || residual?.length !== layout.size) {
    return 'momentum or residual are missing';
  }
  const unpacked = own('unpacked');
  if (unpacked && unpacked.length !== layout.size) return 'what it learned last is not whole';
  const moments: Float32Array[] = [];
  for (let moment = own('moment.0'); moment; moment = own(`moment.${moments.length}`)) {
    moments.push(Float32Array.from(moment));
  }
  const record = parseRecord(metadata.worker ?? '', added);
  if (!record) return 'its history is not whole';
  return {
    ...record,
    params: { layout, values: joinTensors(model, layout) },
    momentum,
    residual: Float64Array.from(residual),
    ...(unpacked && { unpacked: Float64Array.from(unpacked) }),
    moments,
  };
}

/** Tensors end to end; f32 where all of them are. */
function joinTensors(tensors: readonly NamedTensor[], layout: Layout): Vector {
  const values = tensors.every((tensor) => tensor.values instanceof Float32Array)
    ? new Float32Array(layout.size)
    : new Float64Array(layout.size);
  let offset = 0;
  for (const tensor of tensors) {
    values.set(tensor.values, offset);
    offset += tensor.values.length;
  }
  return values;
}
