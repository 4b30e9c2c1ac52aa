/** Where a demo's workers live: an empty folder the person names, or our own, replaced each time. */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../../base/errors.ts';
import type { Scope } from '../../base/scope.ts';
import { dataHome } from '../../node/data-home.ts';
import { takeLock } from '../../node/run-lock.ts';

/** Never empties a folder that somebody named; throws `run/busy` when another demo uses ours. */
export async function demoFolder(
  name: string,
  given: string | undefined,
  scope: Scope,
): Promise<string> {
  const dir = given ?? join(dataHome(), 'demos', name);
  await mkdir(dir, { recursive: true });
  const entries = await readdir(dir);
  if (given !== undefined && entries.length > 0) {
    throw new ConfigError('demo/folder', `${dir} is not empty`, {
      hint: 'name a new folder with --dir, or leave it out',
    });
  }
  const lock = await takeLock(dir);
  scope.defer(() => lock.release());
  for (const entry of entries) {
    if (entry !== 'lock') await rm(join(dir, entry), { recursive: true, force: true });
  }
  return dir;
}
