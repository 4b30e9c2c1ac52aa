/**
 * Numbers typed at flags of the reference's commands. As there, text that is no number is an error of usage (exit code 2), and
 * a number that the command has no use for is an error of the command (1).
 */
import { ConfigError } from '../base/errors.ts';

interface Range {
  /** Not below this. */
  readonly least?: number;
  /** More than this. */
  readonly above?: number;
}

/** A number within a range; units are those of the flag. */
export const numberFlag = (flag: string, range: Range): ((text: string) => number) =>
  parser(flag, 'a number', /^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?\s*$/i, range);

/** A whole number within a range. */
export const integerFlag = (flag: string, range: Range): ((text: string) => number) =>
  parser(flag, 'a whole number', /^\s*[+-]?\d+\s*$/, range);

function parser(flag: string, what: string, form: RegExp, { least, above }: Range) {
  const accepted = [
    what,
    ...(least === undefined ? [] : [`from ${least} on`]),
    ...(above === undefined ? [] : [`above ${above}`]),
  ].join(' ');
  return (text: string): number => {
    const value = Number(text);
    const isNumber = form.test(text) && Number.isFinite(value);
    const fits = value >= (least ?? -Infinity) && value > (above ?? -Infinity);
    if (isNumber && fits) return value;
    throw new ConfigError(
      isNumber ? 'value/range' : 'flag/value',
      `${flag} is ${JSON.stringify(text)}; it must be ${accepted}`,
    );
  };
}
