/** Command lines for people to copy: quoted for their shell, and started the way this program was. */
import { realpathSync } from 'node:fs';
import { delimiter, join, relative } from 'node:path';

/** What a shell takes as one word without quotes. */
const BARE = { posix: /^[\w@%+=:,./-]+$/, windows: /^[\w@+=:,./\\-]+$/ };

/** Words as one line for a POSIX shell, or for cmd.exe on Windows. */
export const quoteWords = (
  words: readonly string[],
  platform: NodeJS.Platform = process.platform,
): string => words.map(platform === 'win32' ? quoteForWindows : quoteForPosix).join(' ');

const quoteForPosix = (word: string): string =>
  BARE.posix.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

/** As Windows programs read their command line: backslashes double before a quote, and nowhere else. */
function quoteForWindows(word: string): string {
  if (BARE.windows.test(word)) return word;
  const escaped = word.replace(/(\\*)("|$)/g, (_, slashes: string, quote: string) => {
    return slashes + slashes + (quote && '\\"');
  });
  return `"${escaped}"`;
}

/** The line that runs this program with these arguments: by its name if the shell finds it, else by its file. */
export function commandLine(args: readonly string[]): string {
  const [, file = ''] = process.argv;
  const name = isOnPath(file) ? ['nostrain'] : ['node', ...process.execArgv, nearest(file)];
  return quoteWords([...name, ...args]);
}

/** The path from the current folder where the file is inside of it. */
function nearest(file: string): string {
  const path = relative(process.cwd(), file);
  return path === '' || path.startsWith('..') ? file : path;
}

/** Whether `nostrain` on the shell's PATH is this file. npm and npx add folders that the shell does not have. */
function isOnPath(file: string): boolean {
  const own = realpathOf(file);
  const folders = (process.env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '' && !/node_modules|_npx/.test(folder));
  // npm installs a script beside the package on Windows, and links elsewhere
  if (process.platform === 'win32')
    return folders.some((dir) => realpathOf(join(dir, 'nostrain.cmd')));
  return own !== undefined && folders.some((dir) => realpathOf(join(dir, 'nostrain')) === own);
}

function realpathOf(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}
