/** Flags as tables: one row per flag under its name in camelCase, and the types of the values that come of them. */
import { type Command, Option } from 'commander';

/** A flag whose value is a T. */
export interface Flag<T> {
  /** What stands for the value in the help, such as `<n>`; a switch has none. */
  readonly value?: string | undefined;
  readonly help: string;
  /** The other spelling, of one letter. */
  readonly short?: string;
  readonly choices?: readonly string[];
  readonly isRequired?: boolean;
  readonly initial?: T;
  /** How the help spells the default. */
  readonly initialText?: string;
  /** Throws for a text that is no value; `before` is the value of the same flag typed earlier. */
  read?(text: string, flag: string, before: T | undefined): T;
}

export type FlagTable = Readonly<Record<string, Flag<unknown>>>;

export type FlagValues<F extends FlagTable> = {
  readonly [K in keyof F]: F[K] extends Flag<infer T> ? T : never;
};

export const text = (value: string, help: string): Flag<string | undefined> => ({ value, help });

export const toggle = (help: string): Flag<true | undefined> => ({ help });

export const choice = <const T extends string>(
  value: string,
  help: string,
  choices: readonly T[],
): Flag<T | undefined> => ({ value, help, choices });

/** A flag that may be given several times. */
export const several = (value: string, help: string): Flag<readonly string[] | undefined> => ({
  value,
  help,
  read: (word, _, before = []) => [...before, word],
});

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

/** Adds the flags in the order of the table. */
export function addFlags(command: Command, flags: FlagTable): Command {
  for (const [name, flag] of Object.entries(flags)) command.addOption(optionOf(name, flag));
  return command;
}

function optionOf(name: string, flag: Flag<unknown>): Option {
  const long = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  const words = [flag.short && `-${flag.short},`, long, flag.value];
  const option = new Option(words.filter(Boolean).join(' '), flag.help);
  if (flag.choices) option.choices(flag.choices);
  if (flag.read) option.argParser((typed, before) => flag.read!(typed, long, before));
  if (flag.initial !== undefined) option.default(flag.initial, flag.initialText);
  return option.makeOptionMandatory(flag.isRequired === true);
}
