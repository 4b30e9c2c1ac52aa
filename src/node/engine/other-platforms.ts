/** Builds of onnxruntime-node for other platforms than this one, which are four fifths of its size. */
import { readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { sizeOf } from '../files/local-runs.ts';
import { requireEngine } from './onnxruntime.ts';

export interface OtherPlatforms {
  /** Folders such as `…/bin/napi-v6/win32/x64`. */
  readonly folders: readonly string[];
  readonly bytes: number;
}

/** Returns the builds for other platforms. Throws a TrainingError (`training/no-engine`) without onnxruntime-node. */
export const otherPlatforms = (): Promise<OtherPlatforms> =>
  otherPlatformsIn(join(dirname(dirname(requireEngine())), 'bin'), process);

/** Returns the builds in a `bin` folder that are not of this platform; none if it has no build of this platform. */
export async function otherPlatformsIn(
  bin: string,
  { platform, arch }: Pick<NodeJS.Process, 'platform' | 'arch'>,
): Promise<OtherPlatforms> {
  const folders: string[] = [];
  for (const version of await foldersIn(bin)) {
    const builds = (await Promise.all((await foldersIn(version)).map(foldersIn))).flat();
    const own = join(version, platform, arch);
    if (builds.includes(own)) folders.push(...builds.filter((folder) => folder !== own));
  }
  const sizes = await Promise.all(folders.map(sizeOf));
  return { folders, bytes: sizes.reduce((sum, { bytes }) => sum + bytes, 0) };
}

export async function removeOtherPlatforms({ folders }: OtherPlatforms): Promise<void> {
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
}

async function foldersIn(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(folder, name));
}
