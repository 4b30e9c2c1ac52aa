/** Readers for one setting each: from a flag's text or a file's JSON value to a checked value, or a ConfigError that names the setting. */
import { ConfigError } from '../base/errors.ts';
import { formatSync, parseSync, type Sync } from './sync.ts';

export interface Field<T> {
  /** The flag as `--help` shows it, for example `--rounds <n>`. */
  readonly flag: string;
  readonly help: string;
  /** What it takes, in words that follow "it must be". */
  readonly accepted: string;
  read(value: unknown, name: string): T;
  /** The value as a person writes it; absent where that is the value itself. */
  write?(value: T): string;
}

/** A value in a message: its JSON, cut where nobody would read on. */
function shown(value: unknown): string {
  const text = String(JSON.stringify(value));
  return text.length > 200 ? `${text.slice(0, 200)}… (${text.length} characters)` : text;
}

/** `settings/type`: not the kind of value asked for. `settings/value`: the right kind, out of bounds. */
const wrong = (
  name: string,
  value: unknown,
  accepted: string,
  { code = 'settings/type', hint }: { code?: string; hint?: string | undefined } = {},
): ConfigError =>
  new ConfigError(code, `${name} is ${shown(value)}; it must be ${accepted}`, {
    ...(hint !== undefined && { hint }),
    data: { setting: name },
  });

function numeric(value: unknown): number {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN;
}

const codeFor = (number: number) => (Number.isNaN(number) ? 'settings/type' : 'settings/value');

/** A field whose `read` refuses whatever `take` gives no value for. */
export const reading = <T>(
  flag: string,
  help: string,
  { accepted, take, hint }: Taking<T>,
): Field<T> => ({
  flag,
  help,
  accepted,
  read(value, name) {
    const taken = take(value);
    if (taken !== undefined) return taken;
    throw wrong(name, value, accepted, { hint: hint?.(value) });
  },
});

interface Taking<T> {
  readonly accepted: string;
  take(value: unknown): T | undefined;
  /** What to do about a value that is refused, where that is known. */
  hint?(value: unknown): string | undefined;
}

/** A whole number from `least` on, to `most`. */
export function whole(
  flag: string,
  help: string,
  least = 0,
  most = Number.MAX_SAFE_INTEGER,
): Field<number> {
  const isOpen = most === Number.MAX_SAFE_INTEGER;
  const accepted = `a whole number ${isOpen ? `of at least ${least}` : `from ${least} to ${most}`}`;
  return {
    flag,
    help,
    accepted,
    read(value, name) {
      const number = numeric(value);
      if (Number.isSafeInteger(number) && number >= least && number <= most) return number;
      throw wrong(name, value, accepted, { code: codeFor(number) });
    },
  };
}

/** A finite number inside an interval; `open` ends exclude the bound itself. */
export function real(
  flag: string,
  help: string,
  { from, to, open }: { from: number; to: number; open?: 'from' | 'to' },
): Field<number> {
  const [left, right] = [open === 'from' ? '(' : '[', open === 'to' ? ')' : ']'];
  const accepted = `a number in ${left}${from}, ${to}${right}`;
  return {
    flag,
    help,
    accepted,
    read(value, name) {
      const number = numeric(value);
      const above = open === 'from' ? number > from : number >= from;
      const under = open === 'to' ? number < to : number <= to;
      if (Number.isFinite(number) && above && under) return number;
      throw wrong(name, value, accepted, { code: codeFor(number) });
    },
  };
}

/** One of a few words. */
export const choice = <const T extends string>(
  flag: string,
  help: string,
  words: readonly T[],
  /** Words of earlier versions, and the word to use instead. */
  removed: ReadonlyMap<string, string> = new Map(),
): Field<T> =>
  reading(flag, `${help} (${words.join(', ')})`, {
    accepted: `one of ${words.join(', ')}`,
    take: (value) => words.find((word) => word === value),
    hint: (value) => {
      const instead = typeof value === 'string' ? removed.get(value) : undefined;
      if (instead === undefined) return undefined;
      const line = `${flag.split(' ')[0]} ${instead}`;
      return `${value} was removed: use ${line}; nostrain 0.1.0 still replays runs with it`;
    },
  });

/** Any text that is not empty. */
export const text = (flag: string, help: string): Field<string> =>
  reading(flag, help, {
    accepted: 'some text',
    take: (value) => (typeof value === 'string' && value.trim() !== '' ? value : undefined),
  });

/** Where something is fetched from; no text at all where there is nothing to fetch. */
export const origin = (flag: string, help: string): Field<string> =>
  reading(flag, help, {
    accepted: 'a path or an address',
    take: (value) => (typeof value === 'string' ? value.trim() : undefined),
  });

/** Several texts; a single one is a list of one. */
export const texts = (flag: string, help: string): Field<readonly string[]> =>
  reading(flag, help, {
    accepted: 'a text or a list of texts',
    take: (value) => {
      const list: unknown[] = Array.isArray(value) ? value : [value];
      const isGood = list.every((item) => typeof item === 'string' && item !== '');
      return isGood ? (list as string[]) : undefined;
    },
  });

/** Whole numbers from 1 on, as a JSON list or written `64,32`. */
export const sizes = (flag: string, help: string): Field<readonly number[]> =>
  reading(flag, help, {
    accepted: 'sizes like 64 or 64,32',
    take: (value) => {
      const list: unknown[] =
        typeof value === 'string' ? value.split(',') : Array.isArray(value) ? value : [value];
      const numbers = list.map(numeric);
      const isGood = numbers.every((item) => Number.isSafeInteger(item) && item > 0);
      return isGood && numbers.length > 0 ? numbers : undefined;
    },
  });

/** Yes or no; a flag that starts with `--no-` says no. */
export const yesNo = (flag: string, help: string): Field<boolean> =>
  reading(flag, help, {
    accepted: 'true or false',
    take: (value) => (typeof value === 'boolean' ? value : undefined),
  });

export interface Shard {
  /** From 1. */
  readonly index: number;
  readonly count: number;
}

/** A part as people write it: `2/4`. */
export function parseShard(text: string): Shard | undefined {
  const match = /^([1-9][0-9]{0,4})\/([1-9][0-9]{0,4})$/.exec(text);
  const [index, count] = [Number(match?.[1]), Number(match?.[2])];
  return match && index <= count ? { index, count } : undefined;
}

/** The same as text. */
export const formatShard = ({ index, count }: Shard): string => `${index}/${count}`;

/** Which part of the data is this worker's: `2/4`. */
export const shard = (flag: string, help: string): Field<Shard> => ({
  ...reading(flag, help, {
    accepted: 'a part like 2/4 (the second of four)',
    take: (value) => (typeof value === 'string' ? parseShard(value) : undefined),
  }),
  write: formatShard,
});

/** Over how many relays payloads are spread, and how many of those are enough: `2/3`; `1/1` gives each relay everything. */
export interface Spread {
  readonly need: number;
  readonly of: number;
}

export const spread = (flag: string, help: string): Field<Spread> => ({
  ...reading(flag, help, {
    accepted: 'like 2/3 (any two of three are enough), at most four times as many',
    take: (value) => {
      const match = typeof value === 'string' ? /^([1-9][0-9]?)\/([1-9][0-9]?)$/.exec(value) : null;
      const [need, of] = [Number(match?.[1]), Number(match?.[2])];
      return match && (need < of || of === 1) && of <= 4 * need ? { need, of } : undefined;
    },
  }),
  write: ({ need, of }) => `${need}/${of}`,
});

/** A collection strategy: `timeout`, `strict:N`, `quorum`, `async`. */
export const sync = (flag: string, help: string): Field<Sync> => ({
  ...reading(flag, help, {
    accepted: 'timeout, strict:N, quorum or async',
    take: (value) => (typeof value === 'string' ? parseSync(value) : undefined),
  }),
  write: formatSync,
});

const ADDRESS = /^https:\/\/[!-~]{1,248}$/;

/** Where something is that anybody may fetch. */
export const address = (flag: string, help: string): Field<string> =>
  reading(flag, help, {
    accepted: 'an https address of at most 256 characters',
    take: (value) => (typeof value === 'string' && ADDRESS.test(value) ? value : undefined),
  });

/** Of HTTP, without user, password, query and fragment. */
const PLACE = /^https?:\/\/[!-"$->A-~]{1,248}$/;
const MOST_PLACES = 8;

/** Addresses of servers, each once, ascending; none at all too. */
export const addresses = (flag: string, help: string): Field<readonly string[]> =>
  reading(flag, help, {
    accepted: `a list of at most ${MOST_PLACES} https:// or http:// addresses, each once, without user and query`,
    take: (value) => {
      if (!Array.isArray(value) || value.length > MOST_PLACES) return undefined;
      const list: readonly unknown[] = value;
      const isUrl = (each: unknown): each is string => typeof each === 'string' && PLACE.test(each);
      const urls = list.filter(isUrl);
      const isGood = urls.length === list.length && new Set(urls).size === urls.length;
      return isGood ? [...urls].sort() : undefined;
    },
  });
