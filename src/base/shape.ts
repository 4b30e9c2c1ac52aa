/** Guards of parsed JSON: each reports whether an untrusted value has a form, and narrows its type. */
import { isHex32 } from './bytes.ts';

/** Reports whether a value is a T. */
export type Guard<T> = (value: unknown) => value is T;

/** The type that a guard holds for. */
export type Guarded<G> = G extends Guard<infer T> ? T : never;

/** Members of an object, as a JSON or TOML parser returns them. */
export type Untyped = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Untyped =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const isText = (value: unknown): value is string => typeof value === 'string';
export const isNumber = (value: unknown): value is number => typeof value === 'number';
export const isFlag = (value: unknown): value is boolean => typeof value === 'boolean';

/** 32 bytes as 64 lowercase hex digits. */
export const isHash = (value: unknown): value is string => isText(value) && isHex32(value);

/** A safe integer from `least` to `most`. */
export const isWithin =
  (least: number, most = Number.MAX_SAFE_INTEGER): Guard<number> =>
  (value): value is number =>
    isNumber(value) && Number.isSafeInteger(value) && value >= least && value <= most;

/** A safe integer from 0 on. */
export const isCount = isWithin(0);

/** A list of `least` to `most` items. */
export const listOf =
  <T>(isItem: Guard<T>, most = Number.POSITIVE_INFINITY, least = 0): Guard<readonly T[]> =>
  (value): value is readonly T[] =>
    Array.isArray(value) && value.length >= least && value.length <= most && value.every(isItem);

/** A value of this form, or none. */
export const optional =
  <T>(is: Guard<T>): Guard<T | undefined> =>
  (value): value is T | undefined =>
    value === undefined || is(value);

/** An object with these members, and maybe others. */
export const shape =
  <const G extends Readonly<Record<string, Guard<unknown>>>>(
    members: G,
  ): Guard<{ readonly [K in keyof G]: Guarded<G[K]> }> =>
  (value): value is { readonly [K in keyof G]: Guarded<G[K]> } =>
    isObject(value) && Object.entries(members).every(([name, is]) => is(value[name]));
