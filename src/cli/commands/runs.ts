/** `nostrain runs`: the runs kept on this machine, how far each is, and what it takes on the disk. */

import { lstat, readdir, readFile, realpath, rm, rmdir } from 'node:fs/promises';
import { basename, join, relative, sep } from 'node:path';
import type { Command } from 'commander';
import { ConfigError, safeLine } from '../../base/errors.ts';
import { formatBytes, formatLoss } from '../../base/numbers.ts';
import type { CertifiedSummary } from '../../certified/rounds/events.ts';
import { addPoint, type Curve, emptyCurve, pointsOf } from '../../dashboard/worker-view.ts';
import { dataHome } from '../../node/files/data-home.ts';
import { parseSecretKey } from '../../node/files/keys.ts';
import { findLocalRun, type LocalRun, listLocalRuns } from '../../node/files/local-runs.ts';
import { takeLock } from '../../node/files/run-folder.ts';
import { formOf } from '../../run/data-forms.ts';
import { commandLine } from '../../terminal/command-line.ts';
import { commandWith, type FlagValues, toggle, whole } from '../../terminal/flag-table.ts';
import { asJson, writeNote, writeOut } from '../../terminal/output.ts';
import { alignColumns } from '../../terminal/render/text.ts';

const runsFlags = {
  json: toggle('print JSON'),
};

export const runs = (): Command =>
  commandWith('runs', 'list the runs kept on this machine', runsFlags).action(
    async ({ json }: FlagValues<typeof runsFlags>) => {
      const home = dataHome();
      const found = await listLocalRuns(home);
      writeOut(json ? asJson({ home, runs: found.map(summaryOf) }) : listWords(found, home));
    },
  );

function listWords(found: readonly LocalRun[], home: string): string {
  if (found.length === 0) {
    const next = 'try: nostrain demo gpt, or nostrain run-training --model char-gpt';
    return `no runs in ${home} yet\n  ${next}\n`;
  }
  const heading = ['name', 'kind', 'state', 'round', 'loss', 'size', 'last change'];
  const now = Date.now();
  const rows = found.map((run) => [
    safeLine(run.word),
    run.kind,
    run.state,
    run.rounds === undefined ? `${run.played}` : `${run.played}/${run.rounds}`,
    lossOf(run),
    formatBytes(run.bytes),
    formatAge(now - run.changedAtMs),
  ]);
  const width = process.stdout.columns || 100;
  const bytes = found.reduce((sum, run) => sum + run.bytes, 0);
  const many = `${found.length} run${found.length === 1 ? '' : 's'}`;
  const total = `${many}, ${formatBytes(bytes)} in ${home}`;
  const more = 'nostrain show NAME: its curve and rounds; nostrain clean: free disk space';
  return `${[...alignColumns([heading, ...rows], width), '', total, more].join('\n')}\n`;
}

/** What `runs --json` lists of a run. */
export function summaryOf(run: LocalRun) {
  const { name, kind, state, dir, worker, model, parameters, rounds, played, bytes } = run;
  const last = run.history.at(-1);
  return {
    name,
    kind,
    state,
    run: run.run,
    model,
    parameters,
    roundsDone: played,
    rounds,
    trainingLoss: finite(last?.trainingLoss),
    validationLoss: finite(last?.validationLoss),
    bytes,
    changedAt: new Date(run.changedAtMs).toISOString(),
    folder: dir,
    modelFile: modelFileOf(worker),
  };
}

export const modelFileOf = (worker: string): string => join(worker, 'state.safetensors');

/** JSON has no NaN. */
const finite = (loss: number | undefined): number | undefined =>
  loss !== undefined && Number.isFinite(loss) ? loss : undefined;

/** The loss of the shared model after a round, else that of this worker's training. */
export const lossAfter = ({ validationLoss, trainingLoss }: CertifiedSummary): number =>
  validationLoss ?? trainingLoss;

function lossOf({ history }: LocalRun): string {
  const last = history.at(-1);
  return last === undefined ? '-' : formatLoss(lossAfter(last));
}

/** Losses over the rounds, in bounded number. */
export const curveOf = ({ history }: LocalRun): readonly number[] =>
  pointsOf(
    history
      .map(lossAfter)
      .filter(Number.isFinite)
      .reduce((curve: Curve, loss) => addPoint(curve, loss), emptyCurve),
  );

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `3 min ago` */
export function formatAge(ms: number): string {
  if (ms < MINUTE) return 'now';
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ago`;
  if (ms < 2 * DAY) return `${Math.floor(ms / HOUR)} h ago`;
  return `${Math.floor(ms / DAY)} days ago`;
}

/** One row per round, numbers as they are; `index` is from 0. */
export const roundRow = (round: CertifiedSummary) => ({
  index: round.index,
  validationLoss: finite(round.validationLoss),
  bitsPerByte: finite(round.bitsPerByte),
  accuracy: round.accuracy,
  trainingLoss: finite(round.trainingLoss),
  counted: round.accepted.length,
  refused: Math.max(round.refused.length, round.certified?.rejected.length ?? 0),
  payloadBytes: round.payloadBytes,
  eventBytes: round.eventBytes,
  secondsTraining: round.secondsTraining,
  secondsWaiting: round.secondsWaiting,
  seconds: round.seconds,
  result: round.certified?.result ?? round.completionReason,
  model: round.digest,
});

/** The line that shows what the model of a run has learned; undefined for models of rows. */
export function sampleCommand({ word, model, parameters }: LocalRun): string | undefined {
  const writes = model !== undefined && formOf({ model }) !== 'rows';
  if (parameters === undefined || !writes) return undefined;
  return commandLine(['sample', word]);
}

const cleanFlags = {
  olderThan: whole('<days>', 'runs, finished or not, that have not changed since', 0),
  yes: toggle('remove them; keys stay'),
  json: toggle('print JSON'),
};

type CleanFlags = FlagValues<typeof cleanFlags>;

export const clean = (): Command =>
  commandWith(
    'clean',
    'remove runs from this machine; without --yes it only lists what it would remove',
    cleanFlags,
  )
    .argument('[run...]', 'names of runs, finished or not (default: all finished runs)')
    .action(async (names: readonly string[], flags: CleanFlags) => {
      const home = await realpath(dataHome()).catch(() => dataHome());
      const chosen = await choose(names, flags, home);
      for (const run of chosen) await assertInside(run, home);
      const removed = flags.yes ? await removeAll(chosen) : [];
      const told = flags.yes ? removed : chosen;
      const bytes = told.reduce((sum, run) => sum + run.bytes, 0);
      if (flags.json) {
        writeOut(asJson({ removed: flags.yes === true, bytes, runs: told.map(summaryOf) }));
      } else writeOut(cleanWords(told, bytes, flags.yes === true));
    });

/** What a key has signed is kept as long as the key: it must never sign anything else in those rounds. */
const KEPT: readonly string[] = ['key', 'votes.json', 'lock'];

const DAY_MS = 86_400_000;

/** The runs to remove. A run that a process plays is refused if it is named, else left out. */
async function choose(
  names: readonly string[],
  { olderThan }: CleanFlags,
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

/** Empties the folder except for keys and what they have signed, under its lock. */
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

function cleanWords(runs: readonly LocalRun[], bytes: number, isRemoved: boolean): string {
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
