/**
 * Zip archives as NumPy and PyTorch write them (APPNOTE 6.3.10). fflate packs and inflates; the directory is read here,
 * since fflate checks neither CRC-32, encryption nor repeated names, and sizes must be in bounds before anything is
 * allocated.
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

/** Random weights hardly shrink; an archive that claims to grow far more than this on reading is a bomb. */
const MAX_GROWTH = 64;
const FREE_BYTES = 64 * 1024 * 1024;

/** Any moment would do, but the same state must give the same file. */
const WRITTEN = new Date(1980, 0, 1);

/** An archive with the members as they are, in order. */
export const encodeZip = (members: readonly ZipMember[]): Uint8Array =>
  zipSync(Object.fromEntries(members.map(({ name, bytes }) => [name, bytes])), {
    level: 0,
    mtime: WRITTEN,
  });

/** The members in the order of the directory, those that are wanted, or why the archive is refused. */
export function decodeZip(
  file: Uint8Array,
  isWanted: (name: string) => boolean = () => true,
): Result<readonly ZipMember[]> {
  const entries = readDirectory(file);
  if (!entries.ok) return entries;
  const wanted = entries.value.filter(({ name }) => isWanted(name));
  const total = wanted.reduce((sum, { size }) => sum + size, 0);
  if (total > FREE_BYTES + MAX_GROWTH * file.length) {
    return refuse('zip/bomb', 'directory', `${file.length} bytes that claim to hold ${total}`);
  }
  const members: ZipMember[] = [];
  for (const entry of wanted) {
    const bytes = readMember(file, entry);
    if (!bytes.ok) return bytes;
    members.push({ name: entry.name, bytes: bytes.value });
  }
  return ok(members);
}

/** One member as the directory describes it. */
interface Entry {
  readonly name: string;
  readonly deflated: boolean;
  readonly crc: number;
  /** Bytes in the archive. */
  readonly packed: number;
  /** Bytes of the member itself. */
  readonly size: number;
  /** Where its local header is. */
  readonly at: number;
}

const viewOf = (bytes: Uint8Array) =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

function readDirectory(file: Uint8Array): Result<readonly Entry[]> {
  const view = viewOf(file);
  const end = findEnd(view);
  if (end === undefined) return refuse('zip/truncated', 'directory', 'not a whole zip archive');
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

/** The end record is last but for a comment of at most 65535 bytes. */
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
    return refuse('zip/truncated', where, 'is not there');
  }
  const nameEnd = at + ENTRY_BYTES + view.getUint16(at + 28, true);
  const name = nameEnd <= end ? decodeName(file.subarray(at + ENTRY_BYTES, nameEnd)) : undefined;
  if (name === undefined) return refuse('zip/name', where, 'its name is not UTF-8');
  const method = view.getUint16(at + 10, true);
  if ((method !== 0 && method !== 8) || (view.getUint16(at + 8, true) & 1) === 1) {
    return refuse('zip/method', name, `encrypted, or packed by method ${method}`);
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
    : refuse('zip/size', name, 'a stored member with two sizes');
}

function readMember(file: Uint8Array, entry: Entry): Result<Uint8Array> {
  const { name, at, packed, size, crc, deflated } = entry;
  const view = viewOf(file);
  if (at + LOCAL_BYTES > file.length || view.getUint32(at, true) !== LOCAL) {
    return refuse('zip/truncated', name, `has no header at byte ${at}`);
  }
  const from = at + LOCAL_BYTES + view.getUint16(at + 26, true) + view.getUint16(at + 28, true);
  if (from + packed > file.length) return refuse('zip/truncated', name, 'ends after the file does');
  const raw = file.subarray(from, from + packed);
  const bytes = deflated ? inflate(raw, size) : raw;
  return bytes?.length === size && crc32(bytes) === crc
    ? ok(bytes)
    : refuse('zip/damaged', name, 'its bytes are not those that were written');
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
