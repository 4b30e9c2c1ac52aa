/** Every name that the package exports, and whether somebody can see it used: in an example that runs, or through one that is. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { examples } from '../support/examples.ts';
import { root } from './field-rows.ts';

/** Source file of each entry point, by the name it is imported by; package.json has them. */
const entries: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries<{ readonly 'nostrain:source': string }>(
    JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).exports,
  ).map(([name, { 'nostrain:source': file }]) => [`nostrain${name.slice(1)}`, file.slice(2)]),
);

/** Entry points of the products. The others give the building blocks of one room, for tests, explorers and replayers. */
const PRODUCTS = [
  ...['nostrain', 'nostrain/kinds', 'nostrain/node', 'nostrain/certified', 'nostrain/probe'],
  ...['nostrain/python', 'nostrain/python/node'],
];

export interface ExportedName {
  readonly entry: string;
  /** Whether a product exports it, and not only a room. */
  readonly isOfProduct: boolean;
  readonly name: string;
  readonly isType: boolean;
  /** The sentence at its declaration. */
  readonly says: string;
  /** An example that runs imports it by some name, or has it at its declaration. */
  readonly isShown: boolean;
  /** A type that something shown takes, returns or has. */
  readonly isReached: boolean;
}

/** Pages whose TypeScript is run by tests. */
const PAGES = ['README.md', 'docs/tutorial.md', 'docs/own-models.md'];

const programs = (): readonly string[] => [
  ...examples.map(({ code }) => code),
  ...PAGES.flatMap((page) =>
    [...readFileSync(join(root, page), 'utf8').matchAll(/^```ts\n(.*?)^```$/gms)].map(
      ([, code]) => code!,
    ),
  ),
  ...readdirSync(join(root, 'demos'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(join(root, 'demos', file), 'utf8')),
];

/** `entry name` of everything that examples import. */
function importedNames(): ReadonlySet<string> {
  const found = programs().flatMap((code) =>
    [...code.matchAll(/import\s*(?:type\s*)?\{([^}]*)\}\s*from '(nostrain[^']*)'/g)].flatMap(
      ([, names, from]) =>
        names!.split(',').map(
          (name) =>
            `${from} ${name
              .trim()
              .replace(/^type /, '')
              .replace(/ as .*/s, '')}`,
        ),
    ),
  );
  return new Set(found);
}

/** All exported names. */
export function readExportedNames(): readonly ExportedName[] {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const files = Object.values(entries).map((file) => join(root, file));
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [] }, ts.sys, root);
  const program = ts.createProgram(files, options);
  const checker = program.getTypeChecker();
  const imported = importedNames();
  const all = Object.entries(entries).flatMap(([entry, file]) => {
    const source = checker.getSymbolAtLocation(program.getSourceFile(join(root, file))!)!;
    return checker.getExportsOfModule(source).map((symbol) => {
      const target =
        (symbol.flags & ts.SymbolFlags.Alias) !== 0 ? checker.getAliasedSymbol(symbol) : symbol;
      return {
        entry,
        name: symbol.name,
        target,
        isImported: imported.has(`${entry} ${symbol.name}`),
      };
    });
  });
  // a thing is shown when it is shown under any of its names
  const shown = new Set(
    all
      .filter(({ target, isImported }) => isImported || hasExample(checker, target))
      .map(({ target }) => target),
  );
  const reached = reachedFrom(checker, shown);
  return all.map(({ entry, name, target }) => ({
    ...{ entry, name, isOfProduct: PRODUCTS.includes(entry) },
    isType: (target.flags & ts.SymbolFlags.Value) === 0,
    says: ts.displayPartsToString(target.getDocumentationComment(checker)),
    isShown: shown.has(target),
    isReached: reached.has(target),
  }));
}

const hasExample = (checker: ts.TypeChecker, symbol: ts.Symbol): boolean =>
  symbol.getJsDocTags(checker).some(({ name }) => name === 'example');

/** Symbols that the declarations of these name, and the declarations of those, and so on. */
function reachedFrom(
  checker: ts.TypeChecker,
  start: ReadonlySet<ts.Symbol>,
): ReadonlySet<ts.Symbol> {
  const reached = new Set<ts.Symbol>();
  const open = [...start];
  for (let symbol = open.pop(); symbol !== undefined; symbol = open.pop()) {
    if (reached.has(symbol)) continue;
    reached.add(symbol);
    for (const declaration of symbol.declarations ?? []) {
      for (const named of namesIn(checker, declaration)) open.push(named);
    }
  }
  return reached;
}

/** What the types in a declaration name; bodies do not count. */
function namesIn(checker: ts.TypeChecker, declaration: ts.Node): readonly ts.Symbol[] {
  const found: ts.Symbol[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isBlock(node)) return;
    const name = ts.isTypeReferenceNode(node)
      ? node.typeName
      : ts.isExpressionWithTypeArguments(node) || ts.isTypeQueryNode(node)
        ? ts.isTypeQueryNode(node)
          ? node.exprName
          : node.expression
        : undefined;
    const symbol = name && checker.getSymbolAtLocation(name);
    if (symbol) {
      found.push(
        (symbol.flags & ts.SymbolFlags.Alias) !== 0 ? checker.getAliasedSymbol(symbol) : symbol,
      );
    }
    ts.forEachChild(node, visit);
  };
  visit(declaration);
  return found;
}
