/** Values that follow from other settings instead of from the preset or default, and why. */

import { safeJson } from '../../base/errors.ts';

/** A setting that changes others, and the reason. */
export interface Cause {
  /** For example `eventBudget 16384`. */
  readonly because: string;
  readonly why: string;
}

/** Settings or spec fields that changed because others did, not because the user set them. */
export interface Adaptation extends Cause {
  /** New values by name. */
  readonly changed: Readonly<Record<string, unknown>>;
}

type Values = Readonly<Record<string, unknown>>;

/** Returns the values that differ from the usual ones although they were not typed; empty if there are none. */
export function adaptationsOf(
  { because, why }: Cause,
  { usual, typed, result }: Readonly<Record<'usual' | 'typed' | 'result', Values>>,
): readonly Adaptation[] {
  const isChanged = ([name, value]: readonly [string, unknown]) =>
    usual[name] !== undefined && value !== usual[name] && typed[name] === undefined;
  const changed = Object.fromEntries(Object.entries(result).filter(isChanged));
  return Object.keys(changed).length === 0 ? [] : [{ because, why, changed }];
}

/** Formats an adaptation as one line. */
export function describeAdaptation({ because, why, changed }: Adaptation): string {
  const values = Object.entries(changed).map(([name, value]) => {
    return `${name} ${typeof value === 'string' ? value : safeJson(value)}`;
  });
  return `${because} → ${values.join(', ')}: ${why}`;
}
