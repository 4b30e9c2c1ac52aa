/** Extracts the command lines and the flags from README and the pages that continue it, for tests. */
import { readFileSync } from 'node:fs';

/** In the order in which their commands are run. */
export const readmePages: readonly string[] = [
  'README.md',
  'docs/with-friends.md',
  'docs/certified-runs.md',
  'docs/own-models.md',
];
const text = readmePages
  .map((page) => readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8'))
  .join('\n');
const FENCE = /^```(\w*)\n(.*?)^```$/gms;

/** Lines of the blocks without a language, comments cut, each once; `a && b` is two. */
export const commandLines: readonly string[] = [
  ...new Set(
    [...text.matchAll(FENCE)]
      .filter(([, language]) => language === '')
      .flatMap(([, , block]) => block!.split('\n'))
      .flatMap((line) => line.replace(/\s+#.*$/, '').split(' && '))
      .map((line) => line.trim())
      .filter((line) => line !== ''),
  ),
];

/** Blocks of TypeScript, whole. */
export const typescriptBlocks: readonly string[] = [...text.matchAll(FENCE)]
  .filter(([, language]) => language === 'ts')
  .map(([, , block]) => block!);

/** Every `--flag` of ours in running text and tables, with its line. */
export const flagsInText: readonly { readonly flag: string; readonly line: string }[] = text
  .replace(FENCE, '')
  .split('\n')
  .flatMap((line) =>
    [...line.matchAll(/`[^`]*`/g)]
      .filter(([code]) => !/^`(npm|node) /.test(code))
      .flatMap(([code]) => [...code.matchAll(/(?<![\w-])--[a-z][a-z-]*/g)])
      .map(([flag]) => ({ flag, line })),
  );

/** Words of a command line; double quotes hold blanks together. */
export const wordsOf = (line: string): readonly string[] =>
  [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare!);
