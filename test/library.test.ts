/** docs/python-names.md names everything the Python reference's library has; what serves it is exported, documented and exemplified. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import python from './vectors/python-api.json' with { type: 'json' };

const root = join(import.meta.dirname, '..');
const parse = (path: string): ts.SourceFile =>
  ts.createSourceFile(path, readFileSync(join(root, path), 'utf8'), ts.ScriptTarget.ES2023, true);

interface Exported {
  readonly path: string;
  /** Its name where it is declared. */
  readonly name: string;
}

/** Names that an entry point of the package exports, and where they come from. */
function exportsOf(entry: string): ReadonlyMap<string, Exported> {
  const found = new Map<string, Exported>();
  for (const statement of parse(entry).statements) {
    if (!ts.isExportDeclaration(statement) || !statement.moduleSpecifier) continue;
    if (!statement.exportClause || !ts.isNamedExports(statement.exportClause)) continue;
    const from = (statement.moduleSpecifier as ts.StringLiteral).text;
    for (const { name, propertyName } of statement.exportClause.elements) {
      const path = join(dirname(entry), from);
      found.set(name.text, { path, name: (propertyName ?? name).text });
    }
  }
  return found;
}

const entries = {
  'nostrain/python': exportsOf('src/python/index.ts'),
  'nostrain/python/node': exportsOf('src/python/node/index.ts'),
};

interface Name {
  readonly name: string;
  readonly from: keyof typeof entries;
}

const NODE = ' of `nostrain/python/node`';

const quoted = (cell: string): readonly string[] =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!);

/** The rows of every table of the page: Python's names, and ours. */
const rows = readFileSync(join(root, 'docs/python-names.md'), 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('| `'))
  .map((line) => {
    const [theirs = '', ours = ''] = line
      .slice(2)
      .split(' | ')
      .map((cell) => cell.trim());
    const from = ours.endsWith(NODE)
      ? ('nostrain/python/node' as const)
      : ('nostrain/python' as const);
    const here = quoted(ours.replace(NODE, '')).map((name): Name => ({ name, from }));
    return { python: quoted(theirs), here };
  });

const names = [...new Map(rows.flatMap(({ here }) => here.map((each) => [each.name, each])))];

const camelCase = (name: string): string =>
  name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());

/** Functions of the reference that mean nothing where there are no Torch modules. */
const OTHERWISE = [
  ...['model_state_from_module', 'model_state_from_torch_module', 'load_state_into_module'],
  ...['model_state_to_torch_module', 'model_state_to_torch_state_dict_payload'],
];

const declarations = (path: string): ReadonlyMap<string, ts.Node> => {
  const found = new Map<string, ts.Node>();
  for (const statement of parse(path).statements) {
    if (ts.isVariableStatement(statement)) {
      for (const { name } of statement.declarationList.declarations) {
        if (ts.isIdentifier(name)) found.set(name.text, statement);
      }
    } else if (
      ts.isFunctionDeclaration(statement) ||
      ts.isInterfaceDeclaration(statement) ||
      ts.isTypeAliasDeclaration(statement)
    ) {
      if (statement.name) found.set(statement.name.text, statement);
    }
  }
  return found;
};

describe('docs/python-names.md', () => {
  it('has each name of the reference once', () => {
    expect(rows.flatMap((row) => row.python).sort()).toEqual([...python.names].sort());
  });

  it('says camelCase where the reference says snake_case', () => {
    const functions = rows.flatMap(({ python, here }) =>
      python.filter((name) => /^[a-z]/.test(name)).map((name) => ({ name, here })),
    );
    const others = functions.filter(
      ({ name, here }) => !here.some((each) => each.name === camelCase(name)),
    );
    expect(others.map(({ name }) => name).sort()).toEqual([...OTHERWISE].sort());
  });

  it.each(names)('%s', (_, { name, from }) => {
    const exported = entries[from].get(name);
    expect(exported, `${name} is exported from ${from}`).toBeDefined();
    const declared = declarations(exported!.path).get(exported!.name);
    expect(declared, `${exported!.name} is declared in ${exported!.path}`).toBeDefined();
    if (!/^[a-z]/.test(name)) return;
    const tags = ts.getJSDocTags(declared!).map(({ tagName }) => tagName.text);
    expect(tags, `${exported!.name} has an example`).toContain('example');
  });
});

describe('the package root', () => {
  it('exports the core alone, one name per thing', () => {
    for (const entry of ['src/index.ts', 'src/node/index.ts']) {
      const exported = [...exportsOf(entry)];
      expect(exported.filter(([, { path }]) => /python|certified|probe/.test(path))).toEqual([]);
      const declared = exported.map(([, { path, name }]) => `${path} ${name}`);
      expect(new Set(declared).size).toBe(declared.length);
    }
  });
});
