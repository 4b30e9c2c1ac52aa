/** Opens a corpus: a file, a download that a hash may pin, tiny Shakespeare, or a built-in play. */

import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, extname, join } from 'node:path';
import { concatBytes } from '../../base/bytes.ts';
import { ConfigError, causeOf, safeLine, wordsOf } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import { createSlowReporter } from '../../base/slow.ts';
import { writePlay } from '../../model/data/playwright.ts';
import { resumeDownload } from '../../network/chunks/resume-download.ts';
import { readUpTo } from '../../network/chunks/source.ts';
import { hashFile, readInPieces, writeAtomically } from '../files/atomic-file.ts';
import { filePart } from '../pretrained/hub.ts';
import type { CorpusSource } from './tokenize.ts';

/** Training data that is never written to a file; the end of its name tells the format. */
export interface MemoryData {
  readonly name: string;
  readonly bytes: Uint8Array;
}

export interface CorpusFile {
  readonly path: string;
  /** Name in messages; its extension tells the format. */
  readonly name: string;
  readonly source: 'file' | 'cache' | 'download';
  /** Set if it has just been computed. */
  readonly sha256?: string;
}

/** Maximum bytes of a download (64 GiB), so that an endless response does not fill the disk. */
const MOST_BYTES = 2 ** 36;
const PINNED = /^sha256=([0-9a-f]{64})$/;
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

const isAddress = (named: string): boolean => /^https?:\/\//i.test(named);

/**
 * Returns the file at an address, from the cache or downloaded. `#sha256=<hex>` pins its content, and a pinned download
 * can resume. Throws a ConfigError (`corpus/address`, `corpus/away`, `corpus/other`).
 */
async function fetchCorpus(named: string, options: FetchOptions): Promise<CorpusFile> {
  const { cacheDir, onNotice, signal } = options;
  const { url, pin } = readAddress(named, options.wanted);
  const end = extname(url.pathname).slice(0, 16);
  const key = pin ?? `address-${createHash('sha256').update(url.href).digest('hex')}`;
  const path = join(cacheDir, `${key}${/^\.\w+$/.test(end) ? end : ''}`);
  const name = url.href;
  if (await stat(path).catch(() => undefined)) {
    const sha256 = await hashFile(path, { signal, onNotice });
    if (pin === undefined || sha256 === pin) return { path, name, source: 'cache', sha256 };
    onNotice(`${path} was changed, so ${name} is downloaded again`);
  }
  await mkdir(cacheDir, { recursive: true });
  const part = `${path}.part`;
  // without a hash, the file may have changed since the interrupted download
  if (pin === undefined) await rm(part, { force: true });
  await download(url, part, options);
  const sha256 = await hashFile(part, { signal, onNotice });
  if (pin !== undefined && sha256 !== pin) {
    await rm(part, { force: true });
    throw new ConfigError('corpus/other', `${name} has SHA-256 ${sha256}, not ${pin}`, {
      hint: 'the file at the address may have changed: ask for its current hash',
    });
  }
  await rename(part, path);
  if (pin === undefined)
    onNotice(
      `${basename(url.pathname)} has SHA-256 ${sha256}: append #sha256=${sha256} to the ` +
        'address to pin it',
    );
  return { path, name, source: 'download', sha256 };
}

function readAddress(named: string, wanted: string | undefined) {
  const bad = (reason: string) =>
    new ConfigError(
      'corpus/address',
      `${safeLine(named)} is not an address of a corpus: ${reason}`,
      {
        hint:
          'use https://host/path/file.txt (or .jsonl), with #sha256=<64 hex digits> at the end ' +
          'if you know the hash',
      },
    );
  if (!URL.canParse(named)) throw bad('it is not a valid URL');
  const url = new URL(named);
  if (url.protocol !== 'https:' && !LOOPBACK.has(url.hostname)) throw bad('it is not https');
  const fragment = decodeURIComponent(url.hash.slice(1));
  url.hash = '';
  const pinned = PINNED.exec(fragment)?.[1];
  if (fragment !== '' && pinned === undefined) throw bad('the part after # is not a sha256');
  if (pinned !== undefined && wanted !== undefined && pinned !== wanted) {
    throw new ConfigError('corpus/other', `the run trains on the text with SHA-256 ${wanted}`, {
      hint: 'remove #sha256= from the address, or name the text of the run',
    });
  }
  return { url, pin: pinned ?? wanted };
}

async function download(url: URL, part: string, { onNotice, signal }: FetchOptions): Promise<void> {
  const report = createSlowReporter(onNotice);
  const away = (cause: unknown): ConfigError => {
    signal?.throwIfAborted();
    return new ConfigError(
      'corpus/away',
      `${url.href} cannot be downloaded (${safeLine(wordsOf(causeOf(cause)))})`,
      {
        hint:
          'run the same command again: the download of a pinned corpus resumes; or download it ' +
          'yourself and name the file',
        cause,
      },
    );
  };
  await resumeDownload({
    part: filePart(part),
    bytes: undefined,
    most: MOST_BYTES,
    ask: async (headers) => {
      const init = {
        headers: { 'accept-encoding': 'identity', ...headers },
        signal: signal ?? null,
      };
      const answer = await fetch(url, init).catch((cause: unknown) => {
        throw away(cause);
      });
      if (answer.status === 416 || (answer.ok && answer.body)) return answer;
      throw away(new Error(`HTTP ${answer.status}`));
    },
    away,
    onBytes: (have, of) => {
      const share = of === undefined ? '' : ` of ${Math.ceil(of / 2 ** 20)}`;
      report(`downloading ${url.href}: ${Math.floor(have / 2 ** 20)}${share} MB`);
    },
  });
}

/** A corpus on this machine that is read in pieces. */
export interface OpenCorpus extends CorpusSource {
  readonly source: 'file' | 'cache' | 'download' | 'built-in' | 'memory';
}

/** A text to train on, loaded into memory. */
export interface Corpus extends MemoryData {
  /** SHA-256 of `bytes` in lowercase hex; equal for all workers of a run. */
  readonly sha256: string;
  readonly source: OpenCorpus['source'];
}

export interface CorpusOptions {
  /** A text file, its address, or its bytes. If given, no other text is used. */
  readonly file?: string | MemoryData | undefined;
  /** SHA-256 of the text that the run requires. */
  readonly wanted?: string | undefined;
  /** Address of that text, for the hint of an error. */
  readonly from?: string | undefined;
  /** Minimum length of a named file in bytes; by default what a text needs. */
  readonly leastBytes?: number | undefined;
  readonly cacheDir: string;
  readonly allowDownload: boolean;
  readonly onNotice: (message: string) => void;
  readonly signal?: AbortSignal | undefined;
  /** Replaces tiny Shakespeare, for tests. */
  readonly download?: Download;
  /** Replaces `fetch`, for tests. */
  readonly fetch?: (url: string, init: { signal: AbortSignal }) => Promise<Response>;
}

type FetchOptions = Pick<CorpusOptions, 'wanted' | 'cacheDir' | 'onNotice' | 'signal'>;

/** A download with a known hash. */
export interface Download {
  readonly name: string;
  readonly file: string;
  readonly url: string;
  readonly sha256: string;
}

export const tinyShakespeare: Download = {
  name: 'tiny Shakespeare',
  file: 'tinyshakespeare.txt',
  url: 'https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt',
  sha256: '86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed',
};

/** Default for `leastBytes`. */
const MIN_FILE_BYTES = 1024;
/** Maximum bytes of a text downloaded without being named. */
const MAX_DOWNLOAD_BYTES = 2 * 1024 * 1024;
/** Time limit of that download, in milliseconds. */
const DOWNLOAD_TIMEOUT_MS = 5000;

/** Opens a corpus. Throws a ConfigError (`corpus/…`) if it is unusable or not that of the run, or `signal.reason`. */
export async function openCorpus(options: CorpusOptions): Promise<OpenCorpus> {
  const { file, wanted, download = tinyShakespeare } = options;
  if (typeof file === 'object') {
    const { name, bytes } = file;
    const { length: size } = bytes;
    const read = () => inOnePiece(bytes);
    return { name, sha256: sha256Hex(bytes), size, source: 'memory', read };
  }
  if (file !== undefined) return assertWanted(await openNamed(file, options), options);
  const isOfUse = wanted === undefined || wanted === download.sha256;
  const corpus = (isOfUse && (await loadKnown(download, options))) || loadBuiltIn(options);
  const { bytes, ...named } = corpus;
  return { ...named, size: bytes.length, read: () => inOnePiece(bytes) };
}

/** Opens a corpus and loads it into memory. Throws as `openCorpus` does. */
export async function loadCorpus(options: CorpusOptions): Promise<Corpus> {
  const { name, sha256, source, read } = await openCorpus(options);
  const parts: Uint8Array[] = [];
  for await (const part of read()) parts.push(part);
  return { name, bytes: concatBytes(...parts), sha256, source };
}

async function* inOnePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

async function loadKnown(download: Download, options: CorpusOptions): Promise<Corpus | undefined> {
  const { cacheDir, allowDownload, onNotice, signal } = options;
  const { name, sha256 } = download;
  const path = join(cacheDir, download.file);
  const cached = await readCached(path, download, onNotice);
  if (cached) return { name, bytes: cached, sha256, source: 'cache' };
  if (!allowDownload) return undefined;
  try {
    const bytes = await fetchText(download, options);
    await storeInCache(path, bytes, onNotice);
    return { name, bytes, sha256, source: 'download' };
  } catch (error) {
    signal?.throwIfAborted();
    onNotice(`${name} could not be downloaded (${codeOf(causeOf(error))})`);
    return undefined;
  }
}

function loadBuiltIn(options: CorpusOptions): Corpus {
  const bytes = writePlay();
  const text: Corpus = {
    name: 'built-in play',
    bytes,
    sha256: sha256Hex(bytes),
    source: 'built-in',
  };
  assertWanted(text, options);
  options.onNotice('training on the built-in play; name another text with --corpus FILE');
  return text;
}

function assertWanted<C extends Pick<Corpus, 'name' | 'sha256'>>(
  corpus: C,
  { wanted, from = '' }: Pick<CorpusOptions, 'wanted' | 'from'>,
): C {
  if (wanted === undefined || corpus.sha256 === wanted) return corpus;
  throw new ConfigError(
    'corpus/other',
    `${corpus.name} has SHA-256 ${corpus.sha256}; the run trains on the text with ${wanted}`,
    {
      hint:
        from === ''
          ? 'name that text with --corpus FILE; the creator of the run has it'
          : `the run spec says where it is: --corpus ${from}`,
    },
  );
}

/** Opens a named corpus: a local file, or an address that is downloaded first. */
async function openNamed(named: string, options: CorpusOptions): Promise<OpenCorpus> {
  const { signal, onNotice, leastBytes = MIN_FILE_BYTES } = options;
  const file: CorpusFile = isAddress(named)
    ? await fetchCorpus(named, options)
    : { path: named, name: named, source: 'file' };
  const { name, path, source } = file;
  const unreadable = (cause: unknown) => {
    signal?.throwIfAborted();
    return unusable('corpus/unreadable', `${named} cannot be read (${codeOf(cause)})`, cause);
  };
  const { size } = await stat(path).catch((cause: unknown) => {
    throw unreadable(cause);
  });
  if (size < leastBytes) {
    const shortage = size === 0 ? 'is empty' : `has only ${size} bytes`;
    throw unusable('corpus/too-small', `${named} ${shortage}`);
  }
  const hashed = file.sha256 === undefined ? hashFile(path, { signal, onNotice }) : file.sha256;
  const sha256 = await Promise.resolve(hashed).catch((cause: unknown) => {
    throw unreadable(cause);
  });
  return { name, sha256, size, source, read: () => readInPieces(path) };
}

const unusable = (code: string, what: string, cause?: unknown): ConfigError =>
  new ConfigError(code, `corpus ${what}`, {
    hint: `name a readable text of at least ${MIN_FILE_BYTES} bytes, or leave --corpus out`,
    cause,
  });

async function readCached(
  path: string,
  { name, sha256 }: Download,
  onNotice: (message: string) => void,
): Promise<Uint8Array | undefined> {
  const buffer = await readFile(path).catch(() => undefined);
  if (!buffer) return undefined;
  const bytes = new Uint8Array(buffer);
  if (sha256Hex(bytes) === sha256) return bytes;
  onNotice(`${path} was changed, so it is not used as ${name}`);
  return undefined;
}

/** Downloads a text. Throws if it is too long, takes too long or has another hash. */
async function fetchText(
  { url, sha256 }: Download,
  { fetch = globalThis.fetch, signal }: CorpusOptions,
): Promise<Uint8Array> {
  const timeout = AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS);
  const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
  const response = await fetch(url, { signal: either });
  if (!response.ok || !response.body) throw new Error(`HTTP ${response.status}`);
  const body = response.body as unknown as AsyncIterable<Uint8Array>;
  const bytes = await readUpTo(body, MAX_DOWNLOAD_BYTES);
  if (bytes === undefined) throw new Error(`more than ${MAX_DOWNLOAD_BYTES} bytes`);
  if (sha256Hex(bytes) !== sha256) throw new Error('other bytes than expected');
  return bytes;
}

/** Stores a download in the cache. If that fails, only reports it. */
async function storeInCache(
  path: string,
  bytes: Uint8Array,
  onNotice: (message: string) => void,
): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true });
    // other workers of this machine may be storing it too
    const aside = `${path}.${randomUUID()}`;
    await writeAtomically(aside, bytes);
    await rename(aside, path);
  } catch (error) {
    onNotice(`the download could not be stored in ${path} (${codeOf(causeOf(error))})`);
  }
}

function codeOf(error: unknown): string {
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') {
    return error.code;
  }
  return wordsOf(error);
}
