/**
 * Numbers at the flags of the Python reference's commands, spelled as Python spells them, and what computes the steps of a regression. What
 * is no number is a wrong command line (exit code 2); a number that cannot be is a wrong value (1), as it is there.
 */

import { Option } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { longFlag } from '../../terminal/flags.ts';
import { regressionBackends } from '../node/train-on-backend.ts';

const INTEGER = /^\s*[+-]?\d+(?:_\d+)*\s*$/;
const DECIMAL =
  /^\s*[+-]?(?:\d[\d_]*\.?[\d_]*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf(?:inity)?|nan)\s*$/i;

/** An option that takes a whole number from `least` on. */
export const integer = (flags: string, help: string, least: number): Option =>
  new Option(flags, help).argParser((text) => {
    if (!INTEGER.test(text)) throw noNumber(flags, text, 'a whole number');
    const value = Number(text.replaceAll('_', ''));
    if (Number.isSafeInteger(value) && value >= least) return value;
    throw impossible(flags, text, `from ${least} on`);
  });

/** Where a number must lie, in words that follow "it must be". */
export interface Range {
  readonly says: string;
  holds(value: number): boolean;
}

export const above0: Range = { says: 'above 0', holds: (value) => value > 0 };
export const share: Range = { says: 'above 0 and at most 1', holds: (x) => x > 0 && x <= 1 };
export const momentum: Range = { says: 'from 0 to below 1', holds: (x) => x >= 0 && x < 1 };

/** An option that takes a finite number in a range. */
export const decimal = (flags: string, help: string, { says, holds }: Range): Option =>
  new Option(flags, help).argParser((text) => {
    if (!DECIMAL.test(text)) throw noNumber(flags, text, 'a number');
    const value = Number(text.replaceAll('_', ''));
    if (Number.isFinite(value) && holds(value)) return value;
    throw impossible(flags, text, says);
  });

const noNumber = (flags: string, text: string, accepted: string): ConfigError =>
  new ConfigError(
    'flag/value',
    `${longFlag(flags)} is ${JSON.stringify(text)}; it must be ${accepted}`,
  );

const impossible = (flags: string, text: string, says: string): ConfigError =>
  new ConfigError('settings/value', `${longFlag(flags)} is ${text.trim()}; it must be ${says}`);

/** `--backend`, for every command that trains a regression. */
export const backendOption = (): Option =>
  new Option(
    '--backend <name>',
    "what computes: python is the reference's order of operations, to the bit; numpy, torch and onnx are onnxruntime",
  )
    .choices(regressionBackends)
    .default('python');
