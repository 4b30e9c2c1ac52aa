/** Shrinks the folder of a finished demo to what people look at: the shared model, the record of the rounds, logs. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { decodeSafetensors, encodeSafetensors } from 'nostrain/tensor';
import { STATE_TENSOR_PREFIX } from 'nostrain/worker';

/** Data with which a worker would resume or answer others. */
const FOR_RESUMING = ['phase.safetensors', 'private', 'rounds'];

/** Removes the state of optimizers, and the shared model from every folder but that of the first worker. */
export async function tidyDemo(dir: string, workers: readonly string[]): Promise<void> {
  for (const [i, worker] of workers.entries()) {
    const folder = join(dir, worker);
    for (const name of FOR_RESUMING) await rm(join(folder, name), { recursive: true, force: true });
    await keepTensors(join(folder, 'state.safetensors'), (name) => {
      return i === 0 && !name.startsWith(STATE_TENSOR_PREFIX);
    });
  }
}

async function keepTensors(file: string, isKept: (name: string) => boolean): Promise<void> {
  const bytes = await readFile(file).catch(() => undefined);
  const state = bytes && decodeSafetensors(bytes);
  if (!state?.ok) return;
  const { tensors, metadata } = state.value;
  await writeFile(
    file,
    encodeSafetensors({ tensors: tensors.filter(({ name }) => isKept(name)), metadata }),
  );
}
