/**
 * Stores the settings and the base model of a run in its folder. When a run resumes, settings that determine its steps
 * cannot change; others can, by a flag. If no round was trained yet, all of them can.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { jsonIn } from '../../base/canonical-json.ts';
import { CheckpointError, ConfigError } from '../../base/errors.ts';
import { isObject, type Untyped } from '../../base/shape.ts';
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
  writeSettings,
} from '../../run/settings.ts';
import { defaultsOf } from '../../run/spec/spec-table.ts';
import { assertSameBase, type BaseIdentity, readIdentity } from '../../run/spec/start.ts';
import { writeAtomically } from './atomic-file.ts';
import { readState } from './local-runs.ts';

/** Settings that may change when a run resumes: those personal to a worker, unless their row is marked `fixed`. */
const MAY_CHANGE: readonly string[] = namesIn('personal', 'alone').filter(
  (name) => (fields as Group)[name]!.fixed !== true,
);

export interface AgreeOptions {
  /** Allows another number of rounds, as long as it is not below those already played. */
  readonly mayExtend?: boolean;
}

/** Stores the settings. Throws a ConfigError (`run/settings`) if they contradict those of a run that has begun. */
export async function agreeOnSettings(
  dir: string,
  settings: Untyped,
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

/** Stores the base model of a run. Throws a ConfigError that names the differing file if the run began with another. */
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

/** Returns the known settings of the run in this folder; empty if no round was trained yet. */
export async function keptSettings(dir: string): Promise<PartialSettings> {
  const file = fileIn(dir);
  if ((await roundsDone(dir)) === undefined) return {};
  const kept = withoutRemoved((await readKept(file)) ?? {}, file);
  const known = Object.entries(kept).filter(([name]) => settingNames.includes(name as SettingName));
  return readSettings(Object.fromEntries(known), file);
}

/** Returns the base model of the run in this folder; undefined if it has none. */
export async function keptBase(dir: string): Promise<BaseIdentity | undefined> {
  const kept = await readKept(join(dir, BASE));
  return kept && readIdentity(kept);
}

const BASE = 'base.json';

const fileIn = (dir: string): string => join(dir, 'settings.json');

/** Returns the number of rounds played; undefined before a state was saved. */
const roundsDone = async (dir: string): Promise<number | undefined> =>
  (await readState(dir))?.round;

/** The values of options that an earlier version did not have, and so did not store. */
const defaults = writeSettings(defaultsOf(fields));

function assertSame(dir: string, stored: Untyped, now: Untyped, free: readonly string[]): void {
  const before: Untyped = { ...defaults, ...stored };
  const changed = Object.keys({ ...stored, ...now }).filter(
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
        `leave out ${flags.join(', ')} to resume that run, ` +
        'or start another one with --run NAME or another --dir',
    },
  );
}

const tooFew = (dir: string, { rounds }: Untyped, done: number): ConfigError =>
  new ConfigError(
    'run/settings',
    `${dir} holds a run that has played ${done} rounds, and --rounds is ${rounds}`,
    { hint: `use --rounds ${done + 1} or more to resume with ${roundName(done)}` },
  );

/** Returns the object in a JSON file; undefined if there is no file. Throws `run/settings` if it is broken. */
async function readKept(file: string): Promise<Untyped | undefined> {
  const refuse = (why: string, cause?: unknown) =>
    new CheckpointError('run/settings', `${file} ${why}`, {
      hint: 'move the folder away to start over',
      cause,
    });
  const text = await readFile(file, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined;
    throw refuse('cannot be read', cause);
  });
  if (text === undefined) return undefined;
  const settings = jsonIn(text);
  if (isObject(settings)) return settings;
  throw refuse('does not hold the settings of a run');
}
