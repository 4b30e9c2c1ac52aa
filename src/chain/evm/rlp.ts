/** Recursive length prefix (Ethereum Yellow Paper, appendix B): what headers and trie nodes are written in. */
import { concatBytes } from '../../base/bytes.ts';

export type Rlp = Uint8Array | readonly Rlp[];

export const isRlpList = (item: Rlp): item is readonly Rlp[] => !(item instanceof Uint8Array);

/** Trie nodes and headers nest no deeper than a few lists. */
const MAX_DEPTH = 8;

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
export function bigEndian(value: bigint): Uint8Array {
  const out: number[] = [];
  for (let rest = value; rest > 0n; rest >>= 8n) out.unshift(Number(rest & 255n));
  return Uint8Array.from(out);
}

/** The integer such bytes mean, or undefined where a leading zero makes them another spelling of it. */
export function fromBigEndian(bytes: Uint8Array): bigint | undefined {
  if (bytes[0] === 0 || bytes.length > 32) return undefined;
  return bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}

/** The one item these bytes are, or undefined for anything but its canonical spelling. */
export function decodeRlp(bytes: Uint8Array): Rlp | undefined {
  const read = readItem(bytes, 0, MAX_DEPTH);
  return read?.end === bytes.length ? read.item : undefined;
}

interface Read {
  readonly item: Rlp;
  readonly end: number;
}

function readItem(bytes: Uint8Array, at: number, depth: number): Read | undefined {
  const first = bytes[at];
  if (first === undefined) return undefined;
  if (first < 0x80) return { item: bytes.subarray(at, at + 1), end: at + 1 };
  const isList = first >= 0xc0;
  const short = first - (isList ? 0xc0 : 0x80);
  const span = short < 56 ? { from: at + 1, length: short } : longSpan(bytes, at + 1, short - 55);
  if (span === undefined || span.from + span.length > bytes.length) return undefined;
  const body = bytes.subarray(span.from, span.from + span.length);
  const end = span.from + span.length;
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
  const length = fromBigEndian(bytes.subarray(at, at + size));
  return length === undefined || length < 56n
    ? undefined
    : { from: at + size, length: Number(length) };
}
