/**
 * Canonical JSON (RFC 8785, JCS): one text for every value, so that a hash over the text names the value. Integers
 * beyond 2^53 travel as text. Refuses NaN, infinities and lone surrogates.
 */
import { ok, type Result, refuse } from './errors.ts';

export type Json = null | boolean | string | number | readonly Json[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: Json;
}

export const isJsonObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Maximum nesting depth when parsing; keeps a hostile text from overflowing the stack. */
const MAX_DEPTH = 100;

/** Returns canonical text: members sorted by UTF-16 code units, no spaces. Throws a RangeError for other values. */
export function canonicalJson(value: Json): string {
  if (typeof value === 'string') return canonicalText(value);
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new RangeError(`${value} has no JSON form`);
    return JSON.stringify(value);
  }
  if (isJsonObject(value)) {
    const members = Object.keys(value)
      .sort()
      .map((key) => `${canonicalText(key)}:${canonicalJson(value[key]!)}`);
    return `{${members.join(',')}}`;
  }
  if (typeof value !== 'object' || value === null) return String(value);
  return `[${value.map(canonicalJson).join(',')}]`;
}

function canonicalText(text: string): string {
  if (!text.isWellFormed()) throw new RangeError('text with a lone surrogate has no JSON form');
  return JSON.stringify(text);
}

/** Parses a JSON text and formats it canonically; of repeated names the last one counts. */
export function canonicalize(text: string): Result<string> {
  const parsed = parseJson(text);
  return parsed.ok ? ok(canonicalJson(parsed.value)) : parsed;
}

/** Parses any JSON text; undefined if it is not JSON. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Parses an untrusted JSON text. Fails unless it has a canonical form and at most 100 levels of nesting. */
export function parseJson(text: string): Result<Json> {
  let value: Json;
  try {
    value = JSON.parse(text);
  } catch {
    return refuse('bad-json', 'json', 'not JSON');
  }
  const problem = problemOf(value, 0);
  return problem === undefined ? ok(value) : refuse('bad-json', 'json', problem);
}

function problemOf(value: Json, depth: number): string | undefined {
  if (typeof value === 'number') {
    return Number.isFinite(value) ? undefined : 'a number beyond the range of a double';
  }
  if (typeof value === 'string') {
    return value.isWellFormed() ? undefined : 'text with a lone surrogate';
  }
  if (typeof value !== 'object' || value === null) return undefined;
  if (depth === MAX_DEPTH) return `nested deeper than ${MAX_DEPTH}`;
  for (const [key, member] of Object.entries<Json>(value as JsonObject)) {
    const problem = problemOf(key, depth) ?? problemOf(member, depth + 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
