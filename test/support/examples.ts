/** The examples in comments of the library, as tests read them. */
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

/** Where each stands, and its code. */
export const examples = sources.flatMap((path) =>
  [...readFileSync(join(root, path), 'utf8').matchAll(EXAMPLE)].map(([, , body], i) => ({
    where: `${path} ${i + 1}`,
    code: body!.replace(/^ *\* ?/gm, ''),
  })),
);

/** `expression; // => value` for the compiler, which takes both sides. */
export const typed = (code: string): string =>
  code.replace(/^(?!const|let|import)(.+); \/\/ => (.+)$/gm, 'void [$1, $2];');
