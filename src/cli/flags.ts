/** Flags of the settings table on a command, and what a person typed as checked settings. */
import { readFile } from 'node:fs/promises';
import { type Command, Option } from 'commander';
import { ConfigError } from '../base/errors.ts';
import {
  fields,
  type PartialSettings,
  readSettings,
  type SettingName,
  settingNames,
} from '../run/settings.ts';

const repeatable: readonly SettingName[] = ['relay'];

const collect = (value: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  value,
];

/** Adds one flag per setting named. */
export function addSettingFlags(
  command: Command,
  names: readonly SettingName[] = settingNames,
): Command {
  for (const name of names) {
    const option = new Option(fields[name].flag, fields[name].help);
    if (repeatable.includes(name)) option.argParser(collect);
    command.addOption(option);
  }
  return command;
}

/** The settings typed as flags; a `--no-…` flag counts only when it was typed. */
export function settingsFromFlags(command: Command): PartialSettings {
  const typed: Record<string, unknown> = {};
  for (const name of settingNames) {
    const value =
      command.getOptionValueSource(name) === 'cli' ? command.getOptionValue(name) : undefined;
    if (value !== undefined) typed[name] = value;
  }
  return readSettings(typed, 'flag');
}

/** The settings of a JSON file. */
export async function settingsFromFile(file: string): Promise<PartialSettings> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new ConfigError('settings/file', `cannot read the settings file ${file}`, { cause });
  });
  const values = parseJson(text);
  if (typeof values !== 'object' || values === null || Array.isArray(values)) {
    throw new ConfigError('settings/file', `${file} is not a JSON object of settings`, {
      hint: 'write it like {"model": "char-gpt", "rounds": 5}; the names are those of the flags in camelCase',
    });
  }
  return readSettings(values as Record<string, unknown>, file);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A whole number typed at a flag that is no setting. */
export function wholeFlag(
  flag: string,
  least: number,
  most = Number.MAX_SAFE_INTEGER,
): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== '' && Number.isSafeInteger(value) && value >= least && value <= most)
      return value;
    throw new ConfigError(
      'flag/value',
      `${flag} is ${JSON.stringify(text)}; it must be a whole number from ${least}`,
    );
  };
}
