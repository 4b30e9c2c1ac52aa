/**
 * Downloads the files of a base model into a browser, in ranges, from the server of the page, the hub, and servers that
 * store files under their hash. No source is trusted: a file counts only with the hash in the spec.
 */
import { anySignal, type Clock } from '../base/async.ts';
import { toHex } from '../base/bytes.ts';
import { NostrainError, RelayError, safeLine, wordsOf } from '../base/errors.ts';
import { createSha256 } from '../base/hash.ts';
import { type PartFile, resumeDownload } from '../network/chunks/resume-download.ts';
import type { RelaySet } from '../network/transport/relay-set.ts';
import { hintProblem, withoutSecrets } from '../network/transport/relay-urls.ts';
import {
  HUB,
  isHubReference,
  MOST_BESIDE,
  parseHubReference,
  pathOnHub,
} from '../pretrained/hub-reference.ts';
import { type ByteSource, sourceOf } from '../pretrained/weights.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';
import type { BaseFile, Start } from '../run/spec/start.ts';
import { type BaseCache, type CachedFile, megabytes, storageFull } from './base-cache.ts';

/** A source of the files of a base. */
export interface BaseSource {
  /** Address without secrets, for messages. */
  readonly name: string;
  /** Returns the address of a file; undefined if this source has none for it. */
  urlOf(file: { readonly name: string; readonly sha256?: string }): string | undefined;
  /** Completes a part of a file in another way than by its address. Throws if it cannot. */
  readonly resume?: (wanted: BaseFile, part: PartFile, options: Bringing) => Promise<void>;
}

/** How a tab downloads the files of a run. */
export interface Reach {
  /** Allows sources in a private network: only if this machine serves the page. */
  readonly allowsPrivate: boolean;
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The connected relays of the run, which may have the chunks of the files. */
  readonly relays: RelaySet;
}

export interface BaseOptions extends Reach {
  readonly cache: BaseCache;
  /** Address of the page, whose server may have the files at `base/<sha256>`. */
  readonly page: string;
  /** Called with the bytes of all files so far. */
  onProgress(have: number, of: number): void;
  onNotice(message: string): void;
}

/** Returns the server of the page, then the sources of whole files that the spec names. */
export function sourcesOf(
  spec: RunSpec & { readonly start: Start },
  options: Pick<BaseOptions, 'page' | 'allowsPrivate'>,
): readonly BaseSource[] {
  const byHash = (base: string): BaseSource => ({
    name: withoutSecrets(base),
    urlOf: ({ sha256: hash }) => (hash === undefined ? undefined : `${base}/${hash}`),
  });
  return [
    byHash(new URL('base', options.page).href),
    ...addressesIn(spec).filter(isHubReference).map(onHub),
    ...serversIn(spec, options).map(byHash),
  ];
}

const addressesIn = ({ start, places, files }: RunSpec): readonly string[] => [
  ...new Set([...(start?.from ?? []), ...places, ...(files?.at ?? [])]),
];

/** Returns the addresses of servers that store files or chunks by their hash, without a slash at the end. */
export const serversIn = (
  spec: RunSpec,
  { allowsPrivate }: Pick<Reach, 'allowsPrivate'>,
): readonly string[] =>
  addressesIn(spec)
    .filter((url) => /^https?:/i.test(url))
    .filter((url) => allowsPrivate || hintProblem(url.replace(/^http/i, 'ws')) === undefined)
    .map((url) => url.replace(/[?#].*$/s, '').replace(/\/*$/, ''));

function onHub(text: string): BaseSource {
  const { repository, revision, file } = parseHubReference(text);
  return {
    name: text,
    urlOf: ({ name }) =>
      HUB + pathOnHub(repository, revision, name.endsWith('.gguf') ? (file ?? name) : name),
  };
}

export interface Bringing extends BaseOptions {
  onBytes(have: number): void;
}

/** Milliseconds without data after which a download is interrupted. */
const STALL_MS = 30_000;
/** Milliseconds before an interrupted download is tried again. */
const RETRY_MS = 5000;
/** Milliseconds without any new data after which the download is given up. */
const PATIENCE_MS = 600_000;

/** Returns the file, complete and with its hash; downloads what is missing. */
export const bringFile = (
  wanted: BaseFile,
  sources: readonly BaseSource[],
  options: Bringing,
): Promise<CachedFile> =>
  options.cache.alone(wanted, async () => {
    const { cache, clock, signal, onNotice } = options;
    const file = cache.file(wanted);
    let have = await file.size();
    if (have === wanted.bytes && (await hasHash(file, wanted, signal))) return file;
    const free = await cache.free();
    if (free !== undefined && free < wanted.bytes - have)
      throw storageFull(have + free, wanted.bytes);
    const useless = new Map<BaseSource, string>();
    for (let newestMs = clock.now(); ; ) {
      const problems = await download(wanted, file, sources, useless, options);
      if (problems === undefined) return file;
      const size = await file.size();
      if (size > have) newestMs = clock.now();
      have = size;
      const isHopeless = useless.size === sources.length;
      if (isHopeless || clock.now() - newestMs > PATIENCE_MS) throw sourceError(wanted, problems);
      onNotice(
        `the download stopped at ${megabytes(have)} of ${megabytes(wanted.bytes)} ` +
          `(${problems.at(-1)}): ` +
          'it resumes when the connection is back',
      );
      await clock.sleep(RETRY_MS, signal);
    }
  });

/** Tries each source once. Returns undefined when the file is complete and has its hash, else the problems. */
async function download(
  wanted: BaseFile,
  file: CachedFile,
  sources: readonly BaseSource[],
  useless: Map<BaseSource, string>,
  options: Bringing,
): Promise<readonly string[] | undefined> {
  const { signal } = options;
  const problems: string[] = [];
  for (const source of sources) {
    const url = source.urlOf(wanted);
    const hasNone = url === undefined && source.resume === undefined;
    const known = hasNone ? 'it has no files by hash' : useless.get(source);
    try {
      if (known !== undefined) throw new UselessSource(known);
      // a part that another source served may be wrong: then this one serves the whole file
      for (let isWhole = false; !isWhole; ) {
        isWhole = (await file.size()) === 0;
        await (source.resume?.(wanted, file, options) ?? resume(wanted, file, url!, options));
        if (await hasHash(file, wanted, signal)) return undefined;
        await file.remove();
      }
      throw new UselessSource('it serves another file under this name');
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof NostrainError) throw error;
      const words = wordsOf(error);
      if (error instanceof UselessSource) useless.set(source, words);
      problems.push(safeLine(`${source.name}: ${words}`));
    }
  }
  return problems;
}

/** A source that does not have the file, so that asking it again is useless. */
export class UselessSource extends Error {}

async function resume(
  { bytes }: BaseFile,
  part: CachedFile,
  url: string,
  { fetch, clock, signal, onBytes }: Bringing,
): Promise<void> {
  const stalled = new AbortController();
  const stop = anySignal(signal, stalled.signal);
  let heardMs = clock.now();
  const watch = async () => {
    for (;;) {
      await clock.sleep(STALL_MS / 3, stop.signal);
      if (clock.now() - heardMs > STALL_MS) stalled.abort(new Error('no data for 30 s'));
    }
  };
  watch().catch(() => undefined);
  try {
    await resumeDownload({
      part,
      bytes,
      ask: async (headers) => {
        const answer = await fetch(url, { headers, signal: stop.signal });
        if (answer.status === 404 || answer.status === 410)
          throw new UselessSource('it lacks the file');
        if (answer.ok || answer.status === 416) return answer;
        throw new Error(`it answers ${answer.status}`);
      },
      away: (cause) => (cause instanceof Error ? cause : new Error(String(cause))),
      onBytes: (have) => {
        heardMs = clock.now();
        onBytes(have);
      },
    });
  } finally {
    stalled.abort();
    stop.release();
  }
}

/** Bytes that are hashed at a time. */
const PIECE = 4 << 20;

async function hasHash(
  file: CachedFile,
  { name, bytes, sha256: wanted }: BaseFile,
  signal: AbortSignal,
): Promise<boolean> {
  const source = await file.open(name);
  if (source.size !== bytes) return false;
  const hash = createSha256();
  for (let at = 0; at < bytes; at += PIECE) {
    signal.throwIfAborted();
    hash.update(await source.read(at, Math.min(bytes, at + PIECE)));
  }
  return toHex(hash.digest()) === wanted;
}

/** Opens a small file that the hash of the tokenizer covers. Returns undefined if no source has it. */
export async function openBeside(
  name: string,
  sources: readonly BaseSource[],
  { fetch, signal }: BaseOptions,
): Promise<ByteSource | undefined> {
  for (const source of sources) {
    const url = source.urlOf({ name });
    if (url === undefined) continue;
    const answer = await fetch(url, { signal }).catch(() => undefined);
    if (!answer?.ok) continue;
    if (Number(answer.headers.get('content-length') ?? 0) > MOST_BESIDE) continue;
    return sourceOf(name, new Uint8Array(await answer.arrayBuffer()));
  }
  return undefined;
}

const sourceError = ({ name }: BaseFile, problems: readonly string[]): RelayError =>
  new RelayError('tab/base', `no source has ${safeLine(name)}: ${problems.join('; ')}`, {
    hint:
      'check the connection and press the button again, or ask the creator of the run for ' +
      'another source',
  });
