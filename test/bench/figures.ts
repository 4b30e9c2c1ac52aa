/**
 * Figures of the source tree, as a table: lines and TypeScript tokens per room, files, flags per command, words of docs, files that
 * mention an option, deep imports from tests, and files visited in four journeys. `npm run figures` measures the working tree;
 * `npm run figures -- 80b35d1 HEAD` compares commits. docs/decisions/0035-same-features-less-code.md quotes it.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, posix, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';

const root = process.cwd();

const git = (...args: readonly string[]): string =>
  execFileSync('git', args, { encoding: 'utf8', maxBuffer: 1 << 28 });

/** A checkout to measure, and its TypeScript sources by path. */
interface Tree {
  readonly name: string;
  readonly folder: string;
  readonly sources: ReadonlyMap<string, string>;
}

const GENERATED = /_pb\.ts$/;
const SMALL = 45;

function filesUnder(folder: string, top: string, ending: string): readonly string[] {
  if (!existsSync(join(folder, top))) return [];
  return readdirSync(join(folder, top), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(ending))
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();
}

function readTree(name: string, folder: string): Tree {
  const paths = ['src', 'relay', 'kinds', 'demos'].flatMap((top) => filesUnder(folder, top, '.ts'));
  const sources = paths.map((path) => [path, readFileSync(join(folder, path), 'utf8')] as const);
  return { name, folder, sources: new Map(sources) };
}

const linesOf = (text: string): number => text.split('\n').length - 1;

/** Tokens of the syntax tree: comments, blanks and line breaks do not count, so formatting cannot change them. */
function tokensOf(text: string): number {
  const source = ts.createSourceFile('source.ts', text, ts.ScriptTarget.Latest, true);
  const count = (node: ts.Node): number => {
    const children = node.getChildren(source);
    if (children.length === 0) return node.end > node.pos ? 1 : 0;
    return children.reduce((sum, child) => sum + count(child), 0);
  };
  return count(source);
}

/** `src/worker`, `kinds`; files at the top of src belong to `src`. */
function roomOf(path: string): string {
  const [top = '', room = '', ...rest] = path.split('/');
  return top !== 'src' ? top : rest.length === 0 ? 'src' : `src/${room}`;
}

/** The files that each file imports. */
function importsOf({ sources }: Tree): ReadonlyMap<string, ReadonlySet<string>> {
  const imports = new Map<string, ReadonlySet<string>>();
  for (const [path, text] of sources) {
    const targets = [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)].map(([, target]) =>
      posix.join(posix.dirname(path), target!),
    );
    imports.set(path, new Set(targets));
  }
  return imports;
}

function smallWithOneImporter({ sources }: Tree, imports: ReturnType<typeof importsOf>): number {
  const importers = new Map<string, number>();
  for (const target of [...imports.values()].flatMap((each) => [...each])) {
    importers.set(target, (importers.get(target) ?? 0) + 1);
  }
  return [...sources].filter(
    ([path, text]) =>
      linesOf(text) < SMALL && importers.get(path) === 1 && !path.startsWith('demos/'),
  ).length;
}

/** Options in the help of a command, counted by their lines. */
function flagsOf(folder: string, command: readonly string[]): { flags: number; lines: number } {
  const args = ['--conditions=nostrain:source', '--import', 'tsx', 'src/cli/bin.ts'];
  const { stdout } = spawnSync(process.execPath, [...args, ...command, '--help'], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, COLUMNS: '80' },
  });
  const flags = stdout.split('\n').filter((line) => /^ {2}(-\w, )?--[a-z]/.test(line));
  return { flags: flags.length, lines: linesOf(stdout) };
}

/** Files under src that mention an option, for each whose name is no word of English: `maxExamples`, not `run`. */
async function filesPerOption({ folder, sources }: Tree): Promise<readonly number[]> {
  const table: { readonly settingNames: readonly string[] } = await import(
    pathToFileURL(join(folder, 'src/run/settings.ts')).href
  );
  const texts = [...sources].filter(([path]) => path.startsWith('src/')).map(([, text]) => text);
  return table.settingNames
    .filter((name) => /[A-Z]/.test(name))
    .map((name) => {
      const mentioned = new RegExp(`\\b${name}\\b`);
      return texts.filter((text) => mentioned.test(text)).length;
    })
    .sort((a, b) => a - b);
}

/** Files that docs/architecture.md lists under each of its journeys, in the order in which a reader visits them. */
function journeysOf(folder: string): readonly (readonly [name: string, files: number])[] {
  const page = readFileSync(join(folder, 'docs/architecture.md'), 'utf8');
  const sections = page.split(/^### Journey: /m).slice(1);
  return sections.map((section) => {
    const [name = ''] = section.split('\n', 1);
    const [own = ''] = section.split(/^#{1,3} /m);
    const files = own.matchAll(/\]\(\.\.\/((?:src|kinds|relay)\/[\w./-]+\.ts)\)/g);
    return [name.trim(), new Set([...files].map(([, file]) => file)).size];
  });
}

function wordsOf(folder: string, top: string, leftOut: RegExp): number {
  const pages = filesUnder(folder, top, '.md').filter((path) => !leftOut.test(path));
  const words = pages.map((path) => readFileSync(join(folder, path), 'utf8').match(/\S+/g) ?? []);
  return words.reduce((sum, each) => sum + each.length, 0);
}

/** The file that a test mirrors: test/run/ledger.test.ts tests src/run/ledger.ts, test/relay/ and test/kinds/ their own rooms. */
const testedBy = (path: string): string =>
  path
    .replace(/^test\/(?=relay\/|kinds\/)/, '')
    .replace(/^test\//, 'src/')
    .replace('.test.ts', '.ts');

/** Imports in test/ that name a file of the program instead of an entry point: all, and those of another file than the one tested. */
function deepImports(folder: string): { all: number; others: number } {
  const imports = filesUnder(folder, 'test', '.ts').flatMap((path) => {
    const text = readFileSync(join(folder, path), 'utf8');
    return [...text.matchAll(/from '((?:\.\.\/)+(?:src|relay|kinds)\/[^']+)'/g)].map(
      ([, target]) => posix.join(posix.dirname(path), target!) === testedBy(path),
    );
  });
  return { all: imports.length, others: imports.filter((isTested) => !isTested).length };
}

const format = (value: number): string => value.toLocaleString('en-US');
const middle = (values: readonly number[]): number => values[values.length >> 1]!;

async function figuresOf(tree: Tree): Promise<ReadonlyMap<string, string>> {
  const { folder, sources } = tree;
  const rooms = new Map<string, { lines: number; tokens: number }>();
  for (const [path, text] of sources) {
    const room = rooms.get(roomOf(path)) ?? { lines: 0, tokens: 0 };
    room.lines += linesOf(text);
    if (!GENERATED.test(path)) room.tokens += tokensOf(text);
    rooms.set(roomOf(path), room);
  }
  const all = [...rooms.values()];
  const lengths = [...sources.values()].map(linesOf).sort((a, b) => a - b);
  const perOption = await filesPerOption(tree);
  const shown = ({ lines, tokens }: { lines: number; tokens: number }) =>
    `${format(lines)} (${format(Math.round(tokens / 1000))}k)`;
  const figures = new Map([...rooms].sort().map(([room, size]) => [room, shown(size)]));
  const total = (of: 'lines' | 'tokens') => all.reduce((sum, each) => sum + each[of], 0);
  figures.set(TOTAL, shown({ lines: total('lines'), tokens: total('tokens') }));
  figures.set('files', format(sources.size));
  figures.set('median and longest file', `${middle(lengths)}, ${lengths.at(-1)}`);
  figures.set(
    `files under ${SMALL} lines with one importer`,
    format(smallWithOneImporter(tree, importsOf(tree))),
  );
  for (const command of ['run-training', 'run create', 'run join']) {
    const { flags, lines } = flagsOf(folder, command.split(' '));
    figures.set(`flags of ${command} (lines of help)`, `${flags} (${lines})`);
  }
  figures.set(
    'files under src that mention an option: median, most',
    [middle(perOption), perOption.at(-1)].join(', '),
  );
  figures.set(
    'words of docs without results (decisions)',
    `${format(wordsOf(folder, 'docs', /^docs\/(decisions|reference|results)\//))} (${format(wordsOf(folder, 'docs/decisions', /README/))})`,
  );
  const deep = deepImports(folder);
  figures.set(
    'deep imports from tests (without those of the file under test)',
    `${format(deep.all)} (${format(deep.others)})`,
  );
  for (const [name, files] of journeysOf(folder)) figures.set(`files visited: ${name}`, `${files}`);
  return figures;
}

const TOTAL = 'lines in all (TypeScript tokens)';

/** Measures a commit in a checkout of its own, which is deleted afterwards. */
async function measureCommit(commit: string): Promise<Column> {
  const folder = mkdtempSync(join(tmpdir(), 'figures-'));
  git('worktree', 'add', '--quiet', '--detach', '--force', folder, commit);
  try {
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    const name = git('rev-parse', '--short', commit).trim();
    return { name, figures: await figuresOf(readTree(name, folder)) };
  } finally {
    git('worktree', 'remove', '--force', folder);
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Column {
  readonly name: string;
  readonly figures: ReadonlyMap<string, string>;
}

const columns: Column[] = [];
for (const commit of process.argv.slice(2)) columns.push(await measureCommit(commit));
if (columns.length === 0) {
  const figures = await figuresOf(readTree('working tree', root));
  columns.push({ name: 'working tree', figures });
}
const labels = [...new Set(columns.flatMap(({ figures }) => [...figures.keys()]))];
/** Rooms first, by name, whichever column has them. */
const rooms = labels.filter((label) => /^(src|kinds|relay|demos)/.test(label)).sort();
const ordered = [...rooms, ...labels.filter((label) => !rooms.includes(label))];
const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
process.stdout.write(
  `${[
    line(['', ...columns.map(({ name }) => name)]),
    line(['---', ...columns.map(() => '---:')]),
    ...ordered.map((label) =>
      line([label, ...columns.map((each) => each.figures.get(label) ?? '–')]),
    ),
  ].join('\n')}\n`,
);
