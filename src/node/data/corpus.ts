/** Corpora: files, downloads that a hash may pin, tiny Shakespeare, or a built-in play; each says which it is. */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, extname, join } from 'node:path';
import { concatBytes } from '../../base/bytes.ts';
import { ConfigError, safeLine } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import { writePlay } from '../../model/data/playwright.ts';
import { hashFile, readInPieces } from '../files/atomic-file.ts';
import { resumeDownload } from '../pretrained/hub.ts';
import type { CorpusSource } from './tokenize.ts';

export interface CorpusFile {
  readonly path: string;
  /** What to call it in front of a person; its end says what is in it. */
  readonly name: string;
  readonly source: 'file' | 'cache' | 'download';
  /** Where it has just been computed. */
  readonly sha256?: string;
}

/** 64 GiB: an address that goes on and on does not fill any disk. */
const MOST_BYTES = 2 ** 36;
/** Before this nothing is said of progress, and then as often. */
const PATIENCE_MS = 2000;
const PINNED = /^sha256=([0-9a-f]{64})$/;
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

const isAddress = (named: string): boolean => /^https?:\/\//i.test(named);

/**
 * The file at an address, from the cache or the internet. `#sha256=<hex>` pins its content, and a pinned download
 * resumes. Throws a ConfigError (`corpus/address`, `corpus/away`, `corpus/other`).
 */
async function fetchCorpus(named: string, options: FetchOptions): Promise<CorpusFile> {
  const { cacheDir, onNotice, signal } = options;
  const { url, pin } = readAddress(named, options.wanted);
  const end = extname(url.pathname).slice(0, 16);
  const key = pin ?? `address-${createHash('sha256').update(url.href).digest('hex')}`;
  const path = join(cacheDir, `${key}${/^\.\w+$/.test(end) ? end : ''}`);
  const name = url.href;
  if (await stat(path).catch(() => undefined)) {
    const sha256 = await hashFile(path, { signal });
    if (pin === undefined || sha256 === pin) return { path, name, source: 'cache', sha256 };
    onNotice(`${path} does not hold ${name} any more, so it is downloaded again`);
  }
  await mkdir(cacheDir, { recursive: true });
  const part = `${path}.part`;
  // what is not pinned may have changed between two downloads
  if (pin === undefined) await rm(part, { force: true });
  await download(url, part, options);
  const sha256 = await hashFile(part, { signal });
  if (pin !== undefined && sha256 !== pin) {
    await rm(part, { force: true });
    throw new ConfigError('corpus/other', `${name} has SHA-256 ${sha256}, not ${pin}`, {
      hint: 'ask whoever gave you the hash; what is at the address may have changed',
    });
  }
  await rename(part, path);
  if (pin === undefined)
    onNotice(
      `${basename(url.pathname)} has SHA-256 ${sha256}: #sha256=${sha256} behind the ` +
        'address pins it',
    );
  return { path, name, source: 'download', sha256 };
}

function readAddress(named: string, wanted: string | undefined) {
  const bad = (reason: string) =>
    new ConfigError('corpus/address', `${safeLine(named)} is no address of a corpus: ${reason}`, {
      hint:
        'say https://host/path/file.txt (or .jsonl), with #sha256=<64 hex digits> ' +
        'behind it where you know the hash',
    });
  if (!URL.canParse(named)) throw bad('it cannot be read');
  const url = new URL(named);
  if (url.protocol !== 'https:' && !LOOPBACK.has(url.hostname)) throw bad('it is not https');
  const fragment = decodeURIComponent(url.hash.slice(1));
  url.hash = '';
  const pinned = PINNED.exec(fragment)?.[1];
  if (fragment !== '' && pinned === undefined) throw bad('what follows # is no sha256');
  if (pinned !== undefined && wanted !== undefined && pinned !== wanted) {
    throw new ConfigError('corpus/other', `the run trains on the text with SHA-256 ${wanted}`, {
      hint: 'leave #sha256= out of the address, or name the text of the run',
    });
  }
  return { url, pin: pinned ?? wanted };
}

async function download(url: URL, part: string, { onNotice, signal }: FetchOptions): Promise<void> {
  let told = performance.now();
  const away = (cause: unknown): ConfigError => {
    signal?.throwIfAborted();
    const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
    const reason = inner instanceof Error ? inner.message : String(inner);
    return new ConfigError('corpus/away', `${url.href} cannot be fetched (${safeLine(reason)})`, {
      hint:
        'try again: what has arrived of a pinned corpus is kept; or download it by ' +
        'hand and name the file',
      cause,
    });
  };
  await resumeDownload({
    part,
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
      throw away(new Error(`answer ${answer.status}`));
    },
    away,
    onBytes: (have, of) => {
      if (performance.now() - told < PATIENCE_MS) return;
      told = performance.now();
      const share = of === undefined ? '' : ` of ${Math.ceil(of / 2 ** 20)}`;
      onNotice(`fetching ${url.href}: ${Math.floor(have / 2 ** 20)}${share} MB`);
    },
  });
}

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
  readonly cacheDir: string;
  readonly allowDownload: boolean;
  readonly onNotice: (message: string) => void;
  readonly signal?: AbortSignal | undefined;
  /** What to download instead of tiny Shakespeare. */
  readonly download?: Download;
  /** What reaches the internet; tests put their own here. */
  readonly fetch?: (url: string, init: { signal: AbortSignal }) => Promise<Response>;
}

type FetchOptions = Pick<CorpusOptions, 'wanted' | 'cacheDir' | 'onNotice' | 'signal'>;

/** A text known by its content. */
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

const MIN_FILE_BYTES = 1024;
const MAX_DOWNLOAD_BYTES = 2 * 1024 * 1024;
const DOWNLOAD_TIMEOUT_MS = 5000;

/** Opens the corpus of these options. Throws a ConfigError about a named or wrong text, and `signal.reason`. */
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
  for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) {
    length += part.length;
    if (length > MAX_DOWNLOAD_BYTES) throw new Error(`more than ${MAX_DOWNLOAD_BYTES} bytes`);
    parts.push(part);
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

function codeOf(error: unknown): string {
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') {
    return error.code;
  }
  return error instanceof Error ? error.message : String(error);
}

/** What `fetch` hides: it wraps the real reason as a cause. */
const reasonOf = (error: unknown): string =>
  codeOf(error instanceof Error && error.cause instanceof Error ? error.cause : error);
