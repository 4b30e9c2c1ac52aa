/** Ethereum encodings: hex of its JSON-RPC, RLP (Yellow Paper, appendix B), and a little of the contract ABI. */
import { bytesToNumberBE, numberToBytesBE, numberToVarBytesBE } from '@noble/curves/utils.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { concatBytes, fromHex, toHex, utf8 } from '../../base/bytes.ts';

/** Bytes of `0x…`, of exactly `length` where it is given; undefined for anything else. */
export function dataOf(value: unknown, length?: number): Uint8Array | undefined {
  if (typeof value !== 'string' || !value.startsWith('0x')) return undefined;
  const bytes = fromHex(value.slice(2).toLowerCase());
  return length === undefined || bytes?.length === length ? bytes : undefined;
}

/** An unsigned integer of up to 256 bits in its shortest form. */
export const quantityOf = (value: unknown): bigint | undefined =>
  typeof value === 'string' && /^0x(?:0|[1-9a-fA-F][0-9a-fA-F]{0,63})$/.test(value)
    ? BigInt(value)
    : undefined;

export function numberOf(value: unknown): number | undefined {
  const number = Number(quantityOf(value) ?? Number.NaN);
  return Number.isSafeInteger(number) ? number : undefined;
}

export const toQuantity = (value: number): string => `0x${value.toString(16)}`;

export const toData = (bytes: Uint8Array): string => `0x${toHex(bytes)}`;

/** Recursive length prefix: bytes, or a list of such. */
export type Rlp = Uint8Array | readonly Rlp[];

export const isRlpList = (item: Rlp): item is readonly Rlp[] => !(item instanceof Uint8Array);

/** Trie nodes and headers nest no deeper than a few lists. */
const MAX_DEPTH = 8;

/** Returns the RLP encoding of bytes or of nested lists. */
export function encodeRlp(item: Rlp): Uint8Array {
  if (isRlpList(item)) {
    const body = concatBytes(...item.map(encodeRlp));
    return concatBytes(prefix(0xc0, body.length), body);
  }
  if (item.length === 1 && item[0]! < 0x80) return item;
  return concatBytes(prefix(0x80, item.length), item);
}

function prefix(from: number, length: number): Uint8Array {
  if (length < 56) return Uint8Array.of(from + length);
  const size = bigEndian(BigInt(length));
  return concatBytes(Uint8Array.of(from + 55 + size.length), size);
}

/** An integer as few bytes as it needs, the highest first; zero is no bytes. */
export const bigEndian = (value: bigint): Uint8Array =>
  value === 0n ? new Uint8Array() : numberToVarBytesBE(value);

/** The integer such bytes mean; undefined if a leading zero makes them another spelling of it. */
export const fromBigEndian = (bytes: Uint8Array): bigint | undefined =>
  bytes[0] === 0 || bytes.length > 32 ? undefined : integerOf(bytes);

const integerOf = (bytes: Uint8Array): bigint => (bytes.length === 0 ? 0n : bytesToNumberBE(bytes));

/** The one item these bytes are, or undefined for anything but its canonical spelling. */
export function decodeRlp(bytes: Uint8Array): Rlp | undefined {
  const read = readItem(bytes, 0, MAX_DEPTH);
  return read?.end === bytes.length ? read.item : undefined;
}

function readItem(
  bytes: Uint8Array,
  at: number,
  depth: number,
): { readonly item: Rlp; readonly end: number } | undefined {
  const first = bytes[at];
  if (first === undefined) return undefined;
  if (first < 0x80) return { item: bytes.subarray(at, at + 1), end: at + 1 };
  const isList = first >= 0xc0;
  const short = first - (isList ? 0xc0 : 0x80);
  const span = short < 56 ? { from: at + 1, length: short } : longSpan(bytes, at + 1, short - 55);
  if (span === undefined || span.from + span.length > bytes.length) return undefined;
  const end = span.from + span.length;
  const body = bytes.subarray(span.from, end);
  if (isList) {
    const items = depth === 0 ? undefined : readItems(body, depth - 1);
    return items && { item: items, end };
  }
  // a byte below 0x80 stands for itself
  return body.length === 1 && body[0]! < 0x80 ? undefined : { item: body, end };
}

function readItems(body: Uint8Array, depth: number): Rlp[] | undefined {
  const items: Rlp[] = [];
  for (let at = 0; at < body.length; ) {
    const read = readItem(body, at, depth);
    if (read === undefined) return undefined;
    items.push(read.item);
    at = read.end;
  }
  return items;
}

function longSpan(bytes: Uint8Array, at: number, size: number) {
  if (size > 4 || at + size > bytes.length) return undefined;
  const length = Number(fromBigEndian(bytes.subarray(at, at + size)) ?? 0n);
  return length < 56 ? undefined : { from: at + size, length };
}

/** An integer, or bytes of at most a word that are padded in front as addresses are. */
export type Word = bigint | Uint8Array;

/** A value without a fixed length, as it is encoded: it stands after all words, which say where. */
export interface Dynamic {
  readonly encoded: Uint8Array;
}

/** Call data of a function by its signature: `balanceOf(address)`. */
export const callData = (signature: string, ...args: readonly (Word | Dynamic)[]): string =>
  toData(concatBytes(keccak_256(utf8(signature)).subarray(0, 4), encodeWords(...args)));

/** First topic of an event. */
export const eventTopic = (signature: string): string => toData(keccak_256(utf8(signature)));

export function dynamicBytes(bytes: Uint8Array): Dynamic {
  const padded = new Uint8Array(32 * Math.ceil(bytes.length / 32));
  padded.set(bytes);
  return { encoded: concatBytes(word(BigInt(bytes.length)), padded) };
}

/** Values in their order, as `abi.encode` puts them: words in place, and offsets of the others. */
export function encodeWords(...values: readonly (Word | Dynamic)[]): Uint8Array {
  let offset = 32 * values.length;
  const isDynamic = (value: Word | Dynamic): value is Dynamic =>
    typeof value === 'object' && 'encoded' in value;
  const heads = values.map((value) => {
    if (!isDynamic(value)) return word(value);
    const at = word(BigInt(offset));
    offset += value.encoded.length;
    return at;
  });
  return concatBytes(...heads, ...values.filter(isDynamic).map(({ encoded }) => encoded));
}

/** 32 bytes; a storage slot as a key. */
export const word = (value: Word): Uint8Array =>
  numberToBytesBE(typeof value === 'bigint' ? value : integerOf(value), 32);

/** The word at a place in an answer, or undefined beyond its end. */
export function wordAt(bytes: Uint8Array, index: number): bigint | undefined {
  const part = bytes.subarray(32 * index, 32 * index + 32);
  return part.length === 32 ? bytesToNumberBE(part) : undefined;
}

/** The text an answer is, or undefined: one `string`, short. */
export function textOf(bytes: Uint8Array): string | undefined {
  const length = wordAt(bytes, 1);
  if (wordAt(bytes, 0) !== 32n || length === undefined || length > 256n) return undefined;
  const text = bytes.subarray(64, 64 + Number(length));
  return text.length === Number(length) ? String.fromCharCode(...text) : undefined;
}
