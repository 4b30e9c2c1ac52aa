/** The members of a type as the compiler knows it, one row each: for pages about JSON that the program writes. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

export const root = fileURLToPath(new URL('../..', import.meta.url));

export interface FieldRow {
  /** `rounds[].sample` */
  readonly path: string;
  readonly type: string;
  readonly isOptional: boolean;
  /** The sentence at its declaration. */
  readonly says: string;
}

/** Types that say more than their letters. */
const NAMED: Readonly<Record<string, string>> = {
  Digest: '64 hex digits',
  WorkerId: 'public key, 64 hex digits',
  RunId: '64 hex digits',
};

const DEEPEST = 5;

/** The compiler's view of the program's sources. */
export function openSources(): ts.Program {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const include = ['src/cli', 'src/certified/rounds/events.ts'];
  const parsed = ts.parseJsonConfigFileContent({ ...config, include }, ts.sys, root);
  return ts.createProgram(parsed.fileNames, parsed.options);
}

/** One row per member, those of members below their own. */
export function rowsOf(
  checker: ts.TypeChecker,
  type: ts.Type,
  at = '',
  depth = 0,
): readonly FieldRow[] {
  const shown = withoutUndefined(checker, type);
  const element = elementOf(checker, shown);
  if (element) return rowsOf(checker, element, `${at}[]`, depth);
  const names = new Map<string, FieldRow & { readonly below: readonly FieldRow[] }>();
  for (const part of shown.isUnion() ? shown.types : [shown]) {
    if (!isRecord(checker, part)) continue;
    for (const symbol of checker.getPropertiesOfType(part)) {
      const path = at === '' ? symbol.name : `${at}.${symbol.name}`;
      const value = checker.getTypeOfSymbol(symbol);
      if (value.getCallSignatures().length > 0 || names.has(path)) continue;
      const below = depth < DEEPEST ? rowsOf(checker, value, path, depth + 1) : [];
      names.set(path, { ...rowOf(checker, symbol, value, path), below });
    }
    const values =
      checker.getIndexTypeOfType(part, ts.IndexKind.String) ??
      checker.getIndexTypeOfType(part, ts.IndexKind.Number);
    if (values && depth < DEEPEST) {
      const path = `${at}.*`;
      const row = { path, type: wordsOf(checker, values, undefined), isOptional: true, says: '' };
      names.set(path, { ...row, below: rowsOf(checker, values, path, depth + 1) });
    }
  }
  return [...names.values()].flatMap(({ below, ...row }) => [row, ...below]);
}

function rowOf(checker: ts.TypeChecker, symbol: ts.Symbol, value: ts.Type, path: string): FieldRow {
  const isOptional = (symbol.flags & ts.SymbolFlags.Optional) !== 0 || mayBeUndefined(value);
  const declaration = symbol.declarations?.find(
    (each) => ts.isPropertySignature(each) || ts.isPropertyAssignment(each),
  );
  const written =
    declaration && ts.isPropertySignature(declaration) ? declaration.type?.getText() : undefined;
  const says = ts
    .displayPartsToString(symbol.getDocumentationComment(checker))
    .replaceAll('\n', ' ');
  return { path, type: wordsOf(checker, value, written), isOptional, says };
}

const mayBeUndefined = (type: ts.Type): boolean =>
  type.isUnion() && type.types.some((each) => (each.flags & ts.TypeFlags.Undefined) !== 0);

const withoutUndefined = (checker: ts.TypeChecker, type: ts.Type): ts.Type =>
  checker.getNonNullableType(type);

const elementOf = (checker: ts.TypeChecker, type: ts.Type): ts.Type | undefined =>
  checker.isArrayType(type) || checker.isTupleType(type)
    ? checker.getIndexTypeOfType(type, ts.IndexKind.Number)
    : undefined;

/** Branded texts too. */
const isText = (type: ts.Type): boolean =>
  type.isIntersection() ? type.types.some(isText) : (type.flags & ts.TypeFlags.StringLike) !== 0;

const isRecord = (checker: ts.TypeChecker, type: ts.Type): boolean =>
  !isText(type) &&
  (type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) !== 0 &&
  !checker.isArrayType(type) &&
  type.getCallSignatures().length === 0;

/** `list of numbers`, `"final" or "void"`, `object` */
function wordsOf(checker: ts.TypeChecker, type: ts.Type, written: string | undefined): string {
  const shown = withoutUndefined(checker, type);
  const element = elementOf(checker, shown);
  const name = written?.replace(/^readonly /, '').replace(/(\[\])?( \| undefined)?$/, '');
  if (element) return `list of ${wordsOf(checker, element, name)}`;
  if (name !== undefined && NAMED[name] !== undefined) return NAMED[name];
  if ((shown.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown)) !== 0) return 'JSON';
  const parts = shown.isUnion() ? shown.types : [shown];
  const words = parts.map((part) => {
    if (part.isStringLiteral()) return JSON.stringify(part.value);
    if ((part.flags & ts.TypeFlags.BooleanLike) !== 0) return 'yes/no';
    if ((part.flags & ts.TypeFlags.NumberLike) !== 0)
      return part.isNumberLiteral() ? `${part.value}` : 'number';
    return isText(part) ? 'text' : 'object';
  });
  const told = [...new Set(words)].join(' or ');
  return type !== shown && acceptsNull(type) ? `${told} or null` : told;
}

const acceptsNull = (type: ts.Type): boolean =>
  type.isUnion() && type.types.some((each) => (each.flags & ts.TypeFlags.Null) !== 0);
