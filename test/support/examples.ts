/** Collects the examples in comments of the library and on its documentation pages, for tests. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const EXAMPLE = /@example\n((?: *\* .*\n| *\*\n)*? *\* ```ts\n)((?: *\*.*\n)*?) *\* ```\n/g;

const sources = ['src', 'kinds', 'relay'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name)),
);

const inComments = sources.flatMap((path) =>
  [...readFileSync(join(root, path), 'utf8').matchAll(EXAMPLE)].map(([, , body], i) => ({
    where: `${path} ${i + 1}`,
    code: body!.replace(/^ *\* ?/gm, ''),
  })),
);

const onPages = ['docs/library.md', 'docs/library-runs.md', 'docs/models.md'].flatMap((page) =>
  [...readFileSync(join(root, page), 'utf8').matchAll(/^```ts\n(.*?)^```$/gms)].map(
    ([, code], i) => ({ where: `${page} ${i + 1}`, code: code! }),
  ),
);

/** Where each stands, and its code. */
export const examples = [...inComments, ...onPages];

/** `expression; // => value` for the compiler, which takes both sides. */
export const typed = (code: string): string =>
  code.replace(/^(?!const|let|import)(.+); \/\/ => (.+)$/gm, 'void [$1, $2];');
