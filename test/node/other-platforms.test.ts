import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { otherPlatformsIn, removeOtherPlatforms } from '../../src/node/engine/other-platforms.ts';
import { temporaryFolder } from '../support/processes.ts';

function binWith(...builds: readonly string[]): string {
  const bin = temporaryFolder();
  for (const build of builds) {
    mkdirSync(join(bin, 'napi-v6', build), { recursive: true });
    writeFileSync(join(bin, 'napi-v6', build, 'library'), '12345');
  }
  return bin;
}

it('builds of other platforms are counted and removed, that of this one stays', async () => {
  const bin = binWith('linux/x64', 'linux/arm64', 'win32/x64');
  const found = await otherPlatformsIn(bin, { platform: 'linux', arch: 'x64' });
  expect(found.bytes).toBe(10);
  await removeOtherPlatforms(found);
  expect(existsSync(join(bin, 'napi-v6/linux/x64/library'))).toBe(true);
  expect(existsSync(join(bin, 'napi-v6/linux/arm64'))).toBe(false);
  expect(existsSync(join(bin, 'napi-v6/win32/x64'))).toBe(false);
  const again = await otherPlatformsIn(bin, { platform: 'linux', arch: 'x64' });
  expect(again).toEqual({ folders: [], bytes: 0 });
});

it('an engine without a build of this platform is left alone', async () => {
  const bin = binWith('linux/x64', 'win32/x64');
  const found = await otherPlatformsIn(bin, { platform: 'freebsd', arch: 'x64' });
  expect(found.folders).toEqual([]);
});
