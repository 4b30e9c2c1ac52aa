/** Options that are no settings: whole numbers, numbers, bytes, rounds, and flags that may be repeated. */
import { Option } from 'commander';
import { ConfigError } from '../base/errors.ts';
import { formatBytes } from '../base/numbers.ts';
import { roundIndex } from '../run/ids.ts';

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
