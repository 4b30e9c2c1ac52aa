/** NIP-01 filters: strictly validated, then compiled to a test of stored entries and the index keys to look under. */
import { type Entry, isCount, isRecord } from './event.ts';
import type { Limits } from './limits.ts';

/** Keys under which events and subscriptions are indexed. */
export const idKey = (id: string): string => `i${id}`;
export const authorKey = (pubkey: string): string => `a${pubkey}`;
export const kindKey = (kind: number): string => `k${kind}`;
export const tagKey = (letter: string, value: string): string => `#${letter}${value}`;

/** Returns the joined keys of each kind with each tag. */
export const pairsOf = (kinds: Iterable<string>, names: Iterable<string>): readonly string[] => {
  const tags = [...names].filter((name) => name.startsWith('#'));
  return [...kinds].flatMap((kind) => tags.map((tag) => `${kind}${tag}`));
};

const LETTER = /^[a-zA-Z]$/;

/** Returns all index keys of an event except its id, each once. */
export function keysOf({ pubkey, kind, tags }: Entry): ReadonlySet<string> {
  const keys = new Set([authorKey(pubkey), kindKey(kind)]);
  for (const [name, value = ''] of tags) if (LETTER.test(name!)) keys.add(tagKey(name!, value));
  return keys;
}

export interface CompiledFilter {
  readonly limit: number;
  /** Index keys, one group per list in the filter: a matching event has a key of every group. */
  readonly groups: readonly (readonly string[])[];
  /** Index keys of a subscription; kind and tag joined instead of either, if there are few. */
  readonly indexKeys: readonly (readonly string[])[];
  /** Number of values in all its lists. */
  readonly size: number;
  /** Number of conditions that check every tag of an event. */
  readonly tagTests: number;
  matches(entry: Entry): boolean;
}

type Test = (entry: Entry) => boolean;

/** One compiled field of a filter. */
interface Field {
  readonly test: Test;
  readonly keys?: readonly string[];
}

const isListOf = <T>(
  value: unknown,
  max: number,
  test: (item: unknown) => item is T,
): value is T[] => Array.isArray(value) && value.length <= max && value.every(test);

const isText = (value: unknown): value is string => typeof value === 'string';
const isKind = (value: unknown): value is number => isCount(value, 65_535);

/** Compiles one field, or returns a sentence that says why it is invalid. */
function compileField(key: string, value: unknown, limits: Limits): Field | string {
  const max = limits.maxFilterValues;
  if (key === 'since' || key === 'until') {
    if (!isCount(value)) return `invalid: ${key} is not a whole number of seconds`;
    return { test: key === 'since' ? (e) => e.created_at >= value : (e) => e.created_at <= value };
  }
  if (key === 'kinds') {
    if (!isListOf(value, max, isKind))
      return `invalid: kinds is not a list of at most ${max} kinds`;
    const kinds = new Set(value);
    return { test: (e) => kinds.has(e.kind), keys: value.map(kindKey) };
  }
  if (!isListOf(value, max, isText))
    return `invalid: ${key} is not a list of at most ${max} strings`;
  return compileList(key, value, limits.maxIndexedTagBytes);
}

/** Compiles `ids`, `authors` or one `#x`. */
function compileList(key: string, values: readonly string[], maxBytes: number): Field {
  const wanted = new Set(values);
  if (key === 'ids') return { test: (e) => wanted.has(e.id), keys: values.map(idKey) };
  if (key === 'authors') return { test: (e) => wanted.has(e.pubkey), keys: values.map(authorKey) };
  const letter = key[1]!;
  for (const value of values) if (Buffer.byteLength(value) > maxBytes) wanted.delete(value);
  return {
    test: (e) => e.tags.some((tag) => tag[0] === letter && wanted.has(tag[1] ?? '')),
    keys: [...wanted].map((value) => tagKey(letter, value)),
  };
}

/** Maximum pairs of kind and tag under which a subscription is indexed. */
const MOST_PAIRS = 64;

function indexKeysIn(groups: readonly (readonly string[])[]): readonly (readonly string[])[] {
  const kinds = groups.find(([first]) => first?.startsWith('k'));
  const tags = groups.filter(([first]) => first?.startsWith('#'));
  const few = kinds ? tags.filter(({ length }) => kinds.length * length <= MOST_PAIRS) : [];
  if (!kinds || few.length === 0) return groups;
  const others = groups.filter((keys) => keys !== kinds && !few.includes(keys));
  return [...few.map((keys) => pairsOf(kinds, keys)), ...others];
}

const KNOWN = /^(ids|authors|kinds|since|until|#[a-zA-Z])$/;
const nothing: Field = { test: () => false, keys: [] };

/** Handles an unknown field: refuses the REQ, matches nothing, or ignores it. */
function readUnknown(key: string, unknownFields: 'refuse' | 'ignore'): Field | string | undefined {
  if (unknownFields === 'ignore') return key.startsWith('#') ? nothing : undefined;
  return `unsupported: filter field ${JSON.stringify(key.slice(0, 32))}`;
}

/** Compiles a filter, or returns the reason (with its prefix) to close the REQ. */
export function compileFilter(
  raw: unknown,
  limits: Limits,
  unknownFields: 'refuse' | 'ignore' = 'refuse',
): CompiledFilter | string {
  if (!isRecord(raw)) return 'invalid: filter is not an object';
  const fields: Field[] = [];
  let limit = limits.maxLimit;
  let tagFilters = 0;
  for (const [key, value] of Object.entries(raw)) {
    if (key === 'limit') {
      if (!isCount(value)) return 'invalid: limit is not a whole number';
      limit = Math.min(value, limits.maxLimit);
      continue;
    }
    if (key.startsWith('#') && ++tagFilters > limits.maxTagFilters) {
      return `invalid: too many tags in filter, the limit is ${limits.maxTagFilters}`;
    }
    const field = KNOWN.test(key)
      ? compileField(key, value, limits)
      : readUnknown(key, unknownFields);
    if (typeof field === 'string') return field;
    if (field) fields.push(field);
  }
  const groups = fields.flatMap(({ keys }) => (keys ? [keys] : []));
  return {
    limit,
    groups,
    indexKeys: indexKeysIn(groups),
    size: groups.reduce((sum, keys) => sum + keys.length, 0),
    tagTests: tagFilters,
    matches: (entry) => fields.every(({ test }) => test(entry)),
  };
}
