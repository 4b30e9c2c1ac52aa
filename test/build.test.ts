import { mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { isStale } from '../build.ts';
import { temporaryFolder } from './support/processes.ts';

it('a build is stale if it is missing, or if a source was changed, added or removed after it', () => {
  const folder = temporaryFolder();
  const [stamp, source, room] = ['stamp', 'src/a.ts', 'src'].map((name) => join(folder, name));
  const at = (seconds: number, ...paths: readonly string[]) => {
    for (const path of paths) utimesSync(path, seconds, seconds);
  };
  mkdirSync(room!);
  writeFileSync(source!, '');
  expect(isStale(stamp!, [room!])).toBe(true);
  writeFileSync(stamp!, '');
  at(1000, source!, room!);
  at(1001, stamp!);
  expect(isStale(stamp!, [room!])).toBe(false);
  at(1002, source!);
  expect(isStale(stamp!, [room!])).toBe(true);
  at(1003, stamp!);
  expect(isStale(stamp!, [room!])).toBe(false);
  rmSync(source!);
  at(1004, room!);
  expect(isStale(stamp!, [room!])).toBe(true);
});
