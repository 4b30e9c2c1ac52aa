/** Every statement of docs/statements.md is named by a test, and every code in a test's name is a statement. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '..');
const CODE = /\b[NRTEC]-\d{2}\b/g;

const stated = [
  ...readFileSync(join(root, 'docs/statements.md'), 'utf8').matchAll(/^\| ([NRTEC]-\d{2}) /gm),
].map(([, code]) => code!);

/** Returns the codes in names of tests: a name is a text that begins with codes, or is given to `it` or `describe`. */
function codesIn(file: string): readonly string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const isText = ts.isStringLiteralLike(node) || ts.isTemplateHead(node);
    if (isText && /^[NRTEC]-\d{2}\b/.test(node.text)) found.push(...(node.text.match(CODE) ?? []));
    else if (isText && ts.isCallExpression(node.parent) && node.parent.arguments[0] === node)
      found.push(...(node.text.match(CODE) ?? []));
    node.forEachChild(visit);
  };
  const text = readFileSync(join(root, 'test', file), 'utf8');
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
  return found;
}

const named = new Map(
  readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.test\.ts$|^contract\//.test(file) && file !== 'statements.test.ts')
    .map((file) => [file, codesIn(file)] as const),
);

describe('docs/statements.md', () => {
  it('has each code once', () => {
    expect(stated.length).toBeGreaterThan(75);
    expect(stated).toEqual([...new Set(stated)]);
  });

  it('has no statement without a test of its name', () => {
    const all = new Set([...named.values()].flat());
    expect(stated.filter((code) => !all.has(code))).toEqual([]);
  });

  it('has the code of every test', () => {
    const strange = [...named].flatMap(([file, codes]) =>
      codes.filter((code) => !stated.includes(code)).map((code) => `${file}: ${code}`),
    );
    expect(strange).toEqual([]);
  });
});
