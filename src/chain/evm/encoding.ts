/** Ethereum encodings: hex of JSON-RPC, RLP (Yellow Paper, appendix B), and part of the contract ABI. */
import { bytesToNumberBE, numberToBytesBE, numberToVarBytesBE } from '@noble/curves/utils.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { concatBytes, fromHex, toHex, utf8 } from '../../base/bytes.ts';

/** Returns the bytes of `0x…`, of exactly `length` if given; undefined for anything else. */
export function dataOf(value: unknown, length?: number): Uint8Array | undefined {
  if (typeof value !== 'string' || !value.startsWith('0x')) return undefined;
  const bytes = fromHex(value.slice(2).toLowerCase());
  return length === undefined || bytes?.length === length ? bytes : undefined;
}

/** Returns an unsigned integer of up to 256 bits from its shortest hex form; undefined for anything else. */
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

/** An item of the recursive length prefix encoding: bytes, or a list of items. */
export type Rlp = Uint8Array | readonly Rlp[];

export const isRlpList = (item: Rlp): item is readonly Rlp[] => !(item instanceof Uint8Array);

/** Maximum nesting: trie nodes and headers nest only a few lists. */
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

/** Returns the big-endian bytes of an integer without leading zeros; zero is no bytes. */
export const bigEndian = (value: bigint): Uint8Array =>
  value === 0n ? new Uint8Array() : numberToVarBytesBE(value);

/** Returns the integer of big-endian bytes; undefined if there is a leading zero, which is not canonical. */
export const fromBigEndian = (bytes: Uint8Array): bigint | undefined =>
  bytes[0] === 0 || bytes.length > 32 ? undefined : integerOf(bytes);

const integerOf = (bytes: Uint8Array): bigint => (bytes.length === 0 ? 0n : bytesToNumberBE(bytes));

/** Returns the item that the bytes encode; undefined unless they are its canonical encoding. */
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
  // a byte below 0x80 is its own encoding, so this form is not canonical
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

/** An integer, or at most 32 bytes that are padded in front like addresses. */
export type Word = bigint | Uint8Array;

/** An encoded value of variable length: it follows all words, and a word holds its offset. */
export interface Dynamic {
  readonly encoded: Uint8Array;
}

/** Returns the call data of a function from its signature, such as `balanceOf(address)`. */
export const callData = (signature: string, ...args: readonly (Word | Dynamic)[]): string =>
  toData(concatBytes(keccak_256(utf8(signature)).subarray(0, 4), encodeWords(...args)));

/** Returns the first topic of an event. */
export const eventTopic = (signature: string): string => toData(keccak_256(utf8(signature)));

export function dynamicBytes(bytes: Uint8Array): Dynamic {
  const padded = new Uint8Array(32 * Math.ceil(bytes.length / 32));
  padded.set(bytes);
  return { encoded: concatBytes(word(BigInt(bytes.length)), padded) };
}

/** Encodes values like `abi.encode`: words in place, and offsets for values of variable length. */
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

/** Returns 32 bytes, also the form of a storage key. */
export const word = (value: Word): Uint8Array =>
  numberToBytesBE(typeof value === 'bigint' ? value : integerOf(value), 32);

/** Returns the word at an index of a result; undefined beyond its end. */
export function wordAt(bytes: Uint8Array, index: number): bigint | undefined {
  const part = bytes.subarray(32 * index, 32 * index + 32);
  return part.length === 32 ? bytesToNumberBE(part) : undefined;
}

/** Returns the text of a result that is a single short `string`; undefined otherwise. */
export function textOf(bytes: Uint8Array): string | undefined {
  const length = wordAt(bytes, 1);
  if (wordAt(bytes, 0) !== 32n || length === undefined || length > 256n) return undefined;
  const text = bytes.subarray(64, 64 + Number(length));
  return text.length === Number(length) ? String.fromCharCode(...text) : undefined;
}
