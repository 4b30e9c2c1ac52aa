/** Every example in a comment of the library runs, and gives what it says: `expression; // => value`. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { runBlock } from './support/run-block.ts';

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

/** What the compiler has to say about them, as a reader's editor would. */
function complaints(): readonly string[] {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [] }, ts.sys, root);
  const typed = (code: string) =>
    code.replace(/^(?!const|let|import)(.+); \/\/ => (.+)$/gm, 'void [$1, $2];');
  const files = new Map(
    examples.map(({ where, code }, i) => {
      const text = `// ${where}\n${typed(code)}\nexport {};\n`;
      return [join(root, 'test', `example-${i}.ts`), text] as const;
    }),
  );
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile } = host;
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.readFile = (path) => files.get(path) ?? readFile(path);
  const program = ts.createProgram([...files.keys()], options, host);
  return [...files].flatMap(([path, text]) =>
    program
      .getSemanticDiagnostics(program.getSourceFile(path))
      .map(
        ({ messageText }) =>
          `${text.split('\n')[0]}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`,
      ),
  );
}

describe('examples', () => {
  it('are there', () => {
    expect(examples.length).toBeGreaterThan(0);
  });

  it('compile', () => {
    expect(complaints()).toEqual([]);
  });

  it.each(examples)('$where', async ({ where, code }) => {
    await runBlock(`example-${where.replace(/\W+/g, '-')}`, asserting(code));
  });
});
