/** `nostrain clean`: removes runs from the data folder, and nothing else; never a key, never a run that a process plays. */
import { lstat, readdir, readFile, realpath, rm, rmdir } from 'node:fs/promises';
import { basename, join, relative, sep } from 'node:path';
import { Command } from 'commander';
import { ConfigError, safeLine } from '../../../base/errors.ts';
import { formatBytes } from '../../../base/numbers.ts';
import { dataHome } from '../../../node/files/data-home.ts';
import { parseSecretKey } from '../../../node/files/keys.ts';
import { findLocalRun, type LocalRun, listLocalRuns } from '../../../node/files/local-runs.ts';
import { takeLock } from '../../../node/files/run-folder.ts';
import { whole } from '../../../terminal/flags.ts';
import { asJson, writeNote, writeOut } from '../../../terminal/output.ts';
import { alignColumns } from '../../../terminal/render/columns.ts';
import { formatAge, summaryOf } from './words.ts';

interface Flags {
  readonly olderThan?: number;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** The command. */
export const clean = (): Command =>
  new Command('clean')
    .description('remove runs from this machine; without --yes it only lists what it would remove')
    .argument('[run...]', 'names of runs, finished or not (default: all finished runs)')
    .addOption(
      whole('--older-than <days>', 'runs, finished or not, that have not changed since', 0),
    )
    .option('--yes', 'remove them; keys stay')
    .option('--json', 'print JSON')
    .action(async (names: readonly string[], flags: Flags) => {
      const home = await realpath(dataHome()).catch(() => dataHome());
      const chosen = await choose(names, flags, home);
      for (const run of chosen) await assertInside(run, home);
      const removed = flags.yes ? await removeAll(chosen) : [];
      const told = flags.yes ? removed : chosen;
      const bytes = told.reduce((sum, run) => sum + run.bytes, 0);
      if (flags.json) {
        writeOut(asJson({ removed: flags.yes === true, bytes, runs: told.map(summaryOf) }));
      } else writeOut(words(told, bytes, flags.yes === true));
    });

/** What a key has signed is kept as long as the key: it must never sign anything else in those rounds. */
const KEPT: readonly string[] = ['key', 'votes.json', 'lock'];

const DAY_MS = 86_400_000;

/** The runs that the words and flags mean; one that is being played is refused where it is named, else left out. */
async function choose(
  names: readonly string[],
  { olderThan }: Flags,
  home: string,
): Promise<readonly LocalRun[]> {
  const isOld = ({ changedAtMs }: LocalRun) =>
    olderThan === undefined || Date.now() - changedAtMs >= olderThan * DAY_MS;
  if (names.length > 0) {
    const found = await Promise.all(names.map((name) => findLocalRun(name, home)));
    const busy = found.find(({ state }) => state === 'running');
    if (busy === undefined)
      return [...new Map(found.map((run) => [run.dir, run])).values()].filter(isOld);
    throw new ConfigError('run/busy', `a process plays ${busy.name}`, {
      hint: 'stop it first with Ctrl-C',
    });
  }
  const all = await listLocalRuns(home);
  return all.filter(
    (run) =>
      isOld(run) &&
      (run.state === 'finished' || (olderThan !== undefined && run.state === 'stopped')),
  );
}

/** Throws for a folder that is not one of the data folder's own. */
async function assertInside({ dir }: LocalRun, home: string): Promise<void> {
  const path = relative(home, await realpath(dir)).split(sep);
  const isOwn =
    path.length === 2 && (path[0] === 'runs' || path[0] === 'demos') && path[1] !== '..';
  if (isOwn && !(await lstat(dir)).isSymbolicLink()) return;
  throw new ConfigError('run/elsewhere', `${dir} is not in the data folder ${home}`, {
    hint: 'remove that folder yourself',
  });
}

async function removeAll(chosen: readonly LocalRun[]): Promise<readonly LocalRun[]> {
  const removed: LocalRun[] = [];
  for (const run of chosen) {
    try {
      await remove(run);
      removed.push(run);
    } catch (error) {
      if (!(error instanceof ConfigError) || error.code !== 'run/busy') throw error;
      writeNote(`${run.name} is left: ${error.message}`);
    }
  }
  return removed;
}

/** Empties the folder but for keys and what they have signed; under its lock, so that no worker starts in it meanwhile. */
async function remove({ dir }: LocalRun): Promise<void> {
  const lock = await takeLock(dir);
  try {
    await empty(dir);
  } finally {
    await lock.release();
  }
  // stays where a key does
  await rmdir(dir).catch(() => undefined);
}

async function empty(dir: string): Promise<void> {
  for (const entry of await readdir(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) {
      await empty(path);
      await rmdir(path).catch(() => undefined);
    } else if (!(await isKept(path))) await rm(path, { force: true });
  }
}

const LONGEST_KEY = 200;

/** Whether a file is a lock or the vote journal, or holds a secret key, whatever it is called. */
async function isKept(file: string): Promise<boolean> {
  if (KEPT.includes(basename(file))) return true;
  const { size } = await lstat(file);
  if (size > LONGEST_KEY) return false;
  try {
    parseSecretKey(await readFile(file, 'utf8'), file);
    return true;
  } catch {
    return false;
  }
}

function words(runs: readonly LocalRun[], bytes: number, isRemoved: boolean): string {
  if (runs.length === 0) return 'nothing to remove\n';
  const now = Date.now();
  const rows = runs.map(({ word, state, bytes, changedAtMs }) => [
    safeLine(word),
    state,
    formatBytes(bytes),
    `changed ${formatAge(now - changedAtMs)}`,
  ]);
  const many = `${runs.length} run${runs.length === 1 ? '' : 's'}, ${formatBytes(bytes)}`;
  const end = isRemoved ? `removed ${many}; keys stay` : `would remove ${many}; do it with --yes`;
  return `${[...alignColumns(rows, process.stdout.columns || 100), '', end].join('\n')}\n`;
}
