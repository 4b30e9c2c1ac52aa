/** Command lines for people to copy: quoted for their shell, and started the way this program was started. */
import { realpathSync } from 'node:fs';
import { delimiter, join, relative } from 'node:path';

/** Words that need no quotes in a shell. */
const BARE = { posix: /^[\w@%+=:,./-]+$/, windows: /^[\w@+=:,./\\-]+$/ };

/** Joins words into one command line for a POSIX shell, or for cmd.exe on Windows. */
export const quoteWords = (
  words: readonly string[],
  platform: NodeJS.Platform = process.platform,
): string => words.map(platform === 'win32' ? quoteForWindows : quoteForPosix).join(' ');

const quoteForPosix = (word: string): string =>
  BARE.posix.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

/** Quotes a word by the rules of Windows programs: backslashes are doubled only before a quote. */
function quoteForWindows(word: string): string {
  if (BARE.windows.test(word)) return word;
  const escaped = word.replace(/(\\*)("|$)/g, (_, slashes: string, quote: string) => {
    return slashes + slashes + (quote && '\\"');
  });
  return `"${escaped}"`;
}

/** Returns the command line for these arguments: by program name if the shell finds it, otherwise by file. */
export function commandLine(args: readonly string[]): string {
  const [, file = ''] = process.argv;
  const name = isOnPath(file)
    ? ['nostrain']
    : isOfThisFolder(file)
      ? ['npx', 'nostrain']
      : ['node', ...process.execArgv, nearest(file)];
  return quoteWords([...name, ...args]);
}

/** Reports whether `npx nostrain` in the current folder runs this file: a dependency, or the checkout itself. */
const isOfThisFolder = (file: string): boolean =>
  /^(?:node_modules[\\/](?:nostrain[\\/]|\.bin[\\/])|dist[\\/]src[\\/]cli[\\/]bin\.js$)/.test(
    relative(process.cwd(), file),
  );

/** Returns the path relative to the current folder if the file is inside it. */
function nearest(file: string): string {
  const path = relative(process.cwd(), file);
  return path === '' || path.startsWith('..') ? file : path;
}

/** Reports whether `nostrain` on the shell's PATH is this file. Ignores folders that npm and npx add for themselves. */
function isOnPath(file: string): boolean {
  const programPath = realpathOf(file);
  const folders = (process.env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '' && !/node_modules|_npx/.test(folder));
  // on Windows npm installs a script next to the package, elsewhere a link
  if (process.platform === 'win32')
    return folders.some((dir) => realpathOf(join(dir, 'nostrain.cmd')));
  return (
    programPath !== undefined &&
    folders.some((dir) => realpathOf(join(dir, 'nostrain')) === programPath)
  );
}

function realpathOf(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}
