/** The table of programs of other projects in CONTRIBUTING.md is the list that the interop suite and `.ci/run` use. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { otherPrograms, renderPrograms } from '../interop/programs.ts';

const root = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
/** The formatter pads tables; padding is not compared. */
const compact = (markdown: string) => markdown.replace(/ *\| */g, '|').replace(/-{3,}/g, '---');

it('CONTRIBUTING.md shows every program and every interop test', () => {
  expect(compact(read('CONTRIBUTING.md'))).toContain(compact(renderPrograms()));
  const listed = new Set(otherPrograms.flatMap(({ tests }) => tests));
  expect([...listed].filter((test) => !existsSync(join(root, 'test', test)))).toEqual([]);
  const files = readdirSync(join(root, 'test/interop'), { recursive: true, encoding: 'utf8' });
  const tests = files.filter((file) => file.endsWith('.test.ts')).map((file) => `interop/${file}`);
  expect(tests.filter((test) => !listed.has(test))).toEqual([]);
});

it('.ci/run installs the programs that the table says it installs', () => {
  const installed = /^for program in (.+); do$/m.exec(read('.ci/run'))?.[1]?.split(' ');
  const listed = otherPrograms.filter(({ inCi }) => inCi === 'by its script');
  expect(installed).toEqual(listed.map(({ name }) => name));
  for (const name of installed!) expect(existsSync(join(root, `test/interop/${name}/install.sh`))).toBe(true); // biome-ignore format: one line
});
