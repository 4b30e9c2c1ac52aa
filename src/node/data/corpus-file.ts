/** Corpora in files of any size: hashed and read in pieces, and brought from an address where none of this machine is named. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { basename, extname, join } from 'node:path';
import { ConfigError } from '../../base/errors.ts';
import { safeLine } from '../../base/safe-text.ts';
import { resumeDownload } from '../pretrained/download.ts';

export interface CorpusFile {
  readonly path: string;
  /** What to call it in front of a person; its end says what is in it. */
  readonly name: string;
  readonly source: 'file' | 'cache' | 'download';
  /** Where it has just been computed. */
  readonly sha256?: string;
}

export interface FetchCorpus {
  /** The only text that will do, by its SHA-256. */
  readonly wanted?: string | undefined;
  readonly cacheDir: string;
  readonly onNotice: (message: string) => void;
  readonly signal?: AbortSignal | undefined;
}

const PIECE = 2 ** 16;
/** 64 GiB: an address that goes on and on does not fill any disk. */
const MOST_BYTES = 2 ** 36;
/** Before this nothing is said of progress, and then as often. */
const PATIENCE_MS = 2000;
const PINNED = /^sha256=([0-9a-f]{64})$/;
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

export const isAddress = (named: string): boolean => /^https?:\/\//i.test(named);

export const readInPieces = (path: string): AsyncIterable<Uint8Array> =>
  createReadStream(path, { highWaterMark: PIECE }) as AsyncIterable<Uint8Array>;

/** Lowercase hex. */
export async function hashFile(
  path: string,
  { signal }: { readonly signal?: AbortSignal | undefined } = {},
): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of readInPieces(path)) {
    signal?.throwIfAborted();
    hash.update(piece);
  }
  return hash.digest('hex');
}

/**
 * The file at an address, from the cache or the internet. `#sha256=<hex>` behind the address pins what it holds, as a run spec does; a
 * pinned download goes on where it was broken off. Throws a ConfigError (`corpus/address`, `corpus/away`, `corpus/other`).
 */
export async function fetchCorpus(named: string, options: FetchCorpus): Promise<CorpusFile> {
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
      `${basename(url.pathname)} has SHA-256 ${sha256}: #sha256=${sha256} behind the address pins it`,
    );
  return { path, name, source: 'download', sha256 };
}

function readAddress(named: string, wanted: string | undefined) {
  const bad = (reason: string) =>
    new ConfigError('corpus/address', `${safeLine(named)} is no address of a corpus: ${reason}`, {
      hint: 'say https://host/path/file.txt (or .jsonl), with #sha256=<64 hex digits> behind it where you know the hash',
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

async function download(url: URL, part: string, { onNotice, signal }: FetchCorpus): Promise<void> {
  let told = performance.now();
  const away = (cause: unknown): ConfigError => {
    signal?.throwIfAborted();
    const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
    const reason = inner instanceof Error ? inner.message : String(inner);
    return new ConfigError('corpus/away', `${url.href} cannot be fetched (${safeLine(reason)})`, {
      hint: 'try again: what has arrived of a pinned corpus is kept; or download it by hand and name the file',
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
        ...(signal && { signal }),
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
