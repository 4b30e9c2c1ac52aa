/** Flags as tables: one row per flag, by camelCase name, and the types of their values. */
import { type Command, Option } from 'commander';
import { ConfigError } from '../base/errors.ts';
import { formatBytes } from '../base/numbers.ts';
import { dashed, type Field } from '../run/field.ts';
import { roundIndex } from '../run/ids.ts';
import { fields } from '../run/options.ts';
import { type SettingName, settingNames } from '../run/settings.ts';
import { addRow, type SpecOption, specOptions } from './options.ts';

export interface Flag<T> {
  /** Placeholder of the value in the help, such as `<n>`; a switch has none. */
  readonly value?: string | undefined;
  readonly help: string;
  /** One-letter form of the flag. */
  readonly short?: string;
  readonly choices?: readonly string[];
  readonly isRequired?: boolean;
  readonly initial?: T;
  /** Text of the default in the help. */
  readonly initialText?: string;
  /** Heading in the help. */
  readonly group?: string;
  readonly isHidden?: boolean;
  /** A setting whose value is checked when it is read, since the Python reference exits with another code then. */
  readonly isUnchecked?: boolean;
  /** Name of a flag that excludes this one. */
  readonly conflicts?: string;
  /** The row in the table of options. */
  readonly field?: Field<T>;
  /** Typed as `--no-name`; the value is false then, and else true. */
  readonly isNegated?: boolean;
  /** Throws if the text is not a valid value; `before` is the value of an earlier occurrence. */
  read?(text: string, flag: string, before: T | undefined): T;
}

export type FlagTable = Readonly<Record<string, Flag<unknown>>>;

type ValueOf<F> = F extends Flag<infer T> ? T : never;

/** Values of a flag table; a flag that was not typed and has no default is absent. */
export type FlagValues<F extends FlagTable> = {
  readonly [K in keyof F as undefined extends ValueOf<F[K]> ? never : K]: ValueOf<F[K]>;
} & {
  readonly [K in keyof F as undefined extends ValueOf<F[K]> ? K : never]?: Exclude<
    ValueOf<F[K]>,
    undefined
  >;
};

export const text = (value: string, help: string): Flag<string | undefined> => ({ value, help });

export const toggle = (help: string): Flag<boolean | undefined> => ({ help });

/** A switch that is on unless `--no-name` is typed. */
export const untoggle = (help: string): Flag<boolean> => ({ help, isNegated: true });

export const choice = <const T extends string>(
  value: string,
  help: string,
  choices: readonly T[],
): Flag<T | undefined> => ({ value, help, choices });

/** A flag read by a function, which throws for an invalid text. */
export const parsed = <T>(
  value: string,
  help: string,
  read: (text: string, flag: string) => T,
): Flag<T | undefined> => ({ value, help, read });

/** The same flag, allowed several times. */
export const repeated = <T>({
  value,
  help,
  read,
}: Flag<T | undefined>): Flag<readonly T[] | undefined> => ({
  value,
  help,
  read: (word, name, before = []) => [...before, (read?.(word, name, undefined) ?? word) as T],
});

export const several = (value: string, help: string): Flag<readonly string[] | undefined> =>
  repeated(text(value, help));

/** Texts, or an empty list, which the help words as `none`. */
export const severalOr = (none: string, value: string, help: string): Flag<readonly string[]> =>
  withDefault(several(value, help), [], none);

export const whole = (
  value: string,
  help: string,
  least: number,
  most?: number,
): Flag<number | undefined> =>
  parsed(value, help, (text, flag) => wholeNumber(text, flag, least, most));

/** A round flag: users count from 1, the value is the index. */
export const roundFlag = (value: string, help: string): Flag<number | undefined> =>
  parsed(value, `${help}, from 1`, (text, flag) => roundIndex(wholeNumber(text, flag, 1, 2 ** 32)));

export const numeric = (
  value: string,
  help: string,
  least: number,
  most = Number.POSITIVE_INFINITY,
): Flag<number | undefined> =>
  parsed(value, help, (text, flag) => {
    const number = numberOf(text);
    if (Number.isFinite(number) && number >= least && number <= most) return number;
    const range = Number.isFinite(most) ? `from ${least} to ${most}` : `from ${least} on`;
    throw wrongValue(flag, text, `a number ${range}`);
  });

export const positive = (value: string, help: string): Flag<number | undefined> =>
  parsed(value, help, (text, flag) => {
    const number = numberOf(text);
    if (Number.isFinite(number) && number > 0) return number;
    throw wrongValue(flag, text, 'a number above 0');
  });

const UNITS: Readonly<Record<string, number>> = { '': 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };

/** A number of bytes, such as 16384, 16k, 4m or 2g. */
export const byteCount = (
  value: string,
  help: string,
  least: number,
  most: number,
): Flag<number | undefined> =>
  parsed(value, help, (text, flag) => {
    const [, number, unit = ''] = /^(\d{1,15})([kmg]?)(?:i?b)?$/i.exec(text) ?? [];
    const bytes = Number(number) * UNITS[unit.toLowerCase()]!;
    if (bytes >= least && bytes <= most) return bytes;
    throw new ConfigError('flag/value', `${flag} is ${JSON.stringify(text)}`, {
      hint:
        `use a number of bytes from ${formatBytes(least)} to ${formatBytes(most)}, for ` +
        'example 4m or 16384',
    });
  });

/** A text that `accepts` approves; `accepted` describes valid texts in the error. */
export const checkedText = (
  value: string,
  help: string,
  accepted: string,
  accepts: (text: string) => boolean,
): Flag<string | undefined> =>
  parsed(value, help, (text, flag) => {
    if (accepts(text)) return text;
    throw wrongValue(flag, text, accepted);
  });

/** An option of the table of options: a flag, or typed as `--set name=value`. */
export const setting = <T>(field: Field<T>): Flag<T | undefined> => ({ help: field.help, field });

export const required = <T>(flag: Flag<T>): Flag<Exclude<T, undefined>> =>
  ({ ...flag, isRequired: true }) as Flag<Exclude<T, undefined>>;

export const withDefault = <T>(
  flag: Flag<T>,
  initial: Exclude<T, undefined>,
  initialText?: string,
): Flag<Exclude<T, undefined>> =>
  ({ ...flag, initial, ...(initialText !== undefined && { initialText }) }) as Flag<
    Exclude<T, undefined>
  >;

/** Settings as flags. `settingsFromFlags` reads their values, so the type of the table has no entries. */
export const settingFlags = (
  names: readonly SettingName[] = settingNames,
): Readonly<Record<never, never>> =>
  Object.fromEntries(names.map((name) => [name, setting<unknown>(fields[name])]));

/** Returns the table with these properties in each flag. */
export const eachWith = <F extends object>(
  flags: F,
  more: Pick<Flag<unknown>, 'group' | 'isHidden' | 'isUnchecked'>,
): F =>
  Object.fromEntries(
    Object.entries(flags).map(([name, flag]) => [name, { ...flag, ...more }]),
  ) as F;

/** Text after the help of commands that take all fields of a spec. */
export const ALL_FIELDS = 'All other fields and settings: nostrain help settings';

/** Fields of a run spec as flags, or some of them; `documentFromFlags` reads their values. */
export const specFlags = (
  options: readonly SpecOption[] = specOptions,
): Readonly<Record<never, never>> =>
  Object.fromEntries(options.map(({ name, row }) => [name, setting<unknown>(row)]));

/** Adds the flags in the order of the table. */
export function addFlags(command: Command, flags: FlagTable): Command {
  for (const [name, flag] of Object.entries(flags)) {
    if (flag.field) addRow(command, name, flag.field, flag.isUnchecked);
    else command.addOption(optionOf(name, flag));
  }
  return command;
}

function optionOf(name: string, flag: Flag<unknown>): Option {
  const long = dashed(flag.isNegated ? `no${name[0]!.toUpperCase()}${name.slice(1)}` : name);
  const words = [flag.short && `-${flag.short},`, long, flag.value];
  const option = new Option(words.filter(Boolean).join(' '), flag.help);
  if (flag.choices) option.choices(flag.choices);
  if (flag.read) option.argParser((typed, before) => flag.read!(typed, long, before));
  if (flag.initial !== undefined) option.default(flag.initial, flag.initialText);
  if (flag.group !== undefined) option.helpGroup(flag.group);
  if (flag.conflicts !== undefined) option.conflicts(flag.conflicts);
  return option.hideHelp(flag.isHidden === true).makeOptionMandatory(flag.isRequired === true);
}

function wholeNumber(
  text: string,
  flag: string,
  least: number,
  most = Number.MAX_SAFE_INTEGER,
): number {
  const value = numberOf(text);
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
  const range = most === Number.MAX_SAFE_INTEGER ? `from ${least} on` : `from ${least} to ${most}`;
  throw wrongValue(flag, text, `a whole number ${range}`);
}

const numberOf = (text: string): number => (text.trim() === '' ? Number.NaN : Number(text));

export const wrongValue = (flag: string, text: string, accepted: string): ConfigError =>
  new ConfigError('flag/value', `${flag} is ${JSON.stringify(text)}; it must be ${accepted}`);
