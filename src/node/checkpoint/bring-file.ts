/**
 * Downloads a file named by its hash, such as a text or a base model, into the data folder. Its size is checked before
 * the download, chunks are kept if it is interrupted, and the file gets its name only once its hashes are verified.
 */
import { mkdir, readFile, rename, rm, stat, statfs } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { systemClock } from '../../base/async.ts';
import { toHex, utf8 } from '../../base/bytes.ts';
import { CheckpointError, ConfigError } from '../../base/errors.ts';
import type { FetchEvent } from '../../network/chunks/fetch-options.ts';
import { orBadManifest } from '../../network/chunks/find-manifest.ts';
import { type FileManifest, manifestDigest, manifestText } from '../../network/chunks/manifest.ts';
import type { ChunkedFile } from '../../run/chunked-files.ts';
import type { Digest } from '../../run/ids.ts';
import { hashFile, writeAtomically } from '../files/atomic-file.ts';
import { takeKeyLock } from '../files/run-folder.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { fetchFolder } from './fetch-folder.ts';
import { type NamedSource, openFile, type SourcesOptions } from './sources.ts';
import { unpackFolder } from './unpack.ts';

/** The requested file: the digest of its manifest, and in a spec also its hashes and length. */
export type FileRequest = Pick<ChunkedFile, 'manifest'> & Partial<ChunkedFile>;

export interface BringOptions extends Required<SourcesOptions> {
  readonly sources: readonly NamedSource[];
  /** Folder that the file is stored in. */
  readonly folder: string;
  /** Names the file by its SHA-256, and not by the requested name. */
  readonly isByHash: boolean;
  /** Maximum length of the file; longer ones are refused before the download. */
  readonly mostBytes: number;
  /** Folder of lock files, so that two workers of this machine do not download one file twice. */
  readonly home: string;
  onNotice(message: string): void;
  report(event: FetchEvent): void;
}

/** Maximum bytes downloaded per byte of the file. On disk too: its chunks and the file exist at once for a moment. */
const EXCESS = 2;
/** The download limit is at least this many bytes, so that short files can be retried. */
const LEAST_CAP = 2 ** 26;
/** Bytes that stay free on the disk. */
const SPARE_BYTES = 2 ** 26;
/** Milliseconds between two attempts to take a lock. */
const RETRY_MS = 1000;

/** Downloads the file if needed and returns its path. Throws a CheckpointError or a ConfigError with the reason. */
export async function bringFile(wanted: FileRequest, options: BringOptions): Promise<string> {
  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  for (let isReported = false; ; isReported = true) {
    const known = await knownManifest(wanted, options);
    const there = known && (await isThere(known, wanted, options));
    if (there) return there;
    const lock = await takeKeyLock(options.home, 'files', wanted.manifest).catch(whileBusy);
    if (lock === undefined) {
      if (!isReported) options.onNotice('another process of this machine is downloading this file');
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

/** Returns the manifest that an earlier call stored, if it is the requested one. */
async function knownManifest(
  wanted: FileRequest,
  options: BringOptions,
): Promise<FileManifest | undefined> {
  const text = await readFile(manifestFile(wanted, options)).catch(() => undefined);
  if (text === undefined || toHex(nativeSha256(text)) !== wanted.manifest) return undefined;
  return orBadManifest(manifestFile(wanted, options), text.toString());
}

/** Returns the final path of the file. */
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
  const stats = await stat(path).catch(() => undefined);
  if (stats?.size !== manifest.bytes) return undefined;
  if ((await hashFile(path, options)) === manifest.sha256) return path;
  options.onNotice(`${path} was changed and is downloaded again`);
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
    await assertDiskSpace(manifest.bytes, folder);
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

/** Throws a CheckpointError (`checkpoint/other`) if the manifest contradicts the requested hashes or length. */
function assertSame(manifest: FileManifest, wanted: FileRequest): void {
  const { name = 'the file', bytes, sha256, blake3 } = wanted;
  const isSame =
    (bytes ?? manifest.bytes) === manifest.bytes &&
    (sha256 ?? manifest.sha256) === manifest.sha256 &&
    (blake3 ?? manifest.blake3) === manifest.blake3;
  if (isSame) return;
  const digest: Digest = manifestDigest(manifest, nativeSha256);
  throw new CheckpointError('checkpoint/other', `manifest ${digest} is not of ${name}`, {
    hint: 'the run spec is wrong: ask its creator for a new run, or name the file itself',
  });
}

function assertSmall(bytes: number, { mostBytes }: BringOptions): void {
  if (bytes <= mostBytes) return;
  throw new ConfigError(
    'checkpoint/too-large',
    `the file has ${bytes} bytes, and the download limit is ${mostBytes}`,
    { hint: `use --most-download ${bytes}, or name the file if you have it` },
  );
}

/** Throws a CheckpointError (`checkpoint/disk`) if the disk has too little space for the chunks and the file. */
async function assertDiskSpace(bytes: number, folder: string): Promise<void> {
  const disk = await statfs(folder).catch(() => undefined);
  const free = disk === undefined ? Number.POSITIVE_INFINITY : disk.bavail * disk.bsize;
  const needed = EXCESS * bytes + SPARE_BYTES;
  if (free >= needed) return;
  throw new CheckpointError(
    'checkpoint/disk',
    `${folder} needs ${needed} bytes, and ${free} are free`,
    { hint: 'free disk space, or name another data folder with NOSTRAIN_HOME' },
  );
}
