/** Base58 as Bitcoin and Solana write bytes: addresses of 32 bytes, signatures of 64. */
import { fromHex, toHex } from '../../base/bytes.ts';

const SYMBOLS = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
/** Symbols of the longest text for one byte: log 256 / log 58. */
const PER_BYTE = 1.366;

/** Exactly so many bytes, or undefined for anything else; longer texts are refused unread. */
export function fromBase58(text: string, length = 32): Uint8Array | undefined {
  if (text.length < length || text.length > Math.ceil(PER_BYTE * length)) return undefined;
  let value = 0n;
  for (const symbol of text) {
    const digit = SYMBOLS.indexOf(symbol);
    if (digit < 0) return undefined;
    value = value * 58n + BigInt(digit);
  }
  const ones = /^1*/.exec(text)![0].length;
  const hex = value === 0n ? '' : value.toString(16);
  const bytes = fromHex('00'.repeat(ones) + (hex.length % 2 === 1 ? `0${hex}` : hex));
  return bytes?.length === length ? bytes : undefined;
}

/** The one text of these bytes. */
export function toBase58(bytes: Uint8Array): string {
  const zeros = bytes.findIndex((byte) => byte !== 0);
  let text = '';
  for (let rest = BigInt(`0x0${toHex(bytes)}`); rest > 0n; rest /= 58n) {
    text = SYMBOLS[Number(rest % 58n)]! + text;
  }
  return '1'.repeat(zeros < 0 ? bytes.length : zeros) + text;
}
