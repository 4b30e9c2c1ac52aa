/** A strict, bounded reader of DER (ITU-T X.690), as far as X.509 certificates and revocation lists need it. */
import { ok, type Result, refuse } from '../base/errors.ts';

/** One value with its tag. */
export interface Der {
  readonly tag: number;
  readonly content: Uint8Array;
  /** Tag, length and content: what signatures cover. */
  readonly whole: Uint8Array;
}

export const TAGS = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectId: 0x06,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  explicit0: 0xa0,
  explicit3: 0xa3,
} as const;

/** Largest number of values in one sequence; revocation lists have the most. */
const MOST_VALUES = 20_000;

/** Reads the one value that fills the bytes. Throws a RangeError. */
export function derOf(bytes: Uint8Array): Der {
  const [value, end] = valueAt(bytes, 0);
  if (end !== bytes.length) throw new RangeError('bytes follow the value');
  return value;
}

/** Reads the values inside a constructed value. Throws a RangeError. */
export function childrenOf({ content }: Der): readonly Der[] {
  const values: Der[] = [];
  for (let at = 0; at < content.length; ) {
    const [value, end] = valueAt(content, at);
    values.push(value);
    if (values.length > MOST_VALUES) throw new RangeError(`more than ${MOST_VALUES} values`);
    at = end;
  }
  return values;
}

function valueAt(bytes: Uint8Array, start: number): readonly [value: Der, end: number] {
  const [tag, first] = [bytes[start], bytes[start + 1]];
  if (tag === undefined || first === undefined) throw new RangeError('a value is cut off');
  if ((tag & 0x1f) === 0x1f) throw new RangeError('a tag has more than one byte');
  const size = first < 0x80 ? 0 : first & 0x7f;
  if (size > 3 || first === 0x80) throw new RangeError('a length has no definite short form');
  let length = size === 0 ? first : 0;
  for (let i = 0; i < size; i++) length = 256 * length + (bytes[start + 2 + i] ?? 0);
  if (size > 0 && length < (size === 1 ? 0x80 : 256 ** (size - 1))) {
    throw new RangeError('a length is longer than it needs to be');
  }
  const begin = start + 2 + size;
  const end = begin + length;
  if (end > bytes.length) throw new RangeError('a value is cut off');
  return [{ tag, content: bytes.subarray(begin, end), whole: bytes.subarray(start, end) }, end];
}

/** Returns a value that must have this tag. Throws a RangeError. */
export function tagged(value: Der | undefined, tag: number): Der {
  if (value?.tag !== tag) throw new RangeError(`a value of tag ${tag} is missing`);
  return value;
}

/** Returns the dotted text of an object identifier. Throws a RangeError. */
export function objectId(value: Der | undefined): string {
  const { content } = tagged(value, TAGS.objectId);
  const arcs: number[] = [];
  let arc = 0;
  for (const byte of content) {
    arc = 128 * arc + (byte & 0x7f);
    if (arc > 2 ** 32) throw new RangeError('an object identifier is too large');
    if (byte >= 0x80) continue;
    arcs.push(arc);
    arc = 0;
  }
  const [first] = arcs;
  if (first === undefined || content.at(-1)! >= 0x80)
    throw new RangeError('an identifier is cut off');
  const top = Math.min(2, Math.floor(first / 40));
  return [top, first - 40 * top, ...arcs.slice(1)].join('.');
}

/** Returns a whole number of at most six bytes. Throws a RangeError. */
export function smallInteger(value: Der | undefined): number {
  const { content } = tagged(value, TAGS.integer);
  if (content.length === 0 || content.length > 6 || content[0]! >= 0x80) {
    throw new RangeError('a number is out of range');
  }
  return content.reduce((sum, byte) => 256 * sum + byte, 0);
}

/** Returns the bytes of a bit string without unused bits. Throws a RangeError. */
export function bitString(value: Der | undefined): Uint8Array {
  const { content } = tagged(value, TAGS.bitString);
  if (content[0] !== 0) throw new RangeError('a bit string has unused bits');
  return content.subarray(1);
}

/** Returns the Unix seconds of a UTCTime or GeneralizedTime in the form that RFC 5280 demands. Throws a RangeError. */
export function derTime(value: Der | undefined): number {
  const text = String.fromCharCode(...(value?.content.subarray(0, 20) ?? []));
  const short = value?.tag === TAGS.utcTime;
  const parts = (short ? /^(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})Z$/ : GENERALIZED).exec(text);
  if (!parts || (!short && value?.tag !== TAGS.generalizedTime)) throw new RangeError('not a time');
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts
    .slice(1)
    .map(Number);
  const full = short ? year + (year < 50 ? 2000 : 1900) : year;
  return Date.UTC(full, month - 1, day, hour, minute, second) / 1000;
}
const GENERALIZED = /^(\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})Z$/;

/** Returns what `read` returns, or refuses malformed DER. */
export function readDer<T>(at: string, read: () => T): Result<T> {
  try {
    return ok(read());
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return refuse('malformed', at, error.message);
  }
}
