/** R-03 on engines that are not V8, where they are installed. */
import { expect } from 'vitest';
import { engines, findProgram, runInEngine } from '../support/engines.ts';
import { itWith } from '../support/needs.ts';
import { readVectors } from '../support/vectors.ts';

const { orders } = readVectors<{
  readonly orders: readonly { readonly count: number; readonly digest: string }[];
}>('committee.json');
const { count, digest } = orders.at(-1)!;
const entry = new URL('../browser/weighted-order.ts', import.meta.url);

for (const engine of engines) {
  const program = await findProgram(engine);
  const name = `R-03: ${count} (key, weight) pairs have the same order in ${engine.name}`;
  const missing = program ? undefined : `none of ${engine.programs.join(', ')} is in the path`;
  itWith(missing)(name, async () => {
    expect(await runInEngine<number, string>(engine, program!, entry, count)).toBe(digest);
  });
}
