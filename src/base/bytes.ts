/** Bytes, hex, base64 and CRC-32, with strict decoders: non-canonical input is rejected. */

const HEX = /^(?:[0-9a-f]{2})*$/;
const encoder = new TextEncoder();

/** Returns the UTF-8 bytes of a text. */
export const utf8 = (text: string): Uint8Array => encoder.encode(text);

const HEX_OF = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

/** Returns the bytes as lowercase hex. */
export function toHex(bytes: Uint8Array): string {
  let out = '';
  for (const byte of bytes) out += HEX_OF[byte]!;
  return out;
}

/** Returns the value of a character code that is known to be a lowercase hex digit. */
const digit = (code: number): number => (code < 58 ? code - 48 : code - 87);

/** Decodes lowercase hex; undefined for any other text. */
export function fromHex(text: string): Uint8Array | undefined {
  if (!HEX.test(text)) return undefined;
  const out = new Uint8Array(text.length / 2);
  for (let i = 0; i < out.length; i++) {
    out[i] = (digit(text.charCodeAt(2 * i)) << 4) | digit(text.charCodeAt(2 * i + 1));
  }
  return out;
}

export const isHex32 = (text: string): boolean => text.length === 64 && HEX.test(text);

/** Returns one buffer with all parts in order. */
export function concatBytes(...parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

const ALPHABET = new TextEncoder().encode(
  'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/',
);
const PADDING = 61;
/** Table entry of a character outside the alphabet: its high bits survive any OR. */
const NO_VALUE = 255;
const VALUE = new Uint8Array(256).fill(NO_VALUE);
ALPHABET.forEach((code, value) => {
  VALUE[code] = value;
});
const decoder = new TextDecoder();

/** Encodes standard base64 with padding (RFC 4648 section 4). */
export function toBase64(bytes: Uint8Array): string {
  const out = new Uint8Array(4 * Math.ceil(bytes.length / 3));
  const whole = bytes.length - (bytes.length % 3);
  let at = 0;
  for (let i = 0; i < whole; i += 3) {
    const word = (bytes[i]! << 16) | (bytes[i + 1]! << 8) | bytes[i + 2]!;
    out[at] = ALPHABET[word >>> 18]!;
    out[at + 1] = ALPHABET[(word >>> 12) & 63]!;
    out[at + 2] = ALPHABET[(word >>> 6) & 63]!;
    out[at + 3] = ALPHABET[word & 63]!;
    at += 4;
  }
  const left = bytes.length - whole;
  if (left > 0) {
    const word = (bytes[whole]! << 16) | ((bytes[whole + 1] ?? 0) << 8);
    out[at] = ALPHABET[word >>> 18]!;
    out[at + 1] = ALPHABET[(word >>> 12) & 63]!;
    out[at + 2] = left > 1 ? ALPHABET[(word >>> 6) & 63]! : PADDING;
    out[at + 3] = PADDING;
  }
  return decoder.decode(out);
}

/** Decodes canonical padded base64. Undefined for other alphabets, line breaks or non-zero trailing bits. */
export function fromBase64(text: string): Uint8Array | undefined {
  if (text.length % 4 !== 0) return undefined;
  const codes = encoder.encode(text);
  if (codes.length !== text.length) return undefined;
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const out = new Uint8Array((text.length / 4) * 3 - padding);
  const whole = padding === 0 ? codes.length : codes.length - 4;
  let seen = 0;
  let at = 0;
  for (let i = 0; i < whole; i += 4) {
    const a = VALUE[codes[i]!]!;
    const b = VALUE[codes[i + 1]!]!;
    const c = VALUE[codes[i + 2]!]!;
    const d = VALUE[codes[i + 3]!]!;
    seen |= a | b | c | d;
    out[at] = (a << 2) | (b >>> 4);
    out[at + 1] = (b << 4) | (c >>> 2);
    out[at + 2] = (c << 6) | d;
    at += 3;
  }
  if (padding > 0) {
    const a = VALUE[codes[whole]!]!;
    const b = VALUE[codes[whole + 1]!]!;
    const c = padding === 1 ? VALUE[codes[whole + 2]!]! : 0;
    seen |= a | b | c;
    out[at] = (a << 2) | (b >>> 4);
    if (padding === 1) out[at + 1] = (b << 4) | (c >>> 2);
    const stray = padding === 1 ? c & 3 : b & 15;
    if (stray !== 0) return undefined;
  }
  return seen > 63 ? undefined : out;
}

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  return crc;
});

/** Returns the CRC-32 as an unsigned integer. */
export function crc32(bytes: Uint8Array): number {
  let crc = 0xffff_ffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ TABLE[(crc ^ byte) & 255]!;
  return ~crc >>> 0;
}
