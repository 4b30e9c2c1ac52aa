/**
 * Figures of the source tree at one or more commits, as a table: lines per room, files, largest and median file, small files with one
 * importer, exported names. `npm run figures -- d1efd90 HEAD`; docs/decisions/0013-three-products-on-one-core.md quotes it.
 */
import { execFileSync } from 'node:child_process';
import { posix } from 'node:path';

const git = (...args: readonly string[]): string =>
  execFileSync('git', args, { encoding: 'utf8', maxBuffer: 1 << 28 });

interface Tree {
  readonly name: string;
  readonly files: ReadonlyMap<string, string>;
}

const SOURCE = /^(src|kinds|relay)\/.*\.ts$/;
/** Written by tools. */
const GENERATED = /_pb\.ts$|stake-registry\.ts$/;
const SMALL = 45;

function treeAt(commit: string): Tree {
  const paths = git('ls-tree', '-r', '--name-only', commit)
    .split('\n')
    .filter((path) => (SOURCE.test(path) && !GENERATED.test(path)) || path === 'package.json');
  const files = new Map(paths.map((path) => [path, git('show', `${commit}:${path}`)]));
  return { name: git('rev-parse', '--short', commit).trim(), files };
}

const linesOf = (text: string): number => text.split('\n').length - 1;

/** `src/worker`, `kinds`; files at the top of src are of `src`. */
function roomOf(path: string): string {
  const [top = '', room = '', ...rest] = path.split('/');
  return top !== 'src' ? top : rest.length === 0 ? 'src' : `src/${room}`;
}

function sourcesOf({ files }: Tree): readonly (readonly [path: string, lines: number])[] {
  return [...files]
    .filter(([path]) => SOURCE.test(path))
    .map(([path, text]) => [path, linesOf(text)] as const)
    .sort(([, a], [, b]) => a - b);
}

function smallWithOneImporter(tree: Tree): number {
  const importers = new Map<string, number>();
  for (const [path, text] of tree.files) {
    const targets = [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)].map(([, target]) =>
      posix.join(posix.dirname(path), target!),
    );
    for (const target of new Set(targets)) {
      importers.set(target, (importers.get(target) ?? 0) + 1);
    }
  }
  return sourcesOf(tree).filter(([path, lines]) => lines < SMALL && importers.get(path) === 1)
    .length;
}

/** Names that the entry points of the package export. */
function exportedNames({ files }: Tree): number {
  const { exports } = JSON.parse(files.get('package.json')!) as {
    readonly exports: Readonly<Record<string, { readonly 'nostrain:source'?: string } | string>>;
  };
  const entries = Object.values(exports).flatMap((each) =>
    typeof each === 'string' ? [] : [each['nostrain:source'] ?? []].flat(),
  );
  const names = entries.map((entry) => {
    const text = files.get(posix.normalize(entry)) ?? '';
    const listed = [...text.matchAll(/export (?:type )?\{([^}]*)\}/g)]
      .flatMap(([, list]) => list!.split(','))
      .filter((each) => each.trim() !== '').length;
    const declared = text.match(/^export (?:async )?(?:const|function|class|interface|type) \w/gm);
    return listed + (declared?.length ?? 0) + (text.match(/^export \* /gm)?.length ?? 0);
  });
  return names.reduce((sum, each) => sum + each, 0);
}

function figuresOf(tree: Tree): ReadonlyMap<string, string> {
  const sources = sourcesOf(tree);
  const rooms = new Map<string, number>();
  for (const [path, lines] of sources) {
    rooms.set(roomOf(path), (rooms.get(roomOf(path)) ?? 0) + lines);
  }
  const [largest, most] = sources.at(-1)!;
  const all = sources.reduce((sum, [, lines]) => sum + lines, 0);
  const figures = new Map([...rooms].sort().map(([room, lines]) => [room, format(lines)]));
  return figures
    .set('lines in all', format(all))
    .set('files', format(sources.length))
    .set('median file', format(sources[sources.length >> 1]![1]))
    .set('largest file', `${format(most)} (${largest.split('/').at(-1)})`)
    .set(`files under ${SMALL} lines with one importer`, format(smallWithOneImporter(tree)))
    .set('exported names', format(exportedNames(tree)));
}

const format = (value: number): string => value.toLocaleString('en-US');

const commits = process.argv.slice(2);
const trees = (commits.length === 0 ? ['HEAD'] : commits).map(treeAt);
const columns = trees.map(figuresOf);
const labels = [...new Set(columns.flatMap((each) => [...each.keys()]))];
/** Rooms first, by name, whichever tree has them. */
const rooms = labels.filter((label) => /^(src|kinds|relay)/.test(label)).sort();
const ordered = [...rooms, ...labels.filter((label) => !rooms.includes(label))];
const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
process.stdout.write(
  `${[
    line(['', ...trees.map(({ name }) => name)]),
    line(['---', ...trees.map(() => '---:')]),
    ...ordered.map((label) => line([label, ...columns.map((each) => each.get(label) ?? '–')])),
  ].join('\n')}\n`,
);
