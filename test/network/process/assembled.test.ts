import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { ASSEMBLED, assemble } from '../../../assemble.ts';

test('the WebAssembly is what its source compiles to', async () => {
  expect(await readFile(ASSEMBLED, 'utf8')).toBe(await assemble());
});
