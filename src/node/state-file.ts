/**
 * A worker's state as one safetensors file: the model's own tensors by name, so any tool can read them, and beside
 * them, under `nostrain.`, outer momentum, residual, optimizer moments and the history.
 */
import { readFile } from 'node:fs/promises';
import { CheckpointError } from '../base/errors.ts';
import { createLayout, type Layout, sameLayout, type Vector } from '../tensor/params.ts';
import { decodeSafetensors, encodeSafetensors, type NamedTensor } from '../tensor/safetensors.ts';
import type { WorkerState } from '../worker/state.ts';

/** Names beside the model's own tensors. */
export const OWN = 'nostrain.';

/** The file's bytes. */
export function encodeState(state: WorkerState): Uint8Array {
  const { params, momentum, moments, residual, ...rest } = state;
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
      ...moments.map((values, i) => own(`moment.${i}`, values)),
    ],
    metadata: { format: 'nostrain-run', version: '1', worker: JSON.stringify(rest) },
  });
}

/** The saved state, or undefined when there is none yet. Throws `run/state` when the file is broken or holds another model. */
export async function loadState(file: string, layout: Layout): Promise<WorkerState | undefined> {
  const bytes = await readFile(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new CheckpointError('run/state', `cannot read ${file}`, { cause: error });
  });
  if (!bytes) return undefined;
  const broken = (why: string) =>
    new CheckpointError('run/state', `${file} cannot be used: ${why}`, {
      hint: 'move the folder away to start anew, or use the model and settings it was made with',
    });
  const decoded = decodeSafetensors(bytes);
  if (!decoded.ok) throw broken(decoded.issue.message);
  const { tensors, metadata } = decoded.value;
  if (metadata.format !== 'nostrain-run') throw broken('it is not a saved run');
  const model = tensors.filter(({ name }) => !name.startsWith(OWN));
  if (!sameLayout(createLayout(model), layout)) throw broken('it holds another model');
  const own = (name: string) => tensors.find((tensor) => tensor.name === OWN + name)?.values;
  const values = joinTensors(model, layout);
  const momentum = own('momentum');
  const residual = own('residual');
  if (
    momentum?.length !== layout.size ||
    !(residual instanceof Float64Array) ||
    residual.length !== layout.size
  ) {
    throw broken('momentum or residual are missing');
  }
  const moments = tensors
    .filter(({ name }) => name.startsWith(`${OWN}moment.`))
    .map((tensor) => tensor.values);
  const rest: Omit<WorkerState, 'params' | 'momentum' | 'moments' | 'residual'> = JSON.parse(
    metadata.worker ?? '{}',
  );
  return {
    ...rest,
    cohort: rest.cohort,
    sent: rest.sent,
    params: { layout, values },
    momentum,
    residual,
    moments: moments.map((moment) => Float32Array.from(moment)),
  };
}

/** Tensors end to end, in the storage type of the first. */
export function joinTensors(tensors: readonly NamedTensor[], layout: Layout): Vector {
  const values =
    tensors[0]!.values instanceof Float32Array
      ? new Float32Array(layout.size)
      : new Float64Array(layout.size);
  let offset = 0;
  for (const tensor of tensors) {
    values.set(tensor.values, offset);
    offset += tensor.values.length;
  }
  return values;
}
