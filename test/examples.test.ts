/** Every example in a comment of the library runs, and gives what it says: `expression; // => value`. That they compile is in `e2e/readme.test.ts`. */
import { describe, expect, it } from 'vitest';
import { examples } from './support/examples.ts';
import { runBlock } from './support/run-block.ts';

/** `expression; // => value` becomes an assertion. */
const asserting = (code: string): string =>
  `import { expect } from 'vitest';\n${code.replace(
    /^(?!const|let|import)(.+); \/\/ => (.+)$/gm,
    (_, expression, value) => `expect(${expression}).toEqual(${value});`,
  )}`;

describe('examples', () => {
  it('are there', () => {
    expect(examples.length).toBeGreaterThan(0);
  });

  it.each(examples)('$where', async ({ where, code }) => {
    await runBlock(`example-${where.replace(/\W+/g, '-')}`, asserting(code));
  });
});
