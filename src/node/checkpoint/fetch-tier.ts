/**
 * Brings the part of a chunked state that a tier has (docs/tiers.md), for who joins with a small machine:
 * the slices of the model lie one after the other in its file, so only the chunks up to the tier's last slice are
 * asked for.
 */
import { open, rename, rm } from 'node:fs/promises';
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
import { cannotWrite } from '../files/atomic-file.ts';
import { type FetchedFolder, type FetchFolderOptions, fetchFolder } from './fetch-folder.ts';
import { readBytes, readRange } from './folder.ts';

/** Bytes before the header of safetensors: its length. */
const LENGTH_BYTES = 8;

/**
 * Fetches into the folder what tier `tier` has, and makes a safetensors file of it. Throws a CheckpointError where
 * the file has no tiers, or not that one.
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
  if (length > MAX_HEADER_BYTES || start > manifest.bytes) throw noTiers('it is no safetensors');
  await upTo(start);
  const header = readSafetensorsEntries(
    await readBytes(folder, manifest, LENGTH_BYTES, start),
    manifest.bytes - start,
  );
  if (!header.ok) throw noTiers(header.issue.message);
  const kept = tensorsOf(header.value.entries, tier);
  const end = kept.at(-1)!.to;
  await upTo(start + end);
  await write(file, kept, readRange(folder, manifest, start, start + end));
  return {
    kept: calls[0]!.kept,
    bytes: calls.reduce((sum, { bytes }) => sum + bytes, 0),
    restored: 0,
    sources: calls.at(-1)!.sources,
  };
}

/** The tensors of a tier, which come first. */
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
        hint: 'ask for one of those',
      },
    );
  }
  const kept = model.filter(({ name }) => sliceIndexOf(name) <= until);
  const isFirst = kept.every((entry, i) => entry === entries[i]);
  if (kept.length > 0 && isFirst) return kept;
  throw noTiers('its slices do not lie one after the other');
}

/**
 * The last slice of each tier from 0 on, by how long the slices of a tensor are: of a run with helpers there are more
 * than tiers.
 */
function lastSlices(model: readonly SafetensorsEntry[]): readonly number[] {
  const outer = model.find(({ name }) => sliceIndexOf(name) > 0 && !name.startsWith('padding.'));
  if (outer === undefined) throw noTiers('no tensor of it is a slice of width');
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
    hint: 'fetch all of it, without --tier; `run-training --tiers` makes states with tiers',
  });

const described = ({ from, to, dtype, ...tensor }: SafetensorsEntry) => ({
  ...tensor,
  dtype: dtype.toUpperCase() as Uppercase<typeof dtype>,
  bytes: to - from,
});

async function write(
  file: string,
  tensors: readonly SafetensorsEntry[],
  data: AsyncIterable<Uint8Array>,
): Promise<void> {
  const part = `${file}.part`;
  try {
    const handle = await open(part, 'w');
    try {
      await handle.write(
        encodeSafetensorsHeader(tensors.map(described), { format: 'nostrain-tier' }),
      );
      for await (const bytes of data) await handle.write(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(part, file);
  } catch (cause) {
    await rm(part, { force: true });
    throw cause instanceof CheckpointError ? cause : cannotWrite(file, cause);
  }
}
