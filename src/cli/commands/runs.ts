/** `nostrain runs` and `nostrain clean`: list and remove the runs on this machine. */

import { lstat, readdir, readFile, realpath, rm, rmdir } from 'node:fs/promises';
import { basename, join, relative, sep } from 'node:path';
import { ConfigError, safeLine } from '../../base/errors.ts';
import { formatBytes, formatLoss, plural } from '../../base/numbers.ts';
import type { CertifiedSummary } from '../../certified/rounds/events.ts';
import { addPoint, type Curve, emptyCurve, pointsOf } from '../../dashboard/worker-view.ts';
import { otherPlatforms, removeOtherPlatforms } from '../../node/engine/other-platforms.ts';
import { dataHome } from '../../node/files/data-home.ts';
import { parseSecretKey } from '../../node/files/keys.ts';
import { findLocalRun, type LocalRun, listLocalRuns } from '../../node/files/local-runs.ts';
import { takeLock } from '../../node/files/run-folder.ts';
import { formOf } from '../../run/data-forms.ts';
import { defineCommand } from '../../terminal/command.ts';
import { commandLine } from '../../terminal/command-line.ts';
import { type FlagValues, toggle, whole } from '../../terminal/flag-table.ts';
import { refuseUnused } from '../../terminal/options.ts';
import { asJson, writeNote, writeOut } from '../../terminal/output.ts';
import { alignColumns } from '../../terminal/render/text.ts';

export const runs = defineCommand({
  name: 'runs',
  help: 'list the runs on this machine',
  flags: {
    json: toggle('print JSON'),
  },
  async run({ json }) {
    const home = dataHome();
    const localRuns = await listLocalRuns(home);
    writeOut(json ? asJson({ home, runs: localRuns.map(summaryOf) }) : listWords(localRuns, home));
  },
});

function listWords(localRuns: readonly LocalRun[], home: string): string {
  if (localRuns.length === 0) {
    const next = 'try: nostrain demo gpt, or nostrain run-training --model char-gpt';
    return `no runs in ${home} yet\n  ${next}\n`;
  }
  const heading = ['name', 'kind', 'state', 'round', 'loss', 'size', 'last change'];
  const now = Date.now();
  const rows = localRuns.map((run) => [
    safeLine(run.word),
    run.kind,
    run.state,
    run.rounds === undefined ? `${run.played}` : `${run.played}/${run.rounds}`,
    lossOf(run),
    formatBytes(run.bytes),
    formatAge(now - run.changedAtMs),
  ]);
  const width = process.stdout.columns || 100;
  const bytes = localRuns.reduce((sum, run) => sum + run.bytes, 0);
  const total = `${plural(localRuns.length, 'run')}, ${formatBytes(bytes)} in ${home}`;
  const more = '`nostrain show NAME` shows curve and rounds, `nostrain clean` frees disk space';
  return `${[...alignColumns([heading, ...rows], width), '', total, more].join('\n')}\n`;
}

/** Returns the entry of a run in `runs --json`. */
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

/** Returns the loss of the shared model after a round, otherwise this worker's training loss. */
export const lossAfter = ({ validationLoss, trainingLoss }: CertifiedSummary): number =>
  validationLoss ?? trainingLoss;

function lossOf({ history }: LocalRun): string {
  const last = history.at(-1);
  return last === undefined ? '-' : formatLoss(lossAfter(last));
}

/** Returns the losses over the rounds, thinned to a bounded number. */
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

/** Formats an age such as `3 min ago`. */
export function formatAge(ms: number): string {
  if (ms < MINUTE) return 'now';
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ago`;
  if (ms < 2 * DAY) return `${Math.floor(ms / HOUR)} h ago`;
  return `${Math.floor(ms / DAY)} days ago`;
}

/** Returns the raw numbers of a round; `index` starts at 0. */
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

/** Returns the command that shows what the model of a run has learned; undefined for models of rows. */
export function sampleCommand({ word, model, parameters }: LocalRun): string | undefined {
  const writes = model !== undefined && formOf({ model }) !== 'rows';
  if (parameters === undefined || !writes) return undefined;
  return commandLine(['sample', word]);
}

const cleanFlags = {
  olderThan: whole('<days>', 'runs unchanged for this many days, finished or not', 0),
  engine: toggle('instead of runs, builds of onnxruntime-node for other platforms than this one'),
  yes: toggle('remove the runs; keys are kept'),
  json: toggle('print JSON'),
};

type CleanFlags = FlagValues<typeof cleanFlags>;

export const clean = defineCommand({
  name: 'clean',
  help: 'remove runs from this machine; without --yes it only lists what it would remove',
  args: [['[run...]', 'names of runs, finished or not (default: all finished runs)']],
  flags: cleanFlags,
  async run(flags, { args: [names], command }) {
    const isRuns = flags.engine !== true;
    refuseUnused(command, [{ flags: ['olderThan', 'json'], goesWith: 'runs', holds: isRuns }]);
    if (!isRuns) return await cleanEngine(flags);
    const home = await realpath(dataHome()).catch(() => dataHome());
    const chosen = await choose(names, flags, home);
    for (const run of chosen) await assertInside(run, home);
    const removed = flags.yes ? await removeAll(chosen) : [];
    const listed = flags.yes ? removed : chosen;
    const bytes = listed.reduce((sum, run) => sum + run.bytes, 0);
    if (flags.json) {
      writeOut(asJson({ removed: flags.yes === true, bytes, runs: listed.map(summaryOf) }));
    } else writeOut(cleanWords(listed, bytes, flags.yes === true));
  },
});

async function cleanEngine({ yes = false }: CleanFlags): Promise<void> {
  const others = await otherPlatforms();
  if (yes) await removeOtherPlatforms(others);
  const { folders, bytes } = others;
  const many = `${formatBytes(bytes)} of onnxruntime-node for other platforms`;
  if (folders.length === 0) writeOut('nothing to remove\n');
  else writeOut(yes ? `removed ${many}\n` : `would remove ${many}; use --yes to remove\n`);
}

/**
 * Files that are kept: what a key has signed stays as long as the key, so that it never signs a second vote in a round.
 */
const KEPT: readonly string[] = ['key', 'votes.json', 'lock'];

const DAY_MS = 86_400_000;

/**
 * Returns the runs to remove. Throws `run/busy` for a named run that a process is training; unnamed ones are skipped.
 */
async function choose(
  names: readonly string[],
  { olderThan }: CleanFlags,
  home: string,
): Promise<readonly LocalRun[]> {
  const isOld = ({ changedAtMs }: LocalRun) =>
    olderThan === undefined || Date.now() - changedAtMs >= olderThan * DAY_MS;
  if (names.length > 0) {
    const localRuns = await Promise.all(names.map((name) => findLocalRun(name, home)));
    const busy = localRuns.find(({ state }) => state === 'running');
    if (busy === undefined)
      return [...new Map(localRuns.map((run) => [run.dir, run])).values()].filter(isOld);
    throw new ConfigError('run/busy', `a process is training ${busy.name}`, {
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

/** Throws `run/elsewhere` if the folder is not directly inside the data folder. */
async function assertInside({ dir }: LocalRun, home: string): Promise<void> {
  const path = relative(home, await realpath(dir)).split(sep);
  const isInDataFolder =
    path.length === 2 && (path[0] === 'runs' || path[0] === 'demos') && path[1] !== '..';
  if (isInDataFolder && !(await lstat(dir)).isSymbolicLink()) return;
  throw new ConfigError('run/elsewhere', `${dir} is not in the data folder ${home}`, {
    hint: 'remove the folder by hand',
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
      writeNote(`${run.name} was not removed: ${error.message}`);
    }
  }
  return removed;
}

/** Empties the folder under its lock, except for keys and vote journals. */
async function remove({ dir }: LocalRun): Promise<void> {
  const lock = await takeLock(dir);
  try {
    await empty(dir);
  } finally {
    await lock.release();
  }
  // fails, and the folder stays, if a key is left in it
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

/** Reports whether a file must be kept: a lock, a vote journal, or any file that holds a secret key. */
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
  const many = `${plural(runs.length, 'run')}, ${formatBytes(bytes)}`;
  const end = isRemoved
    ? `removed ${many}; keys are kept`
    : `would remove ${many}; use --yes to remove`;
  return `${[...alignColumns(rows, process.stdout.columns || 100), '', end].join('\n')}\n`;
}
