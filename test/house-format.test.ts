/** The format shows how long a file is, and a type name leads to one type: rules of docs/decisions/0035-same-features-less-code.md. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const MAX_CODE_COLUMNS = 100;
const MAX_COMMENT_COLUMNS = 120;

/** Tables of numbers, laid out as their standard prints them. */
const TABLES = new Set(['src/base/hash.ts']);

/** Written by the contract compiler: the ABI is one JSON text. */
const GENERATED = new Set([
  'src/chain/registry/slashing-registry.ts',
  'src/chain/registry/stake-registry.ts',
]);

const program = ['src', 'kinds', 'relay', 'demos'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter(({ name }) => name.endsWith('.ts') && !name.endsWith('_pb.ts'))
    .map((entry) => relative(root, join(entry.parentPath, entry.name))),
);
const textOf = new Map(program.map((file) => [file, readFileSync(join(root, file), 'utf8')]));

const literalOf = (node: ts.Expression): ts.Expression =>
  ts.isParenthesizedExpression(node) || ts.isAsExpression(node) || ts.isSatisfiesExpression(node)
    ? literalOf(node.expression)
    : node;

/** Spreads of a literal, which keep several properties or arguments on one line. */
function spreadLiterals(file: string, text: string): readonly string[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const spread = ts.isSpreadAssignment(node) || ts.isSpreadElement(node) ? node : undefined;
    const literal = spread && literalOf(spread.expression);
    if (
      literal &&
      (ts.isObjectLiteralExpression(literal) || ts.isArrayLiteralExpression(literal))
    ) {
      found.push(`${file}:${source.getLineAndCharacterOfPosition(node.getStart()).line + 1}`);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

describe('the format', () => {
  it('has a line for each property and argument', { timeout: 120_000 }, () => {
    const found = [...textOf].flatMap(([file, text]) => [
      ...spreadLiterals(file, text),
      // in the examples of comments
      ...(/^ \*\s+\.\.\.\{ /m.test(text) ? [file] : []),
    ]);
    expect(found).toEqual([]);
  });

  it('is that of the formatter outside tables of numbers', () => {
    const ignored = [...textOf].filter(([, text]) => text.includes('biome-ignore format'));
    expect(ignored.map(([file]) => file).filter((file) => !TABLES.has(file))).toEqual([]);
  });

  it(`has at most ${MAX_CODE_COLUMNS} columns of code and ${MAX_COMMENT_COLUMNS} of comment`, () => {
    const wide = [...textOf].flatMap(([file, text]) =>
      text.split('\n').flatMap((line, i) => {
        const isComment = /^\s*(\/\*|\*|\/\/)/.test(line);
        const most = isComment ? MAX_COMMENT_COLUMNS : MAX_CODE_COLUMNS;
        // an import, or a long constant without a space, cannot be broken
        const isWhole = /^(import|export) .* from |^\s*'[^' ]+'[;,]$/.test(line);
        const isData = GENERATED.has(file) && !isComment;
        return line.length > most && !isWhole && !isData ? [`${file}:${i + 1}`] : [];
      }),
    );
    expect(wide).toEqual([]);
  });
});

describe('names', () => {
  it('of exported types lead to one declaration', () => {
    const files = new Map<string, string[]>();
    for (const [file, text] of textOf) {
      // relay and kinds stand alone: what they share with src by meaning they declare themselves
      if (!/^(src|demos)\//.test(file)) continue;
      const declared = /^export (?:declare )?(?:abstract )?(?:interface|type|class) (\w+)/gm;
      for (const [, name] of text.matchAll(declared)) {
        files.set(name!, [...(files.get(name!) ?? []), file]);
      }
    }
    expect([...files].filter(([, declaring]) => declaring.length > 1)).toEqual([]);
  });
});
