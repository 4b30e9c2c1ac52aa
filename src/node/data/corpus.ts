/**
 * Which text a run trains on: the file or address a person named, else tiny Shakespeare (kept in a cache, downloaded once and checked by its
 * hash), else the built-in play. Every answer says which one it is.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { concatBytes } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import { writePlay } from '../../model/data/playwright.ts';
import { type CorpusFile, fetchCorpus, hashFile, isAddress, readInPieces } from './corpus-file.ts';
import type { CorpusSource } from './tokens/tokenize.ts';

/** A text on this machine that is read in pieces. */
export interface OpenCorpus extends CorpusSource {
  readonly source: 'file' | 'cache' | 'download' | 'built-in';
}

/** A text to train on, as `loadCorpus` gives it. */
export interface Corpus {
  /** What to call it in front of a person. */
  readonly name: string;
  readonly bytes: Uint8Array;
  /** Lowercase hex over `bytes`; workers of one run must print the same. */
  readonly sha256: string;
  readonly source: OpenCorpus['source'];
}

export interface CorpusOptions {
  /** A text file, or the address of one; nothing else is tried when it is given. */
  readonly file?: string | undefined;
  /** The only text that will do, by its SHA-256. */
  readonly wanted?: string | undefined;
  /** Where others have that text, for whoever lacks it. */
  readonly from?: string | undefined;
  /** A named file has at least so many bytes; as a text needs, if nobody says. */
  readonly leastBytes?: number | undefined;
  /** Where a download is kept. */
  readonly cacheDir: string;
  readonly allowDownload: boolean;
  /** Told what happened, one sentence at a time. */
  readonly onNotice: (message: string) => void;
  readonly signal?: AbortSignal | undefined;
  /** What to download instead of tiny Shakespeare. */
  readonly download?: Download;
  /** What reaches the internet; tests put their own here. */
  readonly fetch?: (url: string, init: { signal: AbortSignal }) => Promise<Response>;
}

/** A text known by its content. */
export interface Download {
  readonly name: string;
  /** What it is called in the cache. */
  readonly file: string;
  readonly url: string;
  readonly sha256: string;
}

/** The classic small text of character models. */
export const tinyShakespeare: Download = {
  name: 'tiny Shakespeare',
  file: 'tinyshakespeare.txt',
  url: 'https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt',
  sha256: '86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed',
};

const MIN_FILE_BYTES = 1024;
const MAX_DOWNLOAD_BYTES = 2 * 1024 * 1024;
const DOWNLOAD_TIMEOUT_MS = 5000;

/** Throws a ConfigError about a named or a wrong text, and `signal.reason` when stopped; else falls to the next source. */
export async function openCorpus(options: CorpusOptions): Promise<OpenCorpus> {
  const { file, wanted, download = tinyShakespeare } = options;
  if (file !== undefined) return assertWanted(await openNamed(file, options), options);
  const isOfUse = wanted === undefined || wanted === download.sha256;
  const corpus = (isOfUse && (await loadKnown(download, options))) || loadBuiltIn(options);
  const { bytes, ...named } = corpus;
  return { ...named, size: bytes.length, read: () => inOnePiece(bytes) };
}

/** The same, all of it in memory. */
export async function loadCorpus(options: CorpusOptions): Promise<Corpus> {
  const { name, sha256, source, read } = await openCorpus(options);
  const parts: Uint8Array[] = [];
  for await (const part of read()) parts.push(part);
  return { name, bytes: concatBytes(...parts), sha256, source };
}

async function* inOnePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** The text that is known by its content, from the cache or the internet. */
async function loadKnown(download: Download, options: CorpusOptions): Promise<Corpus | undefined> {
  const { cacheDir, allowDownload, onNotice, signal } = options;
  const { name, sha256 } = download;
  const path = join(cacheDir, download.file);
  const cached = await readCached(path, download, onNotice);
  if (cached) return { name, bytes: cached, sha256, source: 'cache' };
  if (!allowDownload) return undefined;
  try {
    const bytes = await fetchText(download, options);
    await keep(path, bytes, onNotice);
    return { name, bytes, sha256, source: 'download' };
  } catch (error) {
    signal?.throwIfAborted();
    onNotice(`${name} could not be downloaded (${reasonOf(error)})`);
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
          ? 'name that text with --corpus FILE; whoever made the run has it'
          : `whoever made the run says where it is: --corpus ${from}`,
    },
  );
}

/** A file of this machine, or one that is brought here first. */
async function openNamed(named: string, options: CorpusOptions): Promise<OpenCorpus> {
  const { signal, leastBytes = MIN_FILE_BYTES } = options;
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
    const found = size === 0 ? 'is empty' : `has only ${size} bytes`;
    throw unusable('corpus/too-small', `${named} ${found}`);
  }
  const hashed = file.sha256 === undefined ? hashFile(path, { signal }) : file.sha256;
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
  onNotice(`${path} does not hold ${name} any more, so it is not used`);
  return undefined;
}

/** Never holds more than the cap, never waits longer than the timeout. */
async function fetchText(
  { url, sha256 }: Download,
  { fetch = globalThis.fetch, signal }: CorpusOptions,
): Promise<Uint8Array> {
  const timeout = AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS);
  const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
  const response = await fetch(url, { signal: either });
  if (!response.ok || !response.body) throw new Error(`answer ${response.status}`);
  const parts: Uint8Array[] = [];
  let length = 0;
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    length += part.value.length;
    if (length > MAX_DOWNLOAD_BYTES) {
      await reader.cancel();
      throw new Error(`more than ${MAX_DOWNLOAD_BYTES} bytes`);
    }
    parts.push(part.value);
  }
  const bytes = concatBytes(...parts);
  if (sha256Hex(bytes) !== sha256) throw new Error('other bytes than expected');
  return bytes;
}

/** Written aside and renamed, so that a reader sees all of it or nothing. */
async function keep(
  path: string,
  bytes: Uint8Array,
  onNotice: (message: string) => void,
): Promise<void> {
  const aside = `${path}.${randomUUID()}`;
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(aside, bytes);
    await rename(aside, path);
  } catch (error) {
    await rm(aside, { force: true }).catch(() => undefined);
    onNotice(`the download could not be kept in ${path} (${codeOf(error)})`);
  }
}

/** `ENOENT` and the like, else the message. */
function codeOf(error: unknown): string {
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') {
    return error.code;
  }
  return error instanceof Error ? error.message : String(error);
}

/** What `fetch` hides: it wraps the real reason as a cause. */
const reasonOf = (error: unknown): string =>
  codeOf(error instanceof Error && error.cause instanceof Error ? error.cause : error);
