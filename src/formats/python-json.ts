/**
 * JSON as the Python reference formats it: integers (`1`) are bigint, floats (`1.0`) number. Canonical text, which is
 * hashed, has keys sorted by code point, no spaces, and non-ASCII characters verbatim.
 */
import { ok, type Result, refuse } from '../base/errors.ts';
import { compareCodePoints } from '../tensor/params.ts';

export type PythonJson =
  | null
  | boolean
  | string
  | number
  | bigint
  | readonly PythonJson[]
  | PythonObject;

export interface PythonObject {
  readonly [key: string]: PythonJson;
}

/** Reports whether a value is a JSON object, not an array or null. */
export const isJsonObject = (value: PythonJson | undefined): value is PythonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const MAX_DEPTH = 100;
/** Maximum digits of an integer; Python rejects longer ones by default. */
const MAX_DIGITS = 4300;

/** Formats a finite double like Python's `repr`: shortest round-trip digits, always with a point or an exponent. */
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
 * Formats a number with a fixed number of decimals like Python: exact ties, odd multiples of 2^-(decimals+1), round to
 * the even digit, while `toFixed` rounds them up.
 */
export function pythonFixed(value: number, decimals: number): string {
  const isTie = Math.abs((value * 2 ** (decimals + 1)) % 2) === 1;
  const down = Math.floor(value * 10 ** decimals);
  return (isTie && down % 2 === 0 ? down / 10 ** decimals : value).toFixed(decimals);
}

/** Returns the canonical text of a value. */
export function canonicalJson(value: PythonJson): string {
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

/** Formats a value as Python writes it to files: two spaces of indent, ASCII only, keys in insertion order. */
export function indentedJson(value: PythonJson, margin = ''): string {
  if (typeof value !== 'object' || value === null) {
    return typeof value === 'string' ? ascii(JSON.stringify(value)) : canonicalJson(value);
  }
  const inner = `${margin}  `;
  const [open, close] = isJsonObject(value) ? ['{', '}'] : ['[', ']'];
  const items = isJsonObject(value)
    ? Object.keys(value).map(
        (key) => `${ascii(JSON.stringify(key))}: ${indentedJson(value[key]!, inner)}`,
      )
    : value.map((item: PythonJson) => indentedJson(item, inner));
  if (items.length === 0) return open + close;
  return `${open}\n${inner}${items.join(`,\n${inner}`)}\n${margin}${close}`;
}

const ascii = (text: string): string =>
  text.replace(
    /[\x7f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** Parses a text and formats it canonically; of repeated keys the last one counts. */
export function canonicalize(text: string): Result<string> {
  const parsed = parseJson(text);
  return parsed.ok ? ok(canonicalJson(parsed.value)) : parsed;
}

/** Matches strings and numbers in valid JSON. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Parses JSON, keeping integers and floats apart. Fails without an exact canonical form, or above 100 levels. */
export function parseJson(text: string): Result<PythonJson> {
  try {
    JSON.parse(text);
  } catch {
    return refuse('bad-json', 'json', 'not JSON');
  }
  // numbers become marked strings: JSON.parse would lose how they are written
  const marked: Marked = JSON.parse(
    text.replace(TOKENS, (token) => (token[0] === '"' ? `"s${token.slice(1)}` : `"n${token}"`)),
  );
  let problem: string | undefined;
  const string = (value: string): string => {
    if (/\p{Surrogate}/u.test(value)) problem ??= 'text with a lone surrogate';
    return value;
  };
  const number = (spelling: string): number | bigint => {
    const isInteger = /^-?\d+$/.test(spelling);
    const value = Number(spelling);
    if (isInteger && spelling.length > MAX_DIGITS) {
      problem ??= `an integer of more than ${MAX_DIGITS} digits`;
    } else if (isInteger) return BigInt(spelling);
    else if (!Number.isFinite(value)) problem ??= 'a number beyond the range of a double';
    return value;
  };
  const read = (value: Marked, depth: number): PythonJson => {
    if (value === null || typeof value === 'boolean') return value;
    if (typeof value === 'string') {
      return value[0] === 's' ? string(value.slice(1)) : number(value.slice(1));
    }
    if (depth > MAX_DEPTH) {
      problem ??= `nested deeper than ${MAX_DEPTH}`;
      return null;
    }
    if (isList(value)) return value.map((item) => read(item, depth + 1));
    const members: Record<string, PythonJson> = Object.create(null);
    for (const [name, member] of Object.entries(value)) {
      members[string(name.slice(1))] = read(member, depth + 1);
    }
    return members;
  };
  const value = read(marked, 1);
  return problem === undefined ? ok(value) : refuse('bad-json', 'json', problem);
}

/** JSON with strings prefixed by `s`, and numbers as strings prefixed by `n`. */
type Marked = null | boolean | string | readonly Marked[] | { readonly [name: string]: Marked };

const isList = (value: Marked): value is readonly Marked[] => Array.isArray(value);
