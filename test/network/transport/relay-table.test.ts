import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { renderTable } from '../../interop/table.ts';
import { thirdParties } from '../../interop/third-parties.ts';

it('docs/public-relays.md shows what the interop suite asserts', () => {
  const page = readFileSync(new URL('../../../docs/public-relays.md', import.meta.url), 'utf8');
  expect(page).toContain(renderTable(thirdParties));
});
