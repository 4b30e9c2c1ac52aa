/** Bytes, hex and base64: strict decoders that refuse what is not canonical. */

const HEX = /^(?:[0-9a-f]{2})*$/;
const encoder = new TextEncoder();

export const utf8 = (text: string): Uint8Array => encoder.encode(text);

const HEX_OF = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

/** Lowercase hex of the bytes. */
export function toHex(bytes: Uint8Array): string {
  let out = '';
  for (const byte of bytes) out += HEX_OF[byte]!;
  return out;
}

/** The value of a character that is known to be a digit of lowercase hex. */
const digit = (code: number): number => (code < 58 ? code - 48 : code - 87);

/** Bytes of lowercase hex, or undefined when the text is anything else. */
export function fromHex(text: string): Uint8Array | undefined {
  if (!HEX.test(text)) return undefined;
  const out = new Uint8Array(text.length / 2);
  for (let i = 0; i < out.length; i++) {
    out[i] = (digit(text.charCodeAt(2 * i)) << 4) | digit(text.charCodeAt(2 * i + 1));
  }
  return out;
}

export const isHex32 = (text: string): boolean => text.length === 64 && HEX.test(text);

/** One buffer holding all parts in order. */
export function concatBytes(...parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const VALUE = new Int16Array(128).fill(-1);
for (let i = 0; i < 64; i++) VALUE[ALPHABET.charCodeAt(i)] = i;
const decoder = new TextDecoder();

/** Standard base64 with padding (RFC 4648 section 4). */
export function toBase64(bytes: Uint8Array): string {
  const out = new Uint8Array(4 * Math.ceil(bytes.length / 3));
  let at = 0;
  for (let i = 0; i < bytes.length; i += 3) {
    const left = bytes.length - i;
    const word = (bytes[i]! << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    out[at++] = ALPHABET.charCodeAt(word >>> 18);
    out[at++] = ALPHABET.charCodeAt((word >>> 12) & 63);
    out[at++] = left > 1 ? ALPHABET.charCodeAt((word >>> 6) & 63) : 61;
    out[at++] = left > 2 ? ALPHABET.charCodeAt(word & 63) : 61;
  }
  return decoder.decode(out);
}

/** Bytes of canonical padded base64, or undefined: no other alphabet, no line breaks, no stray trailing bits. */
export function fromBase64(text: string): Uint8Array | undefined {
  if (text.length % 4 !== 0) return undefined;
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const out = new Uint8Array((text.length / 4) * 3 - padding);
  const symbols = text.length - padding;
  let at = 0;
  let word = 0;
  for (let i = 0; i < symbols; i++) {
    const code = text.charCodeAt(i);
    const value = code < 128 ? VALUE[code]! : -1;
    if (value < 0) return undefined;
    word = ((word << 6) | value) & 0xffffff;
    if (i % 4 === 1) out[at++] = (word >>> 4) & 255;
    else if (i % 4 === 2) out[at++] = (word >>> 2) & 255;
    else if (i % 4 === 3) out[at++] = word & 255;
  }
  if (padding === 1 && (word & 3) !== 0) return undefined;
  if (padding === 2 && (word & 15) !== 0) return undefined;
  return out;
}
