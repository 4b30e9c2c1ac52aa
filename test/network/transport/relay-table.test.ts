import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { renderTable } from '../../interop/table.ts';
import { thirdParties } from '../../interop/third-parties.ts';

/** The formatter pads tables; that is not what is compared. */
const compact = (markdown: string) => markdown.replace(/ *\| */g, '|').replace(/-{3,}/g, '---');

it('docs/results/other-relays.md shows what the interop suite asserts', () => {
  const page = readFileSync(
    new URL('../../../docs/results/other-relays.md', import.meta.url),
    'utf8',
  );
  expect(compact(page)).toContain(compact(renderTable(thirdParties)));
});
