/**
 * Downloads a chunked file into a folder. Chunks that are already there are kept, chunks that no source has are
 * restored from parity, and the complete file is verified at the end.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../base/async.ts';
import { toHex, utf8 } from '../../base/bytes.ts';
import { CheckpointError } from '../../base/errors.ts';
import { fetchChunks } from '../../network/chunks/fetch.ts';
import type { ChunkSink, Fetched, FetchOptions } from '../../network/chunks/fetch-options.ts';
import {
  erasureGroups,
  type FileManifest,
  manifestDigest,
  manifestText,
  type Piece,
  piecesOf,
} from '../../network/chunks/manifest.ts';
import type { SourceReport } from '../../network/chunks/source.ts';
import type { Digest } from '../../run/ids.ts';
import { cannotWrite, writeAtomically } from '../files/atomic-file.ts';
import { createNativeSha256, nativeSha256 } from '../native/sha256.ts';
import { inOrder, isFileOf, judge, startChunkWorkers } from './chunk-work.ts';
import { chunkFile, MANIFEST_FILE, readBytes, readManifest } from './folder.ts';
import { mendFolder } from './unpack.ts';

export interface FetchFolderOptions
  extends Pick<
    FetchOptions,
    | 'sources'
    | 'signal'
    | 'report'
    | 'onChunk'
    | 'perSource'
    | 'stallMs'
    | 'patienceMs'
    | 'mostBytes'
  > {
  /** Requests chunks in random order, so that concurrent downloaders request different ones; else in file order. */
  readonly isShuffled?: boolean | undefined;
  readonly threads?: number | undefined;
  /** Downloads only this many bytes from the start of the file. Then each chunk is verified, but not the file. */
  readonly until?: number | undefined;
}

export interface FetchedFolder {
  /** Bytes of chunks that were already in the folder. */
  readonly kept: number;
  /** All bytes downloaded. */
  readonly bytes: number;
  /** Number of chunks restored from parity. */
  readonly restored: number;
  readonly sources: readonly SourceReport[];
}

/** Milliseconds to wait for chunks that no source has, if parity may restore them. */
const SHORT_PATIENCE_MS = 3000;

/**
 * Downloads a file into a folder. Throws a CheckpointError that names the chunks which no source has; downloaded chunks
 * stay for the next call.
 */
export async function fetchFolder(
  manifest: FileManifest,
  folder: string,
  options: FetchFolderOptions,
): Promise<FetchedFolder> {
  await claim(folder, manifest);
  if (options.until !== undefined) return fetchAll(manifest, folder, options);
  const follower = followFile(folder, manifest);
  try {
    return await fetchAll(manifest, folder, options, follower);
  } finally {
    await follower.close();
  }
}

async function fetchAll(
  manifest: FileManifest,
  folder: string,
  options: FetchFolderOptions,
  follower?: FileFollower,
): Promise<FetchedFolder> {
  const all = piecesOf(manifest);
  const index = new Map(all.map((piece, i) => [piece, i]));
  const { until } = options;
  const pieces = until === undefined ? all : all.filter(({ offset = until }) => offset < until);
  const onChunk = (piece: Piece) => {
    follower?.add(piece);
    options.onChunk?.(piece);
  };
  const intact = await findIntactPieces(folder, manifest, pieces, options);
  for (const piece of intact) onChunk(piece);
  const { patienceMs = manifest.erasure === null ? undefined : SHORT_PATIENCE_MS } = options;
  const get = (wanted: readonly Piece[]) =>
    fetchChunks({
      ...options,
      patienceMs,
      onChunk,
      digest: manifestDigest(manifest, nativeSha256),
      wanted: wanted.map((piece) => ({ piece, index: index.get(piece)! })),
      clock: systemClock,
      openSink: (piece) => openSink(folder, piece),
    });
  const wanted = unique(pieces.filter((piece) => piece.offset !== undefined && !intact.has(piece)));
  const first = await get(options.isShuffled === true ? shuffled(wanted) : wanted);
  if (until !== undefined) {
    const parity = all.filter(({ offset }) => offset === undefined);
    assertEnough(manifest, first.missing, parity, intact);
    return { kept: bytesOf(intact), bytes: first.bytes, restored: 0, sources: first.sources };
  }
  const more = await getParity(manifest, intact, first, get);
  if (first.missing.length > 0) {
    assertEnough(manifest, first.missing, more?.missing ?? [], intact);
    await mendFolder(folder, manifest, { signal: options.signal, threads: options.threads });
  }
  if (follower && !(await follower.isThis())) throw wrongFile();
  return {
    kept: bytesOf(intact),
    bytes: first.bytes + (more?.bytes ?? 0),
    restored: first.missing.length,
    sources: more === undefined ? first.sources : joined(first.sources, more.sources),
  };
}

/**
 * Downloads a file and returns its bytes, for a caller that verifies them itself. Downloaded chunks stay in the folder,
 * so they are not requested again. Throws as `fetchFolder` does.
 */
export async function fetchBytes(
  manifest: FileManifest,
  folder: string,
  options: FetchFolderOptions,
): Promise<{ readonly bytes: Uint8Array; readonly reports: readonly SourceReport[] }> {
  await claim(folder, manifest);
  const { sources } = await fetchAll(manifest, folder, options);
  return { bytes: await readBytes(folder, manifest, 0, manifest.bytes), reports: sources };
}

/** Prepares the folder. Throws a CheckpointError (`checkpoint/other-folder`) if it has the manifest of another file. */
async function claim(folder: string, manifest: FileManifest): Promise<void> {
  const text = manifestText(manifest);
  try {
    await mkdir(folder, { recursive: true });
    const names = await readdir(folder);
    for (const name of names.filter((each) => /^\..*\.part$/.test(each)))
      await rm(join(folder, name), { force: true });
    if (names.includes(MANIFEST_FILE)) {
      if (manifestText(await readManifest(folder)) === text) return;
      throw new CheckpointError('checkpoint/other-folder', `${folder} holds another file`, {
        hint: 'name a folder that is empty, or the one where this fetch began',
      });
    }
    await writeAtomically(join(folder, MANIFEST_FILE), utf8(text));
  } catch (cause) {
    throw cause instanceof CheckpointError ? cause : cannotWrite(folder, cause);
  }
}

const bytesOf = (pieces: Iterable<Piece>): number =>
  [...pieces].reduce((sum, { bytes }) => sum + bytes, 0);

/** Returns the chunks that an earlier download left; each one is read and hashed. */
async function findIntactPieces(
  folder: string,
  { bytes }: FileManifest,
  pieces: readonly Piece[],
  { threads, signal }: FetchFolderOptions,
): Promise<ReadonlySet<Piece>> {
  const workers = startChunkWorkers(bytes, threads);
  try {
    const states = await inOrder(pieces, 8, (piece) => {
      signal.throwIfAborted();
      return judge(workers, folder, piece);
    });
    return new Set(pieces.filter((_, i) => states[i] === 'whole'));
  } finally {
    await workers.close();
  }
}

const unique = (pieces: readonly Piece[]): readonly Piece[] => [
  ...new Map(pieces.map((piece) => [piece.sha256, piece])).values(),
];

function shuffled(pieces: readonly Piece[]): readonly Piece[] {
  const draws = crypto.getRandomValues(new Uint32Array(pieces.length));
  const drawn = pieces.map((piece, i) => ({ piece, at: draws[i]! }));
  return drawn.sort((a, b) => a.at - b.at).map(({ piece }) => piece);
}

/** Downloads parity of the groups that lack more data chunks than they have parity chunks. */
async function getParity(
  manifest: FileManifest,
  intact: ReadonlySet<Piece>,
  { missing }: Fetched,
  get: (wanted: readonly Piece[]) => Promise<Fetched>,
): Promise<Fetched | undefined> {
  const lost = new Set(missing.map(({ sha256 }) => sha256));
  const wanted = erasureGroups(manifest).flatMap(({ data, parity }) => {
    const gone = data.filter(({ sha256 }) => lost.has(sha256)).length;
    const present = parity.filter((piece) => intact.has(piece)).length;
    return gone > present ? parity.filter((piece) => !intact.has(piece)) : [];
  });
  return wanted.length === 0 ? undefined : get(unique(wanted));
}

function assertEnough(
  manifest: FileManifest,
  missing: readonly Piece[],
  noParity: readonly Piece[],
  intact: ReadonlySet<Piece>,
): void {
  const lost = new Set([...missing, ...noParity].map(({ sha256 }) => sha256));
  const beyond = erasureGroups(manifest).filter(({ data, parity }) => {
    const gone = data.filter(({ sha256 }) => lost.has(sha256)).length;
    return gone > parity.filter((piece) => intact.has(piece) || !lost.has(piece.sha256)).length;
  });
  if (beyond.length === 0) return;
  const names = beyond.flatMap(({ data }) => data.filter(({ sha256 }) => lost.has(sha256)));
  const some = names.slice(0, 8).map(({ name }) => name);
  const more = names.length > some.length ? ` and ${names.length - some.length} more` : '';
  throw new CheckpointError(
    'checkpoint/nowhere',
    `no source has ${some.join(', ')}${more}, and parity does not restore them`,
    {
      hint: 'name more sources with --from and run the same command again to resume',
      data: { missing: names.length },
    },
  );
}

const wrongFile = (): CheckpointError =>
  new CheckpointError('checkpoint/other', 'the file does not have the hashes of its manifest', {
    hint: 'every chunk was right, so the manifest is inconsistent: get it from another source',
  });

/** Bytes collected before they are written. */
const WRITTEN_BYTES = 2 ** 20;

/** Creates the file of a chunk under a temporary name; `finish` renames it if the hash is right. */
export async function openSink(
  folder: string,
  { sha256 }: Pick<Piece, 'sha256'>,
): Promise<ChunkSink> {
  const part = join(folder, `.${sha256.slice(0, 16)}-${randomUUID()}.part`);
  const orFail = (cause: unknown): never => {
    throw cannotWrite(folder, cause);
  };
  const handle = await open(part, 'wx', 0o600).catch(orFail);
  const hash = createNativeSha256();
  let isOpen = true;
  let waiting: Uint8Array[] = [];
  let bytes = 0;
  const close = async () => {
    if (isOpen) await handle.close();
    isOpen = false;
  };
  const flush = async () => {
    const [parts, length] = [waiting, bytes];
    [waiting, bytes] = [[], 0];
    if (length === 0) return;
    const { bytesWritten } = await handle.writev(parts).catch(orFail);
    if (bytesWritten < length) orFail(new Error('the disk is full'));
  };
  return {
    async write(piece) {
      hash.update(piece);
      waiting.push(piece);
      bytes += piece.length;
      if (bytes >= WRITTEN_BYTES) await flush();
    },
    async finish() {
      const isRight = toHex(hash.digest()) === sha256;
      if (isRight) await flush();
      await close();
      if (isRight) await rename(part, chunkFile(folder, sha256)).catch(orFail);
      return isRight;
    },
    async discard() {
      await close();
      await rm(part, { force: true });
    },
  };
}

function joined(
  one: readonly SourceReport[],
  two: readonly SourceReport[],
): readonly SourceReport[] {
  return two.map((report, i) => ({
    ...report,
    bytes: one[i]!.bytes + report.bytes,
    chunks: one[i]!.chunks + report.chunks,
    corrupt: one[i]!.corrupt + report.corrupt,
    failures: one[i]!.failures + report.failures,
    state: report.state === 'good' ? one[i]!.state : report.state,
    message: report.message || one[i]!.message,
  }));
}

/** Hashes a file while its chunks arrive in any order. */
interface FileFollower {
  /** Adds a chunk that is now in the folder. */
  add(piece: Pick<Piece, 'sha256'>): void;
  /** Reports whether the file is the one of the manifest; false too if a chunk is lost. */
  isThis(): Promise<boolean>;
  close(): Promise<void>;
}

/**
 * Smallest file that is hashed in a thread of its own. For smaller ones, or few chunks that all complete at the end, a
 * thread costs more than it saves.
 */
const WORTH_A_THREAD = { bytes: 2 ** 26, chunks: 32 };

/** Starts to hash a file; each chunk is hashed as soon as all before it are there. */
function followFile(folder: string, manifest: FileManifest): FileFollower {
  const { bytes, chunks } = manifest;
  const isWorthIt = bytes >= WORTH_A_THREAD.bytes && chunks.length >= WORTH_A_THREAD.chunks;
  const workers = startChunkWorkers(bytes, isWorthIt ? 1 : 0);
  const name = randomUUID();
  const there = new Set<Digest>();
  let next = 0;
  let work: Promise<unknown> = Promise.resolve();
  const readNext = () => {
    const file = chunkFile(folder, chunks[next++]!.sha256);
    work = work.then(() => workers.run({ kind: 'whole', name, file }));
    work.catch(() => undefined);
  };
  return {
    add({ sha256 }) {
      there.add(sha256);
      while (next < chunks.length && there.has(chunks[next]!.sha256)) readNext();
    },
    isThis() {
      while (next < chunks.length) readNext();
      return work
        .then(() => workers.run({ kind: 'whole', name, file: undefined }))
        .then(
          ([hashes]) => isFileOf(hashes!, manifest),
          () => false,
        );
    },
    close: () => workers.close(),
  };
}
