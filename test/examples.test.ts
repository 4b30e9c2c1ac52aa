/** Every example in a comment of the library runs, and gives what it says: `expression; // => value`. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { runBlock } from './support/run-block.ts';
import { typeErrors } from './support/type-errors.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const EXAMPLE = /@example\n((?: *\* .*\n| *\*\n)*? *\* ```ts\n)((?: *\*.*\n)*?) *\* ```\n/g;

const sources = ['src', 'kinds', 'relay'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name)),
);

const examples = sources.flatMap((path) =>
  [...readFileSync(join(root, path), 'utf8').matchAll(EXAMPLE)].map(([, , body], i) => ({
    where: `${path} ${i + 1}`,
    code: body!.replace(/^ *\* ?/gm, ''),
  })),
);

/** `expression; // => value` becomes an assertion. */
const asserting = (code: string): string =>
  `import { expect } from 'vitest';\n${code.replace(
    /^(?!const|let|import)(.+); \/\/ => (.+)$/gm,
    (_, expression, value) => `expect(${expression}).toEqual(${value});`,
  )}`;

/** The same for the compiler, which takes both sides. */
const typed = (code: string): string =>
  code.replace(/^(?!const|let|import)(.+); \/\/ => (.+)$/gm, 'void [$1, $2];');

describe('examples', () => {
  it('are there', () => {
    expect(examples.length).toBeGreaterThan(0);
  });

  it('compile', () => {
    const blocks = examples.map(({ where, code }) => ({ name: where, code: typed(code) }));
    expect(typeErrors(blocks)).toEqual([]);
  });

  it.each(examples)('$where', async ({ where, code }) => {
    await runBlock(`example-${where.replace(/\W+/g, '-')}`, asserting(code));
  });
});
