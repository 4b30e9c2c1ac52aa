/**
 * Numbers at the flags of the Python reference's commands, spelled as Python spells them. What is no number is a wrong command
 * line (exit code 2); a number that cannot be is a wrong value (1), as it is there.
 */
import { ConfigError } from '../../base/errors.ts';

const INTEGER = /^\s*[+-]?\d+(?:_\d+)*\s*$/;
const DECIMAL =
  /^\s*[+-]?(?:\d[\d_]*\.?[\d_]*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf(?:inity)?|nan)\s*$/i;

/** A whole number from `least` on. */
export const integerFlag =
  (flag: string, least: number): ((text: string) => number) =>
  (text) => {
    if (!INTEGER.test(text)) throw noNumber(flag, text, 'a whole number');
    const value = Number(text.replaceAll('_', ''));
    if (Number.isSafeInteger(value) && value >= least) return value;
    throw impossible(flag, text, `from ${least} on`);
  };

/** Where a number must lie, in words that follow "it must be". */
export interface Range {
  readonly says: string;
  holds(value: number): boolean;
}

export const above0: Range = { says: 'above 0', holds: (value) => value > 0 };
export const share: Range = { says: 'above 0 and at most 1', holds: (x) => x > 0 && x <= 1 };
export const momentum: Range = { says: 'from 0 to below 1', holds: (x) => x >= 0 && x < 1 };

/** A finite number in a range. */
export const decimalFlag =
  (flag: string, { says, holds }: Range): ((text: string) => number) =>
  (text) => {
    if (!DECIMAL.test(text)) throw noNumber(flag, text, 'a number');
    const value = Number(text.replaceAll('_', ''));
    if (Number.isFinite(value) && holds(value)) return value;
    throw impossible(flag, text, says);
  };

const noNumber = (flag: string, text: string, accepted: string): ConfigError =>
  new ConfigError('flag/value', `${flag} is ${JSON.stringify(text)}; it must be ${accepted}`);

const impossible = (flag: string, text: string, says: string): ConfigError =>
  new ConfigError('settings/value', `${flag} is ${text.trim()}; it must be ${says}`);
