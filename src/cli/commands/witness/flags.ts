/** Flags of `nostrain witness` that several of its commands take. */
import { Option } from 'commander';
import { isHex32 } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import { wholeFlag } from '../../../terminal/flags.ts';

/** The most a round or a recovery epoch can be. */
export const U32 = 2 ** 32 - 1;
/** An outcome names keys by u16. */
export const MOST_SEATS = 65_536;

export const seatsFlag = wholeFlag('--seats', 1, MOST_SEATS);

export const quorumOption = (): Option =>
  new Option('--quorum <rule>', 'bft: two thirds and one; cft: half and one')
    .choices(['bft', 'cft'])
    .default('bft');

/** A flag that may be given several times. */
export function many<T>(
  read: (text: string) => T,
): (text: string, before?: readonly T[]) => readonly T[] {
  return (text, before = []) => [...before, read(text)];
}

/** `--hostile`. */
export function shareFlag(text: string): number {
  const share = Number(text);
  if (text.trim() !== '' && share >= 0 && share < 1) return share;
  throw new ConfigError(
    'flag/value',
    `--hostile is ${JSON.stringify(text)}; it must be a share from 0 to below 1`,
  );
}

/** 32 bytes in hex. */
export function digestFlag(flag: string): (text: string) => string {
  return (text) => {
    if (isHex32(text)) return text;
    throw new ConfigError(
      'flag/value',
      `${flag} is ${JSON.stringify(text)}; it must be 64 lowercase hex digits`,
    );
  };
}

/** A whole number of any size. */
export function decimalFlag(flag: string): (text: string) => string {
  return (text) => {
    if (/^\d{1,39}$/.test(text)) return text;
    throw new ConfigError(
      'flag/value',
      `${flag} is ${JSON.stringify(text)}; it must be a whole number`,
    );
  };
}
