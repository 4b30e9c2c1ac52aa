/**
 * Rows of the option tables, and readers of single values: a reader turns the text of a flag or a member of a document
 * into a checked value, or throws a ConfigError.
 */
import { decode } from 'nostr-tools/nip19';
import { isHex32 } from '../base/bytes.ts';
import { ConfigError } from '../base/errors.ts';
import { formatSync, parseSync, type Sync } from './aggregation.ts';
import type { Digest, WorkerId } from './ids.ts';

/** Reads values of one form. */
export interface Reader<T> {
  /** The accepted form, in words that follow "it must be". */
  readonly accepted: string;
  /** The words of a choice. */
  readonly words?: readonly string[];
  /** Throws a ConfigError that names the value. */
  read(value: unknown, name: string): T;
  /** Formats the value as users type it; absent if that is the value itself. */
  write?(value: T): string;
}

/** A setting, or a field of a run spec. */
export interface Field<T> extends Reader<T> {
  readonly help: string;
  /** The flag as `--help` shows it, for example `--rounds <n>`. Without one the option is `--set name=value`. */
  readonly flag?: string;
  /** The flag belongs to the Python reference: accepted, and listed only by `nostrain help python`. */
  readonly python?: true;
  /** The flag in earlier versions, if it is not the name in kebab-case. */
  readonly was?: string;
  /** Default value. */
  readonly default?: T;
  /** Takes several values: the flag and `--set` may be repeated. */
  readonly many?: true;
  /** Cannot change after the first round, although it is per worker. */
  readonly fixed?: true;
  /** Name of its condition in `requirements` of settings.ts; the setting is refused if the condition does not hold. */
  readonly needs?: string;
  /** Feature that a spec must name if this field differs from its default. */
  readonly feature?: string;
}

/** Any table of fields. */
export type Group = Readonly<Record<string, Field<unknown>>>;

/** The values of a table of fields. */
export type Values<G extends Group> = { readonly [K in keyof G]: ReturnType<G[K]['read']> };

type Extras<T> = Omit<Field<T>, keyof Reader<T> | 'help'>;

/** Choices with more words than this are not listed in the help. */
const MOST_WORDS = 8;

const withWords = (help: string, words: readonly string[] = []): string =>
  words.length === 0 || words.length > MOST_WORDS ? help : `${help} (${words.join(', ')})`;

/** Creates one row of a table of options: its meaning, its reader, and extras. */
export const row = <
  R extends Reader<unknown>,
  const M extends Extras<NoInfer<ReturnType<R['read']>>> = Record<never, never>,
>(
  help: string,
  reader: R,
  extras?: M,
): R & { readonly help: string } & M => ({
  ...reader,
  help: withWords(help, reader.words),
  ...(extras as M),
});

/**
 * Which runs and workers share a setting, and where a run spec has it.
 * - `name`: identifies the run; a spec has its id and its own profile instead
 * - `personal`: per worker
 * - `alone`: per worker, in runs without a spec
 * - `agreed`: shared by all workers, in runs without a spec
 * - `top`, `training`, `adapter`, `input`, `aggregation`, `pace`, `mixture`: shared by all workers; a spec has it on
 * its top level, or in that section
 */
export type SettingScope =
  | 'name'
  | 'personal'
  | 'alone'
  | 'agreed'
  | 'top'
  | 'training'
  | 'adapter'
  | 'input'
  | 'aggregation'
  | 'pace'
  | 'mixture';

type Scoped<S extends SettingScope, G extends Group> = {
  readonly [K in keyof G]: G[K] & { readonly scope: S };
};

/** Assigns a scope to rows. */
export const inScope = <const S extends SettingScope, G extends Group>(scope: S, rows: G) =>
  Object.fromEntries(
    Object.entries(rows).map(([name, each]) => [name, { ...each, scope }]),
  ) as Scoped<S, G>;

/** Returns a name as a flag: `--inner-steps` for `innerSteps`, `--committee-size` for `committee.size`. */
export const dashed = (name: string): string =>
  `--${name.replaceAll('.', '-').replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/** Returns the words that set an option: `--rounds 5`, `--set owners=2`; without a value only its name. */
export function wordsFor(
  name: string,
  { flag }: { readonly flag?: string },
  value?: string,
): readonly string[] {
  if (flag === undefined) return ['--set', value === undefined ? name : `${name}=${value}`];
  const [long, takes] = flag.split(' ');
  return value === undefined || takes === undefined ? [long!] : [long!, value];
}

/** Formats a value for a message: its JSON, at most 200 characters. */
function shown(value: unknown): string {
  const text = String(JSON.stringify(value));
  return text.length > 200 ? `${text.slice(0, 200)}… (${text.length} characters)` : text;
}

/** Error codes: `settings/type` for another kind of value, `settings/value` for the right kind out of bounds. */
const wrong = (
  name: string,
  value: unknown,
  accepted: string,
  { code = 'settings/type', hint }: { code?: string; hint?: string | undefined } = {},
): ConfigError =>
  new ConfigError(code, `${name} is ${shown(value)}; it must be ${accepted}`, {
    data: { setting: name },
    ...(hint !== undefined && { hint }),
  });

function numeric(value: unknown): number {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN;
}

/** Returns a reader that refuses every value for which `take` returns undefined. */
export const reading = <T>(
  accepted: string,
  take: (value: unknown) => T | undefined,
  write?: (value: T) => string,
): Reader<T> => ({
  accepted,
  read(value, name) {
    const taken = take(value);
    if (taken !== undefined) return taken;
    throw wrong(name, value, accepted);
  },
  ...(write && { write }),
});

const number = (accepted: string, isGood: (number: number) => boolean): Reader<number> => ({
  accepted,
  read(value, name) {
    const number = numeric(value);
    if (isGood(number)) return number;
    const code = Number.isNaN(number) ? 'settings/type' : 'settings/value';
    throw wrong(name, value, accepted, { code });
  },
});

/** A whole number from `least` to `most`. */
export const whole = (least = 0, most = Number.MAX_SAFE_INTEGER): Reader<number> =>
  number(
    most === Number.MAX_SAFE_INTEGER
      ? `a whole number of at least ${least}`
      : `a whole number from ${least} to ${most}`,
    (value) => Number.isSafeInteger(value) && value >= least && value <= most,
  );

/** A finite number inside an interval; an `open` end excludes the bound itself. */
export const real = (from: number, to: number, open?: 'from' | 'to'): Reader<number> => {
  const [left, right] = [open === 'from' ? '(' : '[', open === 'to' ? ')' : ']'];
  return number(`a number in ${left}${from}, ${to}${right}`, (value) => {
    const isAbove = open === 'from' ? value > from : value >= from;
    return Number.isFinite(value) && isAbove && (open === 'to' ? value < to : value <= to);
  });
};

/** One of a few words. `removed` maps words of earlier versions to the word to use instead. */
export const choice = <const T extends string>(
  words: readonly T[],
  removed: ReadonlyMap<unknown, string> = new Map(),
): Reader<T> & { readonly words: readonly T[] } => ({
  accepted: `one of ${words.join(', ')}`,
  words,
  read(value, name) {
    const word = words.find((each) => each === value);
    if (word !== undefined) return word;
    const instead = removed.get(value);
    const hint =
      instead && `${value} was removed: use ${instead}; nostrain 0.1.0 still replays runs with it`;
    throw wrong(name, value, `one of ${words.join(', ')}`, { hint });
  },
});

/** A text that `isGood` accepts. */
const textThat = (accepted: string, isGood: (text: string) => boolean): Reader<string> =>
  reading(accepted, (value) => (typeof value === 'string' && isGood(value) ? value : undefined));

/** Any text that is not empty. */
export const text = (): Reader<string> => textThat('some text', (value) => value.trim() !== '');

/** A text that matches the pattern. */
export const form = (accepted: string, pattern: RegExp): Reader<string> =>
  textThat(accepted, (value) => pattern.test(value));

/** A path or address to fetch from; empty for none. */
export const origin = (): Reader<string> =>
  reading('a path or an address', (value) =>
    typeof value === 'string' ? value.trim() : undefined,
  );

/** Several texts; a single one is a list of one. */
export const texts = (): Reader<readonly string[]> =>
  reading('a text or a list of texts', (value) => {
    const list: readonly unknown[] = Array.isArray(value) ? value : [value];
    const isText = (item: unknown): item is string => typeof item === 'string' && item !== '';
    return list.every(isText) ? list : undefined;
  });

/** Maximum number and size of layers: anyone may publish a spec, and readers must be able to lay out its model. */
const MOST_SIZES = 16;
const LARGEST_SIZE = 65_536;

/** Whole numbers from 1, as a JSON list or written `64,32`. */
export const sizes = (): Reader<readonly number[]> =>
  reading(`at most ${MOST_SIZES} sizes of at most ${LARGEST_SIZE}, like 64 or 64,32`, (value) => {
    const numbers = (typeof value === 'string' ? value.split(',') : [value].flat()).map(numeric);
    const isSize = (item: number) => Number.isSafeInteger(item) && item > 0 && item <= LARGEST_SIZE;
    const isGood = numbers.every(isSize) && numbers.length <= MOST_SIZES;
    return isGood && numbers.length > 0 ? numbers : undefined;
  });

/** Accepted values of `yesNo`. */
export const SWITCH = 'true or false';

/** Yes or no; a flag that starts with `--no-` means no. */
export const yesNo = (): Reader<boolean> =>
  reading(SWITCH, (value) => (typeof value === 'boolean' ? value : undefined));

export interface Shard {
  /** From 1. */
  readonly index: number;
  readonly count: number;
}

/** Parses a part such as `2/4`. */
export function parseShard(text: string): Shard | undefined {
  const match = /^([1-9][0-9]{0,4})\/([1-9][0-9]{0,4})$/.exec(text);
  const [index, count] = [Number(match?.[1]), Number(match?.[2])];
  return match && index <= count ? { index, count } : undefined;
}

/** Formats a part such as `2/4`. */
export const formatShard = ({ index, count }: Shard): string => `${index}/${count}`;

/** The worker's part of the data: `2/4`. */
export const shard = (): Reader<Shard> =>
  reading(
    'a part like 2/4 (the second of four)',
    (value) => (typeof value === 'string' ? parseShard(value) : undefined),
    formatShard,
  );

/** Erasure coding over relays: any `need` of `of` parts restore the payload; `1/1` sends everything to each relay. */
export interface ShardCounts {
  readonly need: number;
  readonly of: number;
}

export const kOfN = (): Reader<ShardCounts> =>
  reading(
    'like 2/3 (any two of three are enough), at most four times as many',
    (value) => {
      const match = typeof value === 'string' ? /^([1-9][0-9]?)\/([1-9][0-9]?)$/.exec(value) : null;
      const [need, of] = [Number(match?.[1]), Number(match?.[2])];
      return match && (need < of || of === 1) && of <= 4 * need ? { need, of } : undefined;
    },
    ({ need, of }) => `${need}/${of}`,
  );

/** A collection strategy: `timeout`, `strict:N`, `quorum`, `async`. */
export const sync = (): Reader<Sync> =>
  reading(
    'timeout, strict:N, quorum or async',
    (value) => (typeof value === 'string' ? parseSync(value) : undefined),
    formatSync,
  );

/** A list of `least` to `most` different items, returned in ascending order. */
export const list = (
  accepted: string,
  [least, most]: readonly [number, number],
  read: (item: unknown) => string | undefined,
): Reader<readonly string[]> =>
  reading(accepted, (value) => {
    if (!Array.isArray(value) || value.length < least || value.length > most) return undefined;
    const items = value.map(read).filter((item) => item !== undefined);
    const isGood = items.length === value.length && new Set(items).size === items.length;
    return isGood ? items.sort() : undefined;
  });

/** Most keys in one list: seats, founders, invited keys. */
export const MOST_KEYS = 1024;
const KEY = '64 hex digits or npub1…';

/** Returns a public key in hex, from hex or npub1…; undefined for anything else. */
export function readKey(value: unknown): WorkerId | undefined {
  if (typeof value !== 'string') return undefined;
  if (isHex32(value)) return value;
  if (!value.startsWith('npub1')) return undefined;
  try {
    const decoded = decode(value);
    return decoded.type === 'npub' ? decoded.data : undefined;
  } catch {
    return undefined;
  }
}

/** One public key. */
export const key = (): Reader<WorkerId> => reading(`a public key: ${KEY}`, readKey);

/** Public keys, at least one. */
export const keys = (): Reader<readonly WorkerId[]> =>
  list(`a list of 1 to ${MOST_KEYS} public keys, each once: ${KEY}`, [1, MOST_KEYS], readKey);

/** Public keys of workers, or none: a JSON list, or written `npub1…,npub1…`. */
export const workerKeys = (): Reader<readonly WorkerId[]> => {
  const accepted = `public keys, each once: ${KEY}, separated by commas`;
  const { read } = list(accepted, [0, MOST_KEYS], readKey);
  return {
    accepted,
    read: (value, name) =>
      read(typeof value === 'string' ? value.split(',').filter(Boolean) : value, name),
  };
};

/** 32 bytes in hex. */
export const hash = (): Reader<Digest> => textThat('64 lowercase hex digits', isHex32);

const MOST_LABEL = 64;
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Surrogate}]/u;

/** Text that is safe on one line of a terminal. */
export const label = (): Reader<string> =>
  textThat(`1 to ${MOST_LABEL} characters on one line, no blanks around them`, (value) => {
    const isTrimmed = value !== '' && value.trim() === value;
    return isTrimmed && value.length <= MOST_LABEL && !UNSAFE.test(value);
  });

const MOST_STAKE = 2n ** 128n - 1n;

/** A stake: a whole number as text, because it may exceed the precision of a double. */
export const stake = (): Reader<string> =>
  reading('a whole number in decimal, as text, up to 2^128 - 1', (value) => {
    const text = Number.isSafeInteger(value) ? String(value) : value;
    if (typeof text !== 'string' || !/^(?:0|[1-9][0-9]{0,38})$/.test(text)) return undefined;
    return BigInt(text) <= MOST_STAKE ? text : undefined;
  });

/** Returns the edit distance: letters to insert, delete or replace. */
export function distance(a: string, b: string): number {
  let before = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const now = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = before[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      now.push(Math.min(replaced, before[j]! + 1, now[j - 1]! + 1));
    }
    before = now;
  }
  return before[b.length]!;
}
