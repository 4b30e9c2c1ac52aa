/** Readers for one setting each: from a flag's text or a file's JSON value to a checked value, or a ConfigError that names the setting. */
import { ConfigError } from '../base/errors.ts';
import { formatSync, parseSync, type Sync } from './sync.ts';

export interface Field<T> {
  /** The flag as `--help` shows it, for example `--rounds <n>`. */
  readonly flag: string;
  readonly help: string;
  read(value: unknown, name: string): T;
  /** The value as a person writes it; absent where that is the value itself. */
  write?(value: T): string;
}

/** `settings/type`: not the kind of value asked for. `settings/value`: the right kind, out of bounds. */
const wrong = (
  name: string,
  value: unknown,
  accepted: string,
  code = 'settings/type',
): ConfigError =>
  new ConfigError(code, `${name} is ${JSON.stringify(value)}; it must be ${accepted}`, {
    data: { setting: name },
  });

function numeric(value: unknown): number {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN;
}

const codeFor = (number: number) => (Number.isNaN(number) ? 'settings/type' : 'settings/value');

/** A whole number from `least` on. */
export const whole = (flag: string, help: string, least = 0): Field<number> => ({
  flag,
  help,
  read(value, name) {
    const number = numeric(value);
    if (Number.isSafeInteger(number) && number >= least) return number;
    throw wrong(name, value, `a whole number of at least ${least}`, codeFor(number));
  },
});

/** A finite number inside an interval; `open` ends exclude the bound itself. */
export const real = (
  flag: string,
  help: string,
  { from, to, open }: { from: number; to: number; open?: 'from' | 'to' },
): Field<number> => ({
  flag,
  help,
  read(value, name) {
    const number = numeric(value);
    const above = open === 'from' ? number > from : number >= from;
    const under = open === 'to' ? number < to : number <= to;
    if (Number.isFinite(number) && above && under) return number;
    const [left, right] = [open === 'from' ? '(' : '[', open === 'to' ? ')' : ']'];
    throw wrong(name, value, `a number in ${left}${from}, ${to}${right}`, codeFor(number));
  },
});

/** One of a few words. */
export const choice = <const T extends string>(
  flag: string,
  help: string,
  words: readonly T[],
): Field<T> => ({
  flag,
  help: `${help} (${words.join(', ')})`,
  read(value, name) {
    const found = words.find((word) => word === value);
    if (found !== undefined) return found;
    throw wrong(name, value, `one of ${words.join(', ')}`);
  },
});

/** Any text that is not empty. */
export const text = (flag: string, help: string): Field<string> => ({
  flag,
  help,
  read(value, name) {
    if (typeof value === 'string' && value.trim() !== '') return value;
    throw wrong(name, value, 'some text');
  },
});

/** Several texts; a single one is a list of one. */
export const texts = (flag: string, help: string): Field<readonly string[]> => ({
  flag,
  help,
  read(value, name) {
    const list: unknown[] = Array.isArray(value) ? value : [value];
    if (list.every((item) => typeof item === 'string' && item !== '')) return list as string[];
    throw wrong(name, value, 'a text or a list of texts');
  },
});

/** Whole numbers from 1 on, as a JSON list or written `64,32`. */
export const sizes = (flag: string, help: string): Field<readonly number[]> => ({
  flag,
  help,
  read(value, name) {
    const list: unknown[] =
      typeof value === 'string' ? value.split(',') : Array.isArray(value) ? value : [value];
    const numbers = list.map(numeric);
    if (numbers.length > 0 && numbers.every((item) => Number.isSafeInteger(item) && item > 0))
      return numbers;
    throw wrong(name, value, 'sizes like 64 or 64,32');
  },
});

/** Yes or no; a flag that starts with `--no-` says no. */
export const yesNo = (flag: string, help: string): Field<boolean> => ({
  flag,
  help,
  read(value, name) {
    if (typeof value === 'boolean') return value;
    throw wrong(name, value, 'true or false');
  },
});

export interface Shard {
  /** From 1. */
  readonly index: number;
  readonly count: number;
}

/** Which part of the data is this worker's: `2/4`. */
export const shard = (flag: string, help: string): Field<Shard> => ({
  flag,
  help,
  read(value, name) {
    const match =
      typeof value === 'string' ? /^([1-9][0-9]{0,4})\/([1-9][0-9]{0,4})$/.exec(value) : null;
    const [index, count] = [Number(match?.[1]), Number(match?.[2])];
    if (match && index <= count) return { index, count };
    throw wrong(name, value, 'a part like 2/4 (the second of four)');
  },
  write: ({ index, count }) => `${index}/${count}`,
});

/** Over how many relays payloads are spread, and how many of those are enough: `2/3`; `1/1` gives each relay everything. */
export interface Spread {
  readonly need: number;
  readonly of: number;
}

export const spread = (flag: string, help: string): Field<Spread> => ({
  flag,
  help,
  read(value, name) {
    const match = typeof value === 'string' ? /^([1-9][0-9]?)\/([1-9][0-9]?)$/.exec(value) : null;
    const [need, of] = [Number(match?.[1]), Number(match?.[2])];
    if (match && (need < of || of === 1) && of <= 4 * need) return { need, of };
    throw wrong(name, value, 'like 2/3 (any two of three are enough), at most four times as many');
  },
  write: ({ need, of }) => `${need}/${of}`,
});

/** A collection strategy: `timeout`, `strict:N`, `quorum`, `async`. */
export const sync = (flag: string, help: string): Field<Sync> => ({
  flag,
  help,
  read(value, name) {
    const parsed = typeof value === 'string' ? parseSync(value) : undefined;
    if (parsed) return parsed;
    throw wrong(name, value, 'timeout, strict:N, quorum or async');
  },
  write: formatSync,
});
