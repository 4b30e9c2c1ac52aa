/**
 * Reads and writes zip archives as NumPy and PyTorch do (APPNOTE 6.3.10). fflate compresses; directories are read here,
 * because fflate does not check CRC-32, encryption or repeated names, and sizes must be checked before allocating.
 */
import { inflateSync, zipSync } from 'fflate';
import { crc32 } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';

export interface ZipMember {
  readonly name: string;
  readonly bytes: Uint8Array;
}

const END = 0x06054b50;
const END_BYTES = 22;
const ENTRY = 0x02014b50;
const ENTRY_BYTES = 46;
const LOCAL = 0x04034b50;
const LOCAL_BYTES = 30;

/** Maximum ratio of unpacked to packed size. Weights hardly compress, so a higher ratio is a zip bomb. */
const MAX_GROWTH = 64;
const FREE_BYTES = 64 * 1024 * 1024;

/** Fixed timestamp of all members, so that the same state gives the same file. */
const WRITTEN = new Date(1980, 0, 1);

/** Encodes an archive with the members uncompressed, in order. */
export const encodeZip = (members: readonly ZipMember[]): Uint8Array =>
  zipSync(Object.fromEntries(members.map(({ name, bytes }) => [name, bytes])), {
    level: 0,
    mtime: WRITTEN,
  });

/** Decodes the wanted members, in the order of the directory. */
export function decodeZip(
  file: Uint8Array,
  isWanted: (name: string) => boolean = () => true,
): Result<readonly ZipMember[]> {
  const entries = readDirectory(file);
  if (!entries.ok) return entries;
  const wanted = entries.value.filter(({ name }) => isWanted(name));
  const total = wanted.reduce((sum, { size }) => sum + size, 0);
  if (total > FREE_BYTES + MAX_GROWTH * file.length) {
    return refuse('zip/bomb', 'directory', `${file.length} bytes claim to unpack to ${total}`);
  }
  const members: ZipMember[] = [];
  for (const entry of wanted) {
    const bytes = readMember(file, entry);
    if (!bytes.ok) return bytes;
    members.push({ name: entry.name, bytes: bytes.value });
  }
  return ok(members);
}

/** One member as described by the directory. */
interface Entry {
  readonly name: string;
  readonly deflated: boolean;
  readonly crc: number;
  /** Bytes in the archive, packed. */
  readonly packed: number;
  /** Bytes after unpacking. */
  readonly size: number;
  /** Offset of its local header. */
  readonly at: number;
}

const viewOf = (bytes: Uint8Array) =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

function readDirectory(file: Uint8Array): Result<readonly Entry[]> {
  const view = viewOf(file);
  const end = findEnd(view);
  if (end === undefined) return refuse('zip/truncated', 'directory', 'not a complete zip archive');
  const count = view.getUint16(end + 10, true);
  let at = view.getUint32(end + 16, true);
  const names = new Set<string>();
  const entries: Entry[] = [];
  for (let i = 0; i < count; i++) {
    const entry = readEntry(file, at, end);
    if (!entry.ok) return entry;
    if (names.has(entry.value.name)) {
      return refuse('zip/name', entry.value.name, 'the archive has two members of this name');
    }
    names.add(entry.value.name);
    entries.push(entry.value);
    const lengths = [28, 30, 32].map((field) => view.getUint16(at + field, true));
    at += ENTRY_BYTES + lengths.reduce((sum, length) => sum + length, 0);
  }
  return ok(entries);
}

/** Returns the offset of the end record, which only a comment of at most 65,535 bytes may follow. */
function findEnd(view: DataView): number | undefined {
  const last = view.byteLength - END_BYTES;
  for (let at = last; at >= Math.max(0, last - 0xffff); at--) {
    if (view.getUint32(at, true) === END) return at;
  }
  return undefined;
}

function readEntry(file: Uint8Array, at: number, end: number): Result<Entry> {
  const view = viewOf(file);
  const where = `directory entry at byte ${at}`;
  if (at + ENTRY_BYTES > end || view.getUint32(at, true) !== ENTRY) {
    return refuse('zip/truncated', where, 'is missing');
  }
  const nameEnd = at + ENTRY_BYTES + view.getUint16(at + 28, true);
  const name = nameEnd <= end ? decodeName(file.subarray(at + ENTRY_BYTES, nameEnd)) : undefined;
  if (name === undefined) return refuse('zip/name', where, 'its name is not UTF-8');
  const method = view.getUint16(at + 10, true);
  if ((method !== 0 && method !== 8) || (view.getUint16(at + 8, true) & 1) === 1) {
    return refuse('zip/method', name, `encrypted, or compressed by unsupported method ${method}`);
  }
  const entry: Entry = {
    name,
    deflated: method === 8,
    crc: view.getUint32(at + 16, true),
    packed: view.getUint32(at + 20, true),
    size: view.getUint32(at + 24, true),
    at: view.getUint32(at + 42, true),
  };
  return entry.deflated || entry.packed === entry.size
    ? ok(entry)
    : refuse('zip/size', name, 'an uncompressed member with two different sizes');
}

function readMember(file: Uint8Array, entry: Entry): Result<Uint8Array> {
  const { name, at, packed, size, crc, deflated } = entry;
  const view = viewOf(file);
  if (at + LOCAL_BYTES > file.length || view.getUint32(at, true) !== LOCAL) {
    return refuse('zip/truncated', name, `has no header at byte ${at}`);
  }
  const from = at + LOCAL_BYTES + view.getUint16(at + 26, true) + view.getUint16(at + 28, true);
  if (from + packed > file.length)
    return refuse('zip/truncated', name, 'extends past the end of the file');
  const raw = file.subarray(from, from + packed);
  const bytes = deflated ? inflate(raw, size) : raw;
  return bytes?.length === size && crc32(bytes) === crc
    ? ok(bytes)
    : refuse('zip/damaged', name, 'its bytes do not match their checksum');
}

function inflate(raw: Uint8Array, size: number): Uint8Array | undefined {
  try {
    return inflateSync(raw, { out: new Uint8Array(size) });
  } catch {
    return undefined;
  }
}

function decodeName(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
