/**
 * The settings that a folder keeps for its run. A run that has begun keeps them unless a flag changes one, and those
 * that decide its steps cannot change. A start that failed before the first round leaves all of them open.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointError, ConfigError } from '../../base/errors.ts';
import type { Group } from '../../run/field.ts';
import { roundName } from '../../run/ids.ts';
import { fields } from '../../run/options.ts';
import { withoutRemoved } from '../../run/removed.ts';
import {
  namesIn,
  type PartialSettings,
  readSettings,
  type SettingName,
  settingNames,
  spell,
} from '../../run/settings.ts';
import { assertSameBase, type BaseIdentity, readIdentity } from '../../run/spec/start.ts';
import { writeAtomically } from './atomic-file.ts';
import { readState } from './local-runs.ts';

/** Settings that may differ when a run resumes: each worker's own, unless their row says that they are fixed. */
const MAY_CHANGE: readonly string[] = namesIn('personal', 'alone').filter(
  (name) => (fields as Group)[name]!.fixed !== true,
);

type Written = Readonly<Record<string, unknown>>;

export interface AgreeOptions {
  /** The run may be given more rounds, or fewer that are still to come. */
  readonly mayExtend?: boolean;
}

/** Keeps the settings of a new run; a run that has begun must have the same ones where they matter. */
export async function agreeOnSettings(
  dir: string,
  settings: Written,
  { mayExtend = false }: AgreeOptions = {},
): Promise<void> {
  const file = fileIn(dir);
  const kept = await readKept(file);
  const before = kept && withoutRemoved(kept, file);
  const done = await roundsDone(dir);
  if (before !== undefined && done !== undefined) {
    const free = mayExtend ? [...MAY_CHANGE, 'rounds'] : MAY_CHANGE;
    assertSame(dir, before, withoutRemoved(settings, dir), free);
    if (mayExtend && Number(settings.rounds) < done) throw tooFew(dir, settings, done);
  }
  await writeAtomically(file, new TextEncoder().encode(`${JSON.stringify(settings, null, 2)}\n`));
}

/** Records the base of a new run, which cannot change later. Throws a ConfigError that names the file that differs. */
export async function agreeOnBase(
  dir: string,
  { files, tokenizerSha256 }: BaseIdentity,
): Promise<void> {
  const file = join(dir, BASE);
  const kept = await readKept(file);
  if (kept !== undefined && (await roundsDone(dir)) !== undefined) {
    assertSameBase({ files, tokenizerSha256 }, readIdentity(kept));
  }
  const text = JSON.stringify({ files, tokenizerSha256 }, null, 2);
  await writeAtomically(file, new TextEncoder().encode(`${text}\n`));
}

/** The settings of a run that has begun in this folder, known ones only; none where no round was trained yet. */
export async function keptSettings(dir: string): Promise<PartialSettings> {
  const file = fileIn(dir);
  if ((await roundsDone(dir)) === undefined) return {};
  const kept = withoutRemoved((await readKept(file)) ?? {}, file);
  const known = Object.entries(kept).filter(([name]) => settingNames.includes(name as SettingName));
  return readSettings(Object.fromEntries(known), file);
}

/** The base that the run in this folder began with; undefined where none is kept. */
export async function keptBase(dir: string): Promise<BaseIdentity | undefined> {
  const kept = await readKept(join(dir, BASE));
  return kept && readIdentity(kept);
}

const BASE = 'base.json';

const fileIn = (dir: string): string => join(dir, 'settings.json');

/** Undefined before anything of the run is saved. */
const roundsDone = async (dir: string): Promise<number | undefined> =>
  (await readState(dir))?.round;

function assertSame(dir: string, before: Written, now: Written, free: readonly string[]): void {
  const changed = Object.keys({ ...before, ...now }).filter(
    (key) => !free.includes(key) && JSON.stringify(before[key]) !== JSON.stringify(now[key]),
  );
  if (changed.length === 0) return;
  const words = changed.map(
    (key) => `${key} ${JSON.stringify(before[key])} -> ${JSON.stringify(now[key])}`,
  );
  const flags = changed.map((key) =>
    Object.hasOwn(fields, key) ? spell(key as SettingName) : key,
  );
  throw new ConfigError(
    'run/settings',
    `${dir} holds a run with other settings: ${words.join(', ')}`,
    {
      hint:
        `leave out ${flags.join(', ')} to go on with that run, ` +
        'or start another one: --run NAME, or another --dir',
    },
  );
}

const tooFew = (dir: string, { rounds }: Written, done: number): ConfigError =>
  new ConfigError(
    'run/settings',
    `${dir} holds a run that has played ${done} rounds, and --rounds says ${rounds}`,
    { hint: `--rounds ${done + 1} or more goes on with ${roundName(done)}` },
  );

/** What the folder's run was started with; undefined for a new one. */
async function readKept(file: string): Promise<Record<string, unknown> | undefined> {
  const refuse = (why: string, cause?: unknown) =>
    new CheckpointError('run/settings', `${file} ${why}`, {
      hint: 'move the folder away to start anew',
      cause,
    });
  const text = await readFile(file, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined;
    throw refuse('cannot be read', cause);
  });
  if (text === undefined) return undefined;
  let settings: unknown;
  try {
    settings = JSON.parse(text);
  } catch {
    settings = undefined;
  }
  if (typeof settings === 'object' && settings !== null && !Array.isArray(settings)) {
    return settings as Record<string, unknown>;
  }
  throw refuse('does not hold the settings of a run');
}
