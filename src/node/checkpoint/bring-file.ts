/**
 * Brings a file that is known by its hash into the data folder, from wherever its chunks are: what training needs
 * and this machine lacks. What came of it stays for the next time, it is bounded before anything is asked for, and
 * it gets its name only when it has its hashes.
 */

import { mkdir, readFile, rename, rm, stat, statfs } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { systemClock } from '../../base/async.ts';
import { toHex, utf8 } from '../../base/bytes.ts';
import { CheckpointError, ConfigError } from '../../base/errors.ts';
import type { FetchEvent } from '../../network/chunks/fetch.ts';
import { type FileManifest, manifestDigest, manifestText } from '../../network/chunks/manifest.ts';
import type { ChunkedFile } from '../../run/chunked-files.ts';
import type { Digest } from '../../run/ids.ts';
import { hashFile, writeAtomically } from '../files/atomic-file.ts';
import { takeKeyLock } from '../files/run-folder.ts';
import { nativeSha256 } from '../native/sha256.ts';
import type { Connection } from '../net/relays.ts';
import { fetchFolder } from './fetch-folder.ts';
import { orBadManifest } from './folder.ts';
import { type NamedSource, openFile } from './sources.ts';
import { unpackFolder } from './unpack.ts';

/** What is wanted: at least the digest of its manifest; of a spec also its hashes and length. */
export type FileRequest = Pick<ChunkedFile, 'manifest'> & Partial<ChunkedFile>;

export interface BringOptions {
  readonly sources: readonly NamedSource[];
  /** The folder for the file. */
  readonly folder: string;
  /** Whether the file is called by its SHA-256, and not by the name that is wanted. */
  readonly isByHash: boolean;
  /** Longer files are refused before anything is asked for. */
  readonly mostBytes: number;
  readonly connection: Connection;
  /** Private and loopback addresses may be asked whoever named them. */
  readonly allowPrivate: boolean;
  /** Home of locks: two workers of this machine do not bring one file twice. */
  readonly home: string;
  readonly signal: AbortSignal;
  onNotice(message: string): void;
  report(event: FetchEvent): void;
}

/** Bytes that may come for every byte of the file, and beside them. */
const EXCESS = 2;
const LEAST_CAP = 2 ** 26;
/** Left free on the disk. */
const SPARE_BYTES = 2 ** 26;
const RETRY_MS = 1000;

/** The path of the file, once it is there. Throws a CheckpointError or a ConfigError that says what is missing. */
export async function bringFile(wanted: FileRequest, options: BringOptions): Promise<string> {
  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  for (let isTold = false; ; isTold = true) {
    const known = await knownManifest(wanted, options);
    const there = known && (await isThere(known, wanted, options));
    if (there) return there;
    const lock = await takeKeyLock(options.home, 'files', wanted.manifest).catch(whileBusy);
    if (lock === undefined) {
      if (!isTold) options.onNotice('another process of this machine brings that file');
      await systemClock.sleep(RETRY_MS, options.signal);
      continue;
    }
    try {
      return await bring(wanted, known, options);
    } finally {
      await lock.release();
    }
  }
}

function whileBusy(error: unknown): undefined {
  if (error instanceof ConfigError && error.code === 'run/busy') return undefined;
  throw error;
}

const manifestFile = ({ manifest }: FileRequest, { folder }: BringOptions): string =>
  join(folder, `${manifest}.json`);

/** The manifest that an earlier call kept, where it is still the one that is wanted. */
async function knownManifest(
  wanted: FileRequest,
  options: BringOptions,
): Promise<FileManifest | undefined> {
  const text = await readFile(manifestFile(wanted, options)).catch(() => undefined);
  if (text === undefined || toHex(nativeSha256(text)) !== wanted.manifest) return undefined;
  return orBadManifest(manifestFile(wanted, options), text.toString());
}

/** Where the file goes. */
function pathOf(
  { sha256 }: FileManifest,
  { name = 'file' }: FileRequest,
  options: BringOptions,
): string {
  const end = extname(name).slice(0, 16);
  const called = options.isByHash ? `${sha256}${/^\.\w+$/.test(end) ? end : ''}` : name;
  return join(options.folder, called);
}

async function isThere(
  manifest: FileManifest,
  wanted: FileRequest,
  options: BringOptions,
): Promise<string | undefined> {
  const path = pathOf(manifest, wanted, options);
  const found = await stat(path).catch(() => undefined);
  if (found?.size !== manifest.bytes) return undefined;
  if ((await hashFile(path, options)) === manifest.sha256) return path;
  options.onNotice(`${path} is not what it was any more, so it is fetched again`);
  return undefined;
}

async function bring(
  wanted: FileRequest,
  known: FileManifest | undefined,
  options: BringOptions,
): Promise<string> {
  const { signal, folder, report } = options;
  if (wanted.bytes !== undefined) assertSmall(wanted.bytes, options);
  const chunks = join(folder, `${wanted.manifest.slice(0, 32)}.chunks`);
  const { manifest, sources, close } = await openFile(
    known ?? wanted.manifest,
    options.sources,
    options,
  );
  try {
    assertSame(manifest, wanted);
    assertSmall(manifest.bytes, options);
    await assertFreeSpace(manifest.bytes, folder);
    await writeAtomically(manifestFile(wanted, options), utf8(manifestText(manifest)));
    const mostBytes = Math.max(LEAST_CAP, EXCESS * manifest.bytes);
    await fetchFolder(manifest, chunks, { sources, signal, mostBytes, report });
  } finally {
    await close();
  }
  const path = pathOf(manifest, wanted, options);
  const made = join(folder, `.${wanted.manifest.slice(0, 32)}.made`);
  await unpackFolder(chunks, manifest, made, { signal });
  await rename(made, path);
  await rm(chunks, { recursive: true, force: true });
  return path;
}

/** The manifest has the digest that was named; what it says has to be what was said beside. */
function assertSame(manifest: FileManifest, wanted: FileRequest): void {
  const { name = 'the file', bytes, sha256, blake3 } = wanted;
  const isSame =
    (bytes ?? manifest.bytes) === manifest.bytes &&
    (sha256 ?? manifest.sha256) === manifest.sha256 &&
    (blake3 ?? manifest.blake3) === manifest.blake3;
  if (isSame) return;
  const digest: Digest = manifestDigest(manifest, nativeSha256);
  throw new CheckpointError('checkpoint/other', `manifest ${digest} is not of ${name}`, {
    hint: 'whoever made the run said something false: ask for a new one, or name the file itself',
  });
}

function assertSmall(bytes: number, { mostBytes }: BringOptions): void {
  if (bytes <= mostBytes) return;
  throw new ConfigError(
    'checkpoint/too-large',
    `a file of ${bytes} bytes is to be fetched; without leave at most ${mostBytes} are`,
    { hint: `say --most-download ${bytes}, or name the file where you have it` },
  );
}

/** Its chunks and the file made of them are there at once for a moment. */
async function assertFreeSpace(bytes: number, folder: string): Promise<void> {
  const disk = await statfs(folder).catch(() => undefined);
  const free = disk === undefined ? Number.POSITIVE_INFINITY : disk.bavail * disk.bsize;
  const needed = EXCESS * bytes + SPARE_BYTES;
  if (free >= needed) return;
  throw new CheckpointError(
    'checkpoint/disk',
    `${needed} bytes are needed in ${folder}, and ${free} are free`,
    { hint: 'free disk space, or name another data folder with NOSTRAIN_HOME' },
  );
}
