/** Type-checks TypeScript examples in pages and comments, as a reader's editor does. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

interface Block {
  /** Prefix of its error messages. */
  readonly name: string;
  readonly code: string;
}

/** Parsed files of the library and of packages; each is parsed once per process. */
const parsed = new Map<string, ts.SourceFile | undefined>();

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Returns the type errors of modules that exist only in memory; their imports of `nostrain` resolve to its sources. */
export function typeErrors(blocks: readonly Block[]): readonly string[] {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [] }, ts.sys, root);
  const files = new Map(
    blocks.map(({ name, code }, i) => [
      join(import.meta.dirname, `type-errors-${i}.ts`),
      { name, text: `${code}\nexport {};\n` },
    ]),
  );
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, getSourceFile } = host;
  host.getSourceFile = (path, language) => {
    if (files.has(path)) return getSourceFile(path, language);
    const known = parsed.get(path) ?? getSourceFile(path, language);
    parsed.set(path, known);
    return known;
  };
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.readFile = (path) => files.get(path)?.text ?? readFile(path);
  const program = ts.createProgram([...files.keys()], options, host);
  return [...files].flatMap(([path, { name }]) =>
    ts
      .getPreEmitDiagnostics(program, program.getSourceFile(path)!)
      .map(({ messageText }) => `${name}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`),
  );
}
