/** NIP-01 filters: read strictly, then compiled to a test over stored entries. */
import { type Entry, isCount, isRecord } from './event.ts';
import type { Limits } from './limits.ts';

export interface CompiledFilter {
  readonly limit: number;
  /** Set when the filter names ids, so that the store can look them up. */
  readonly ids: ReadonlySet<string> | undefined;
  matches(entry: Entry): boolean;
}

type Test = (entry: Entry) => boolean;

const isListOf = <T>(
  value: unknown,
  max: number,
  test: (item: unknown) => item is T,
): value is T[] => Array.isArray(value) && value.length <= max && value.every(test);

const isText = (value: unknown): value is string => typeof value === 'string';
const isKind = (value: unknown): value is number => isCount(value, 65_535);

/** The test one field of a filter makes, or a sentence saying why it cannot. */
function compileField(key: string, value: unknown, limits: Limits): Test | string {
  const max = limits.maxFilterValues;
  if (key === 'since' || key === 'until') {
    if (!isCount(value)) return `invalid: ${key} is not a whole number of seconds`;
    return key === 'since' ? (e) => e.created_at >= value : (e) => e.created_at <= value;
  }
  if (key === 'kinds') {
    if (!isListOf(value, max, isKind))
      return `invalid: kinds is not a list of at most ${max} kinds`;
    const kinds = new Set(value);
    return (e) => kinds.has(e.kind);
  }
  const letter = /^#([a-zA-Z])$/.exec(key)?.[1];
  if (key !== 'ids' && key !== 'authors' && letter === undefined) {
    return `unsupported: filter field ${JSON.stringify(key.slice(0, 32))}`;
  }
  if (!isListOf(value, max, isText))
    return `invalid: ${key} is not a list of at most ${max} strings`;
  const wanted = new Set(value);
  if (key === 'ids') return (e) => wanted.has(e.id);
  if (key === 'authors') return (e) => wanted.has(e.pubkey);
  return (e) => e.tags.some((tag) => tag[0] === letter && wanted.has(tag[1] ?? ''));
}

/** The filter ready to use, or the reason, with its prefix, for which the REQ is closed. */
export function compileFilter(raw: unknown, limits: Limits): CompiledFilter | string {
  if (!isRecord(raw)) return 'invalid: filter is not an object';
  const tests: Test[] = [];
  let limit = limits.maxLimit;
  for (const [key, value] of Object.entries(raw)) {
    if (key === 'limit') {
      if (!isCount(value)) return 'invalid: limit is not a whole number';
      limit = Math.min(value, limits.maxLimit);
      continue;
    }
    const test = compileField(key, value, limits);
    if (typeof test === 'string') return test;
    tests.push(test);
  }
  const ids = Array.isArray(raw.ids) ? new Set<string>(raw.ids) : undefined;
  return { limit, ids, matches: (entry) => tests.every((test) => test(entry)) };
}
