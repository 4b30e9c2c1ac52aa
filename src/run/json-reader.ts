/** Reads the members of an untrusted JSON object one by one, and keeps the name of the first invalid one. */

import { isHex32 } from '../base/bytes.ts';
import { isJsonObject, type Json, type JsonObject } from '../base/canonical-json.ts';
import { type Guard, isHash, isText, isWithin } from '../base/shape.ts';
import type { FeatureContent, FeatureSet, FeatureValues } from './spec/features.ts';

/** How long a list may be, and its order. */
interface ListForm<T> {
  readonly most: number;
  above(a: T, b: T): boolean;
}

function listOf<T>(
  value: Json | undefined,
  read: (item: Json) => T | undefined,
  { most, above }: ListForm<T>,
): readonly T[] | undefined {
  if (!Array.isArray(value) || value.length > most) return undefined;
  const items = value.map(read).filter((item) => item !== undefined);
  const isAscending = items.every((item, i) => i === 0 || above(item, items[i - 1]!));
  return isAscending && items.length === value.length ? items : undefined;
}

/** Event ids or keys, ascending; undefined for anything else. */
export const idsOf = (value: Json | undefined, most: number): readonly string[] | undefined =>
  listOf(value, (id) => (typeof id === 'string' && isHex32(id) ? id : undefined), {
    most,
    above: (a, b) => a > b,
  });

export class JsonReader {
  problem: string | undefined;
  readonly #members: JsonObject;

  constructor(json: Json) {
    if (isJsonObject(json)) {
      this.#members = json;
    } else {
      this.#members = {};
      this.problem = 'body';
    }
  }

  /** Returns what `take` makes of a member; if that is undefined, notes the problem and returns `fallback`. */
  take<T>(key: string, take: (value: Json | undefined) => T | undefined, fallback: T): T {
    const value = take(this.#members[key]);
    if (value !== undefined) return value;
    this.problem ??= key;
    return fallback;
  }

  /** Returns a member of this form; otherwise notes the problem and returns `fallback`. */
  guarded<T>(key: string, is: Guard<T>, fallback: T): T {
    return this.take(key, (value) => (is(value) ? value : undefined), fallback);
  }

  text(key: string, isGood: (text: string) => boolean): string {
    return this.guarded(key, (value): value is string => isText(value) && isGood(value), '');
  }

  hex32(key: string): string {
    return this.guarded(key, isHash, '');
  }

  integer(key: string, most: number): number {
    return this.guarded(key, isWithin(0, most), 0);
  }

  /** Reads a list of at most `most` items, each valid and strictly above the one before. */
  list<T>(key: string, read: (item: Json) => T | undefined, form: ListForm<T>): readonly T[] {
    return this.take(key, (value) => listOf(value, read, form), []);
  }

  /** Event ids or keys, ascending. */
  ids(key: string, most: number): readonly string[] {
    return this.take(key, (value) => idsOf(value, most), []);
  }

  features<P extends FeatureContent>(content: P, set: FeatureSet): FeatureValues<P> {
    const read = set.read(content, this.#members.features);
    if (read.ok) return read.value;
    this.problem ??= read.issue.at;
    return {} as FeatureValues<P>;
  }
}
