/**
 * Downloads the part of a chunked state that a MatFormer tier needs (docs/tiers.md), for workers that train only a
 * slice. The slices lie one after another in the file, so only the chunks up to the tier's last slice are requested.
 */
import { CheckpointError } from '../../base/errors.ts';
import { sliceIndexOf } from '../../model/architectures/slices.ts';
import type { FileManifest } from '../../network/chunks/manifest.ts';
import {
  encodeSafetensorsHeader,
  MAX_HEADER_BYTES,
  readSafetensorsEntries,
  type SafetensorsEntry,
} from '../../tensor/safetensors.ts';
import { STATE_TENSOR_PREFIX } from '../../worker/state-file.ts';
import { writeAtomically } from '../files/atomic-file.ts';
import { type FetchedFolder, type FetchFolderOptions, fetchFolder } from './fetch-folder.ts';
import { readBytes, readRange } from './folder.ts';

/** Bytes of the header length at the start of a safetensors file. */
const LENGTH_BYTES = 8;

/**
 * Downloads the tensors of tier `tier` into the folder and writes them to a safetensors file. Throws a CheckpointError
 * (`checkpoint/tier`) if the file has no tiers, or not that one.
 */
export async function fetchTier(
  manifest: FileManifest,
  folder: string,
  { tier, file }: { readonly tier: number; readonly file: string },
  options: FetchFolderOptions,
): Promise<FetchedFolder> {
  const calls: FetchedFolder[] = [];
  const upTo = async (until: number) => {
    calls.push(await fetchFolder(manifest, folder, { ...options, until }));
  };
  await upTo(LENGTH_BYTES);
  const lengthBytes = await readBytes(folder, manifest, 0, LENGTH_BYTES);
  const length = Number(new DataView(lengthBytes.buffer).getBigUint64(0, true));
  const start = LENGTH_BYTES + length;
  if (length > MAX_HEADER_BYTES || start > manifest.bytes)
    throw noTiers('it is not a safetensors file');
  await upTo(start);
  const header = readSafetensorsEntries(
    await readBytes(folder, manifest, LENGTH_BYTES, start),
    manifest.bytes - start,
  );
  if (!header.ok) throw noTiers(header.issue.message);
  const kept = tensorsOf(header.value.entries, tier);
  const end = kept.at(-1)!.to;
  await upTo(start + end);
  await writeAtomically(file, fileOf(kept, readRange(folder, manifest, start, start + end)));
  return {
    kept: calls[0]!.kept,
    bytes: calls.reduce((sum, { bytes }) => sum + bytes, 0),
    restored: 0,
    sources: calls.at(-1)!.sources,
  };
}

/** Returns the tensors of a tier, which come first in the file. */
function tensorsOf(
  entries: readonly SafetensorsEntry[],
  tier: number,
): readonly SafetensorsEntry[] {
  const model = entries.filter(({ name }) => !name.startsWith(STATE_TENSOR_PREFIX));
  const last = lastSlices(model);
  const until = last[tier];
  if (until === undefined) {
    throw new CheckpointError(
      'checkpoint/tier',
      `the state has tiers 0 to ${last.length - 1}, not ${tier}`,
      {
        hint: 'name one of those with --tier',
      },
    );
  }
  const kept = model.filter(({ name }) => sliceIndexOf(name) <= until);
  const isFirst = kept.every((entry, i) => entry === entries[i]);
  if (kept.length > 0 && isFirst) return kept;
  throw noTiers('its slices are not one after another');
}

/**
 * Returns the last slice of each tier, from tier 0 on. It follows from the lengths of the slices of one tensor: a run
 * with helpers has more slices than tiers.
 */
function lastSlices(model: readonly SafetensorsEntry[]): readonly number[] {
  const outer = model.find(({ name }) => sliceIndexOf(name) > 0 && !name.startsWith('padding.'));
  if (outer === undefined) throw noTiers('no tensor is cut into slices');
  const base = outer.name.replace(/\.ring\d$/, '');
  const slices = model.filter(
    ({ name }) => name === base || name.replace(/\.ring\d$/, '') === base,
  );
  let reached = 0;
  const ends = slices.map(({ from, to }) => {
    reached += to - from;
    return reached;
  });
  const last: number[] = [];
  for (
    let slice = slices.length - 1;
    slice >= 0;
    slice = ends.indexOf(reached / 2 ** last.length)
  ) {
    last.push(slice);
  }
  return last;
}

const noTiers = (why: string): CheckpointError =>
  new CheckpointError('checkpoint/tier', `this file has no tiers: ${why}`, {
    hint: 'download all of it without --tier; `run-training --tiers` writes states with tiers',
  });

const described = ({ from, to, dtype, ...tensor }: SafetensorsEntry) => ({
  ...tensor,
  dtype: dtype.toUpperCase() as Uppercase<typeof dtype>,
  bytes: to - from,
});

async function* fileOf(
  tensors: readonly SafetensorsEntry[],
  data: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  yield encodeSafetensorsHeader(tensors.map(described), { format: 'nostrain-tier' });
  yield* data;
}
