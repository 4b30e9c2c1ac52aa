/** Flags of the settings table on a command, and what a person typed as checked settings. */
import { type Command, Option } from 'commander';
import { ConfigError, NostrainError } from '../base/errors.ts';
import { readJsonFile } from '../node/files/documents.ts';
import type { Field } from '../run/field.ts';
import { roundIndex } from '../run/round-name.ts';
import {
  fields,
  type PartialSettings,
  readSettings,
  type SettingName,
  type Settings,
  settingNames,
} from '../run/settings.ts';
import { assertRule } from '../run/spec/aggregation-rules.ts';
import { presets } from '../run/spec/presets.ts';
import { formatBytes } from './render/numbers.ts';

const MANY: readonly SettingName[] = ['relay'];

/** Adds one flag per setting named. */
export function addSettingFlags(
  command: Command,
  names: readonly SettingName[] = settingNames,
): Command {
  for (const name of names) {
    const { flag } = fields[name];
    const help = helpOf(name);
    const isMany = MANY.includes(name);
    command.addOption(isMany ? repeatable(flag, help) : checked(flag, help, [fields[name]]));
  }
  return command;
}

/** The same, checked only when the settings are read: the Python reference tells wrong numbers from wrong command lines. */
export function addUncheckedSettingFlags(command: Command): Command {
  for (const name of settingNames) {
    const { flag } = fields[name];
    const help = helpOf(name);
    command.addOption(MANY.includes(name) ? repeatable(flag, help) : option(flag, help));
  }
  return command;
}

/** The help of a setting and its default, which the model decides. */
function helpOf(name: SettingName): string {
  const { help, write = String }: { readonly help: string; write?(value: never): string } =
    fields[name];
  const [text, regression] = [presets['char-gpt'], presets.linear].map((preset) => {
    const value = (preset as PartialSettings)[name];
    return value === undefined || typeof value === 'boolean' ? '' : write(value as never);
  });
  if (text === '' || text === undefined) return help;
  const words = text === regression ? text : `${text}; ${regression} for linear and mlp`;
  return `${help} (default: ${words})`;
}

/** An option whose value is a text that one of the fields takes; anything else is a wrong command line. */
export function checked(
  flag: string,
  help: string,
  readers: readonly Pick<Field<unknown>, 'read'>[],
): Option {
  const made = option(flag, help);
  const isSwitch = made.isBoolean() || made.negate;
  return isSwitch ? made : made.argParser(checking(longFlag(flag), readers));
}

const checking =
  (flag: string, readers: readonly Pick<Field<unknown>, 'read'>[]) =>
  (text: string): string => {
    const failures: unknown[] = [];
    for (const reader of readers) {
      try {
        reader.read(text, flag);
        return text;
      } catch (error) {
        failures.push(error);
      }
    }
    return asFlagError(() => {
      throw failures[0];
    });
  };

/** What a field refuses, as a wrong command line. */
function asFlagError<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof NostrainError ? flagError(error) : error;
  }
}

const flagError = (cause: NostrainError): ConfigError =>
  new ConfigError('flag/value', cause.message, { cause });

/** The settings typed as flags; a `--no-…` flag counts only when it was typed. Whatever cannot be is a wrong command line. */
export function settingsFromFlags(command: Command): PartialSettings {
  return asFlagError(() => settingsAsTyped(command));
}

/** The same, where a number out of bounds is a wrong value instead. */
export function settingsAsTyped(command: Command): PartialSettings {
  const typed: Record<string, unknown> = {};
  for (const name of settingNames) {
    const value =
      command.getOptionValueSource(name) === 'cli' ? command.getOptionValue(name) : undefined;
    if (value !== undefined) typed[name] = fields[name].read(value, longFlag(fields[name].flag));
  }
  return typed as PartialSettings;
}

const option = (flags: string, help: string): Option => new Option(flags, help);

/** `--batch-size` of `--batch-size <n>`. */
export const longFlag = (flags: string): string => /--[a-z-]+/.exec(flags)![0];

/** An option that takes a whole number from `least` to `most`. */
export const whole = (flags: string, help: string, least: number, most?: number): Option =>
  option(flags, help).argParser(wholeFlag(longFlag(flags), least, most));

/** An option that names a round: people count from 1, its value is the index. */
export const roundOption = (flags: string, help: string): Option => {
  const read = wholeFlag(longFlag(flags), 1, 2 ** 32);
  return option(flags, `${help}, from 1`).argParser((text) => roundIndex(read(text)));
};

/** An option that takes a number from `least` to `most`. */
export const numeric = (flags: string, help: string, least: number, most?: number): Option =>
  option(flags, help).argParser((text) => {
    const value = numberOf(text);
    const isTooLarge = most !== undefined && value > most;
    if (Number.isFinite(value) && value >= least && !isTooLarge) return value;
    const range = most === undefined ? `from ${least} on` : `from ${least} to ${most}`;
    throw wrongValue(longFlag(flags), text, `a number ${range}`);
  });

const UNITS: Readonly<Record<string, number>> = { '': 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };

/** An option that takes a number of bytes, such as 16384, 16k, 4m or 2g. */
export const byteCount = (flags: string, help: string, least: number, most: number): Option =>
  option(flags, help).argParser((text) => {
    const [, number, unit = ''] = /^(\d{1,15})([kmg]?)(?:i?b)?$/i.exec(text) ?? [];
    const bytes = Number(number) * UNITS[unit.toLowerCase()]!;
    if (bytes >= least && bytes <= most) return bytes;
    const range = `${formatBytes(least)} to ${formatBytes(most)}`;
    throw new ConfigError('flag/value', `${longFlag(flags)} is ${JSON.stringify(text)}`, {
      hint: `say a number of bytes from ${range}, for example 4m or 16384`,
    });
  });

/** An option that takes a number above zero. */
export const positive = (flags: string, help: string): Option =>
  option(flags, help).argParser(positiveFlag(longFlag(flags)));

/** An option that may be given several times. */
export const repeatable = (flags: string, help: string): Option =>
  option(flags, help).argParser((value: string, before: readonly string[] = []) => [
    ...before,
    value,
  ]);

/** The settings of a JSON file. */
export async function settingsFromFile(file: string): Promise<PartialSettings> {
  const words = { code: 'settings/file', what: 'the settings file', hint: FORM };
  const values = await readJsonFile(file, words);
  if (typeof values !== 'object' || values === null || Array.isArray(values)) {
    throw new ConfigError('settings/file', `${file} is not a JSON object of settings`, {
      hint: FORM,
    });
  }
  return readSettings(values as Record<string, unknown>, file);
}

const FORM =
  'write it like {"model": "char-gpt", "rounds": 5}; the names are those of the flags in camelCase';

/** Workers of several tiers send all that they have, in this program's own wire. */
function assertTiers({ tiers, tier, owners, fragments, profile }: Settings): void {
  if (tiers === 0) return;
  if (tier !== 'auto' && Number(tier) > tiers) {
    throw new ConfigError('flag/tier', `there is no tier ${tier} in a run of --tiers ${tiers}`, {
      hint: `the tiers are 0, the whole model, to ${tiers}`,
    });
  }
  if (profile === 'nostrain/1' && owners === 0 && fragments === 1) return;
  const which =
    profile === 'nostrain/0'
      ? 'the wire of nostrain/0'
      : '--owners and --fragments, which cut the model otherwise';
  throw new ConfigError('flag/tiers', `--tiers does not go with ${which}`, {
    hint: 'give --profile nostrain/1 --owners 0 --fragments 1, or --tiers 0',
  });
}

/** Throws where workers could not agree on who sends what, or a codec cannot send a part of the parameters. */
export function assertAgreeable(settings: Settings): void {
  const { sync, owners, fragments, waitFor, profile } = settings;
  assertTiers(settings);
  assertRule(settings);
  if (profile === 'nostrain/0' && fragments > 1) {
    throw new ConfigError('flag/fragments', 'nostrain/0 sends the whole model, never a fragment', {
      hint: 'give --profile nostrain/1, or --fragments 1',
    });
  }
  const all = '--owners 0 --fragments 1 --packing auto --residual feedback';
  if (sync.strategy === 'async' && (owners > 0 || fragments > 1)) {
    throw new ConfigError(
      'flag/owners',
      'async workers are in different rounds, so none of them can be told which part to send',
      { hint: `let every worker send everything: ${all}` },
    );
  }
  if (owners === 0 || sync.strategy === 'strict' || waitFor >= 2) return;
  throw new ConfigError(
    'flag/owners',
    'say how many workers to wait for, with --sync strict:3: each sends only its part of the model, so all must be known',
    { hint: `--sync strict:N, or --wait-for N; or let every worker send everything: ${all}` },
  );
}

/** Reads a whole number typed at a flag that is no setting. */
export function wholeFlag(
  flag: string,
  least: number,
  most = Number.MAX_SAFE_INTEGER,
): (text: string) => number {
  const range = most === Number.MAX_SAFE_INTEGER ? `from ${least} on` : `from ${least} to ${most}`;
  return (text) => {
    const value = numberOf(text);
    if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
    throw wrongValue(flag, text, `a whole number ${range}`);
  };
}

const positiveFlag =
  (flag: string): ((text: string) => number) =>
  (text) => {
    const value = numberOf(text);
    if (Number.isFinite(value) && value > 0) return value;
    throw wrongValue(flag, text, 'a number above 0');
  };

const numberOf = (text: string): number => (text.trim() === '' ? Number.NaN : Number(text));

const wrongValue = (flag: string, text: string, accepted: string): ConfigError =>
  new ConfigError('flag/value', `${flag} is ${JSON.stringify(text)}; it must be ${accepted}`);
