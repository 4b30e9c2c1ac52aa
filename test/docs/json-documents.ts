/** docs/reference/json-documents.md: every document and line of JSON that the program prints, member by member, from the types of the code. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import cli from '../vectors/cli.json' with { type: 'json' };
import { eventExamples } from './event-examples.ts';
import { type FieldRow, openSources, root, rowsOf } from './field-rows.ts';
import { code, table } from './markdown.ts';

/** By file, in the order of its calls of `asJson`: which command prints it, and the file of its example. */
const DOCUMENTS: Readonly<Record<string, readonly (readonly [title: string, example: string])[]>> =
  {
    'serve/serve.ts': [['', '']],
    'challenge.ts': [['nostrain challenge --json', 'challenge']],
    'checkpoint/checkpoint.ts': [
      ['nostrain checkpoint verify --json', 'checkpoint-verify'],
      ['nostrain checkpoint list --json', 'checkpoint-list'],
    ],
    'demos/train/run.ts': [
      [
        'nostrain demo gpt --json`, `nostrain demo linear --json`, `nostrain demo finetune --json`, `nostrain demo series --json`, `nostrain demo images --json`, `nostrain demo onnx --json',
        'demo-linear',
      ],
    ],
    'demos/browser/run.ts': [['nostrain demo browser --json', 'demo-browser']],
    'demos/byzantine/run.ts': [['nostrain demo byzantine --json', 'demo-byzantine']],
    'demos/certified/run.ts': [['nostrain demo certified --json', 'demo-certified']],
    'demos/elastic/run.ts': [['nostrain demo elastic --json', 'demo-elastic']],
    'demos/experts/run.ts': [['nostrain demo experts --json', 'demo-experts']],
    'demos/sealed/run.ts': [['nostrain demo sealed --json', 'demo-sealed']],
    'demos/shared/stage.ts': [['', '']],
    'directory.ts': [['nostrain directory find --json', 'directory-find']],
    'doctor/doctor.ts': [['nostrain doctor --json', 'doctor']],
    'explain.ts': [
      ['nostrain explain --json', 'explain'],
      ['nostrain explain --json` without `--worker', ''],
    ],
    'friends/together.ts': [['nostrain host --json`, `nostrain join --json', 'friends']],
    'model.ts': [
      ['nostrain model inspect FILE.onnx --json', 'model-inspect-onnx'],
      ['nostrain model inspect --json', 'model-inspect'],
    ],
    'page/page.ts': [
      ['nostrain page --publish --json', 'page-publish'],
      ['', ''],
      ['nostrain page --json', 'page'],
    ],
    'placement/placement.ts': [['nostrain placement check --json', 'placement-check']],
    'plan/plan.ts': [['nostrain plan --json', 'plan']],
    'receipt.ts': [
      ['', ''],
      ['nostrain receipt --json', 'receipt'],
      ['nostrain scores --json', 'scores'],
    ],
    'relays.ts': [['nostrain relays check --json', 'relays-check']],
    'replay.ts': [['nostrain replay --json', 'replay']],
    'run/print-created.ts': [['nostrain run create --json', 'run-create']],
    'shared/files.ts': [['', '']],
    'run/inspect.ts': [
      ['nostrain run inspect --json', 'run-inspect'],
      ['nostrain run list --json', 'run-list'],
    ],
    'run/announce.ts': [
      ['nostrain run announce --dry', ''],
      ['nostrain run announce --json', ''],
    ],
    'handler.ts': [['nostrain handler publish --json', '']],
    'relays-find.ts': [['nostrain relays find --json', '']],
    'runs.ts': [
      ['nostrain runs --json', 'runs'],
      ['nostrain clean --json', 'clean'],
    ],
    'show.ts': [['nostrain show RUN --json', 'show']],
    'shared/run-worker.ts': [
      ['nostrain run-training --summary-out`, `nostrain run join --summary-out', 'summary-out'],
    ],
    'stake/link.ts': [
      ['nostrain stake link', ''],
      ['', ''],
    ],
    'attest.ts': [['nostrain attest inspect --json`, `nostrain attest verify --json', 'attest']],
    'tiers.ts': [['nostrain tiers inspect --json', 'tiers-inspect']],
    'witness/witness.ts': [
      ['nostrain witness who --json', 'witness-who'],
      ['nostrain witness inspect --json', 'witness-inspect'],
    ],
  };

export interface Document {
  /** Empty of one that is described elsewhere. */
  readonly title: string;
  readonly rows: readonly FieldRow[];
  readonly example: unknown;
}

interface JsonDocument {
  readonly title: string;
  readonly example: string;
  readonly node: ts.Expression;
}

/** What commands call `asJson` with, and demos `stage.end`; throws where DOCUMENTS does not say which command that is. */
function findDocuments(program: ts.Program): readonly JsonDocument[] {
  return program.getSourceFiles().flatMap((file) => {
    const name = /(?:src\/cli\/(?:commands\/)?|(?=demos\/))(.+)$/.exec(file.fileName)?.[1];
    if (name === undefined) return [];
    const calls: ts.Expression[] = [];
    const visit = (node: ts.Node): void => {
      if (ts.isCallExpression(node) && /^(asJson|stage\.end)$/.test(node.expression.getText()))
        calls.push(node.arguments[0]!);
      ts.forEachChild(node, visit);
    };
    visit(file);
    return calls.map((node, i) => {
      const [title, example] = DOCUMENTS[name]?.[i] ?? [];
      if (title === undefined || example === undefined) {
        throw new Error(
          `${name} prints JSON: name its command and an example in test/docs/json-documents.ts`,
        );
      }
      return { title, example, node };
    });
  });
}

const exampleIn = (name: string): unknown =>
  name === ''
    ? undefined
    : JSON.parse(readFileSync(join(import.meta.dirname, 'examples', `${name}.json`), 'utf8'));

/** All documents, and all lines of `--report ndjson`. */
export function readDocuments(): {
  readonly documents: readonly Document[];
  readonly lines: readonly Document[];
} {
  const program = openSources();
  const checker = program.getTypeChecker();
  const documents = findDocuments(program)
    .filter(({ title }) => title !== '')
    .map(({ title, example, node }) => ({
      title,
      rows: rowsOf(checker, checker.getTypeAtLocation(node)),
      example: exampleIn(example),
    }));
  const sorted = documents.sort((a, b) => (a.title < b.title ? -1 : 1));
  return { documents: sorted, lines: linesOf(program, checker) };
}

function linesOf(program: ts.Program, checker: ts.TypeChecker): readonly Document[] {
  const file = program.getSourceFile(join(root, 'src/certified/rounds/events.ts'))!;
  const declared = file.statements.find(
    (each): each is ts.TypeAliasDeclaration =>
      ts.isTypeAliasDeclaration(each) && each.name.text === 'RunEvent',
  )!;
  const all = checker.getTypeAtLocation(declared);
  const types = all.isUnion() ? all.types : [all];
  return types
    .map((type) => {
      const rows = rowsOf(checker, type);
      const title = JSON.parse(rows.find(({ path }) => path === 'type')!.type) as string;
      const example = eventExamples.find((event) => event.type === title);
      return { title, rows, example };
    })
    .sort((a, b) => orderOf(a.title) - orderOf(b.title));
}

const orderOf = (title: string): number => eventExamples.findIndex(({ type }) => type === title);

/** What the Python reference printed when it was recorded; ours prints the same members. */
const python: readonly Document[] = [
  ...new Map(
    cli.invocations
      .filter(({ argv, exit }) => argv.includes('--json') && exit === 0)
      .map(({ argv, stdout }) => [argv[0]!, JSON.parse(stdout) as unknown]),
  ),
]
  .map(([name, example]) => ({
    title: `nostrain ${name} --json`,
    rows: rowsOfJson(example),
    example,
  }))
  .sort((a, b) => (a.title < b.title ? -1 : 1));

function rowsOfJson(value: unknown, at = ''): readonly FieldRow[] {
  if (Array.isArray(value)) return rowsOfJson(value[0], `${at}[]`);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, held]) => {
    const path = at === '' ? name : `${at}.${name}`;
    return [{ path, type: kindOf(held), isOptional: false, says: '' }, ...rowsOfJson(held, path)];
  });
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'list' : `list of ${kindOf(value[0])}`;
  const kinds: Readonly<Record<string, string>> = { string: 'text', boolean: 'yes/no' };
  return value === null ? 'null or more' : (kinds[typeof value] ?? typeof value);
}

/** Units by how members are named. */
const UNITS: readonly (readonly [name: RegExp, unit: string])[] = [
  [/bytes/i, 'bytes'],
  [/Ms$/, 'ms'],
  [/perSecond/i, '1/s'],
  [/perMinute/i, '1/min'],
  [/seconds|_delays?$|interval$/i, 's'],
  [/At$/, 'ISO 8601'],
  [/^(made|expires|created_at)$|_at$/, 'Unix s'],
  [/loss(Before|After)?$/i, 'loss'],
  [/^residualShare$/, 'at least 0'],
  [/share$|^density$/i, '0 to 1'],
  [/^(index|round|fork)$/, 'from 0'],
];

function unitOf({ path, type }: FieldRow): string {
  const name = path.split('.').at(-1)!.replace('[]', '');
  if (!type.includes('number') && !/At$/.test(name)) return '';
  return UNITS.find(([pattern]) => pattern.test(name))?.[1] ?? '';
}

/** The first value at a path. */
export function valueAt(value: unknown, path: string): unknown {
  if (path === '' || value === undefined || value === null) return value;
  if (path.startsWith('[]')) {
    const inner = path.slice(2).replace(/^\./, '');
    return Array.isArray(value) ? firstOf(value, inner) : undefined;
  }
  const [, name = '', rest = ''] = /^([^.[]+)\.?(.*)$/.exec(path)!;
  const record = value as Readonly<Record<string, unknown>>;
  return name === '*' ? firstOf(Object.values(record), rest) : valueAt(record[name], rest);
}

const firstOf = (values: readonly unknown[], path: string): unknown =>
  values.map((each) => valueAt(each, path)).find((each) => each !== undefined);

const LONGEST = 40;

function cellOf(example: unknown, { path, type }: FieldRow): string {
  const value = valueAt(example, path);
  if (value === undefined || /object/.test(type) || type === 'JSON') return '';
  const text = JSON.stringify(Array.isArray(value) ? value.slice(0, 1) : value);
  return code(text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
}

function fields({ rows, example }: Document): string {
  const cells = rows.map((row) => [
    code(row.path) + (row.isOptional ? ' (may be absent)' : ''),
    row.type,
    unitOf(row),
    cellOf(example, row),
    row.says,
  ]);
  return table(['member', 'type', 'unit', 'example', 'what it is'], cells);
}

/** The page. */
export function renderJsonDocuments(): string {
  const { documents, lines } = readDocuments();
  const section = (document: Document) => [`### \`${document.title}\``, fields(document)];
  return [
    '# JSON documents',
    'What a program can read of nostrain: one document on stdout where a command has `--json`, and one line per event with `--report ndjson`. Everything else then goes to stderr. Made from the types of the code.',
    'Members may be added from version to version; none changes its meaning. Where a number is not finite, JSON has `null`. Rounds are counted from 0 here, as in events; people read them from 1. A loss is in nats per token for texts and a squared error for regressions. Times a round takes are wall time.',
    '## Documents of `--json`',
    ...documents.flatMap(section),
    '## Lines of `--report ndjson`',
    '`run-training`, `run join` and the workers of a demo print one JSON object per line, in the order things happen; `log.ndjson` in the folder of a run has the same with `at`, in ms since 1970. `type` says which it is.',
    ...lines.flatMap(section),
    '## Documents of the Python nostrain',
    'The commands of the Python program print its documents, member by member, as it does ([what is different](../migrating-from-python.md)). `aggregate-round --summary-out` writes what `collect-events --json` prints, without the events.',
    ...python.flatMap(section),
  ].join('\n\n');
}

/** Files of examples that no document uses. */
export const strayExamples = (): readonly string[] => {
  const used = Object.values(DOCUMENTS).flatMap((each) =>
    each.map(([, example]) => `${example}.json`),
  );
  return readdirSync(join(import.meta.dirname, 'examples')).filter((file) => !used.includes(file));
};
