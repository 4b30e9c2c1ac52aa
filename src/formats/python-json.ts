/**
 * JSON as the Python reference spells it. Integers and floats are different things there (`1` and `1.0`), so here they are
 * `bigint` and `number`. Canonical text has keys sorted by code point, no spaces, non-ASCII verbatim; hashes are over it.
 */
import { ok, type Result, refuse } from '../base/errors.ts';
import { compareCodePoints } from '../tensor/params.ts';

export type Json = null | boolean | string | number | bigint | readonly Json[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: Json;
}

export const isJsonObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const MAX_DEPTH = 100;
/** Python reads no longer integers. */
const MAX_DIGITS = 4300;

/** A finite double in Python's `repr`: shortest digits that round-trip, always with a point or an exponent. */
export function pythonFloat(value: number): string {
  if (!Number.isFinite(value)) throw new RangeError(`${value} has no JSON form`);
  if (Object.is(value, -0)) return '-0.0';
  const [mantissa, exponent] = value.toExponential().split('e');
  const power = Number(exponent);
  if (value === 0 || (power >= -4 && power < 16)) {
    const plain = String(value);
    return plain.includes('.') ? plain : `${plain}.0`;
  }
  return `${mantissa}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
}

/**
 * A number with so many decimals, as Python prints it: exact ties go to the even digit. Only odd multiples of 2^-(decimals+1)
 * are exact ties, and there `toFixed` would round up.
 */
export function pythonFixed(value: number, decimals: number): string {
  const isTie = Math.abs((value * 2 ** (decimals + 1)) % 2) === 1;
  const down = Math.floor(value * 10 ** decimals);
  return (isTie && down % 2 === 0 ? down / 10 ** decimals : value).toFixed(decimals);
}

/** The canonical text of a value. */
export function canonicalJson(value: Json): string {
  if (typeof value === 'number') return pythonFloat(value);
  if (typeof value === 'bigint') return String(value);
  if (isJsonObject(value)) {
    const members = Object.keys(value)
      .sort(compareCodePoints)
      .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key]!)}`);
    return `{${members.join(',')}}`;
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return `[${value.map(canonicalJson).join(',')}]`;
}

/** The text Python writes to files: two spaces of indent, ASCII only, keys in the order they have. */
export function indentedJson(value: Json, margin = ''): string {
  if (typeof value !== 'object' || value === null) {
    return typeof value === 'string' ? ascii(JSON.stringify(value)) : canonicalJson(value);
  }
  const inner = `${margin}  `;
  const [open, close] = isJsonObject(value) ? ['{', '}'] : ['[', ']'];
  const items = isJsonObject(value)
    ? Object.keys(value).map(
        (key) => `${ascii(JSON.stringify(key))}: ${indentedJson(value[key]!, inner)}`,
      )
    : value.map((item: Json) => indentedJson(item, inner));
  if (items.length === 0) return open + close;
  return `${open}\n${inner}${items.join(`,\n${inner}`)}\n${margin}${close}`;
}

const ascii = (text: string): string =>
  text.replace(
    /[\x7f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** Text re-spelled canonically; the last of repeated keys stays. */
export function canonicalize(text: string): Result<string> {
  const parsed = parseJson(text);
  return parsed.ok ? ok(canonicalJson(parsed.value)) : parsed;
}

/** A value with integers and floats kept apart. Refuses what has no exact canonical form, and nesting beyond 100. */
export function parseJson(text: string): Result<Json> {
  try {
    JSON.parse(text);
  } catch {
    return refuse('bad-json', 'json', 'not JSON');
  }
  const cursor: Cursor = { text, at: 0, depth: 0, problem: undefined };
  const value = readValue(cursor);
  return cursor.problem === undefined ? ok(value) : refuse('bad-json', 'json', cursor.problem);
}

/** A place in text that is known to be JSON; the first problem stays. */
interface Cursor {
  readonly text: string;
  at: number;
  depth: number;
  problem: string | undefined;
}

function readValue(cursor: Cursor): Json {
  skipSpace(cursor);
  const char = cursor.text[cursor.at]!;
  if (char === '"') return readString(cursor);
  if (char === '{') return nested(cursor, readMembers);
  if (char === '[') return nested(cursor, readItems);
  const word = { t: true, f: false, n: null }[char];
  if (word === undefined) return readNumber(cursor);
  cursor.at += word === false ? 5 : 4;
  return word;
}

function nested<T extends Json>(cursor: Cursor, read: (cursor: Cursor) => T): T | null {
  if (++cursor.depth > MAX_DEPTH) {
    cursor.problem ??= `nested deeper than ${MAX_DEPTH}`;
    cursor.at = cursor.text.length;
    return null;
  }
  cursor.at++;
  const value = read(cursor);
  cursor.depth--;
  return value;
}

function readMembers(cursor: Cursor): JsonObject {
  const members: Record<string, Json> = Object.create(null);
  while (!endsHere(cursor, '}')) {
    const key = readString(cursor);
    skipSpace(cursor);
    cursor.at++;
    members[key] = readValue(cursor);
  }
  return members;
}

function readItems(cursor: Cursor): readonly Json[] {
  const items: Json[] = [];
  while (!endsHere(cursor, ']')) items.push(readValue(cursor));
  return items;
}

/** Steps over a comma, or over the closing bracket. */
function endsHere(cursor: Cursor, close: string): boolean {
  skipSpace(cursor);
  if (cursor.text[cursor.at] === ',') {
    cursor.at++;
    skipSpace(cursor);
  }
  if (cursor.at < cursor.text.length && cursor.text[cursor.at] !== close) return false;
  cursor.at++;
  return true;
}

function readString(cursor: Cursor): string {
  const { text, at } = cursor;
  let end = text.indexOf('"', at + 1);
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1);
  cursor.at = end + 1;
  const value: string = JSON.parse(text.slice(at, end + 1));
  if (/\p{Surrogate}/u.test(value)) cursor.problem ??= 'text with a lone surrogate';
  return value;
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0;
  while (text[at - 1 - slashes] === '\\') slashes++;
  return slashes % 2 === 1;
}

function readNumber(cursor: Cursor): number | bigint {
  const number = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
  number.lastIndex = cursor.at;
  const [spelling] = number.exec(cursor.text)!;
  cursor.at += spelling.length;
  if (/^-?\d+$/.test(spelling)) {
    if (spelling.length <= MAX_DIGITS) return BigInt(spelling);
    cursor.problem ??= `an integer of more than ${MAX_DIGITS} digits`;
    return 0n;
  }
  const value = Number(spelling);
  if (!Number.isFinite(value)) cursor.problem ??= 'a number beyond the range of a double';
  return value;
}

function skipSpace(cursor: Cursor): void {
  while (' \t\n\r'.includes(cursor.text[cursor.at] ?? '_')) cursor.at++;
}
