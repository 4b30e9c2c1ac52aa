/** The manifest that somebody means: a file, a folder, an address, or a digest that some place has. */
import { stat } from 'node:fs/promises';
import { anySignal, deferred, firstOf, systemClock } from '../../base/async.ts';
import { isHex32, toHex } from '../../base/bytes.ts';
import { CheckpointError, ConfigError, safeLine } from '../../base/errors.ts';
import { type FileManifest, MOST_MANIFEST_BYTES } from '../../network/chunks/manifest.ts';
import { type ChunkSource, readUpTo } from '../../network/chunks/source.ts';
import type { Digest } from '../../run/ids.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { createAskHttp } from './ask-http.ts';
import { orBadManifest, readManifest, readManifestFile } from './folder.ts';

export interface FoundManifest {
  readonly manifest: FileManifest;
  /** Where it was, and where its chunks may be too; undefined of a digest. */
  readonly beside: string | undefined;
}

/** Throws a ConfigError or a CheckpointError that says what is not there or not right. */
export async function findManifest(
  what: string,
  places: readonly ChunkSource[],
  signal: AbortSignal,
): Promise<FoundManifest> {
  if (isHex32(what)) return { manifest: await ofDigest(what, places, signal), beside: undefined };
  if (/^https?:\/\//i.test(what)) return ofAddress(what, signal);
  const found = await stat(what).catch(() => undefined);
  if (found?.isDirectory()) return { manifest: await readManifest(what), beside: what };
  if (found) return { manifest: await readManifestFile(what), beside: undefined };
  throw new ConfigError('checkpoint/what', `${safeLine(what)} is no manifest, address or digest`, {
    hint: 'name a manifest.json, its address, or the digest that `checkpoint pack` printed',
  });
}

/** How long a place may take before the next is asked too. */
const NEXT_MS = 1000;
/** After that it is given up where it was slower than so many bytes a second. */
const LATE_MS = 4000;
const LEAST_RATE = 16_384;
/** Relays are given up after that: they say nothing while they look. */
const MOST_MS = 30_000;

/** Asks one place after the other, the next one too where one takes long; only bytes with that hash are read. */
async function ofDigest(
  digest: Digest,
  places: readonly ChunkSource[],
  signal: AbortSignal,
): Promise<FileManifest> {
  const said: string[] = [];
  const found = deferred<FileManifest | undefined>();
  const over = new AbortController();
  const both = anySignal(signal, over.signal);
  let isFound = false;
  const tried = async (place: ChunkSource): Promise<void> => {
    try {
      found.settle(await tryPlace(place, digest, both.signal));
      isFound = true;
    } catch (error) {
      if (said.push((error as Error).message) === places.length) found.settle(undefined);
    }
  };
  try {
    for (const place of places) {
      await firstOf<unknown>([found.promise, tried(place), pause(both.signal)]);
      if (isFound) break;
    }
    const manifest = places.length === 0 ? undefined : await found.promise;
    if (manifest) return manifest;
  } finally {
    over.abort(new Error('another place was faster'));
    both.release();
  }
  signal.throwIfAborted();
  throw new CheckpointError(
    'checkpoint/no-manifest',
    `no place has the manifest ${digest}: ${said.join('; ') || 'none was named'}`,
    {
      hint: 'name places that have it with --from; relays have manifests that `checkpoint push` sent',
    },
  );
}

const pause = (signal: AbortSignal): Promise<void> =>
  systemClock.sleep(NEXT_MS, signal).catch(() => undefined);

/** The manifest from one place, which trickles no longer than it may. */
async function tryPlace(
  place: ChunkSource,
  digest: Digest,
  signal: AbortSignal,
): Promise<FileManifest> {
  const late = new AbortController();
  const both = anySignal(signal, late.signal);
  const startedMs = systemClock.now();
  let came = 0;
  const timer = setInterval(() => {
    const ms = systemClock.now() - startedMs;
    const isLate = place.findManifest
      ? ms > MOST_MS
      : ms > LATE_MS && came * 1000 < LEAST_RATE * ms;
    if (isLate) late.abort(new Error(`${place.name} is too slow`));
  }, NEXT_MS);
  try {
    const bytes = await bytesAt(place, digest, both.signal, (length) => {
      came = length;
    });
    if (bytes === 'absent') throw new Error(`${place.name} has not got it`);
    if (bytes && toHex(nativeSha256(bytes)) === digest) return parse(place.name, bytes);
    throw new Error(`${place.name} gives other bytes`);
  } finally {
    clearInterval(timer);
    both.release();
  }
}

async function bytesAt(
  place: ChunkSource,
  digest: Digest,
  signal: AbortSignal,
  onBytes: (length: number) => void,
) {
  if (place.findManifest) return place.findManifest(digest, signal);
  const blob = { sha256: digest, bytes: MOST_MANIFEST_BYTES, offset: undefined };
  const body = await place.read(blob, signal);
  return body === undefined ? 'absent' : readUpTo(body, MOST_MANIFEST_BYTES, onBytes);
}

/** A hash in the address (`…/<sha256>` or `#sha256=<hash>`) is held to. */
async function ofAddress(what: string, signal: AbortSignal): Promise<FoundManifest> {
  const url = new URL(what);
  const pin =
    /^#sha256=([0-9a-f]{64})$/.exec(url.hash)?.[1] ?? /\/([0-9a-f]{64})$/.exec(url.pathname)?.[1];
  url.hash = '';
  const answer = await createAskHttp({ isTrusted: true })(url.href, { signal });
  if (answer.status !== 200) {
    answer.cancel();
    throw new CheckpointError('checkpoint/no-manifest', `${url.href} answers ${answer.status}`, {
      hint: 'name the address of a manifest.json, or of a manifest by its SHA-256',
    });
  }
  const bytes = await readUpTo(answer.body, MOST_MANIFEST_BYTES);
  if (pin !== undefined && (!bytes || toHex(nativeSha256(bytes)) !== pin)) {
    throw new CheckpointError('checkpoint/other', `${url.href} is not the manifest ${pin}`, {
      hint: 'ask whoever gave you the address; what is there may have changed',
    });
  }
  return { manifest: parse(url.href, bytes), beside: new URL('.', url).href };
}

const parse = (where: string, bytes: Uint8Array | undefined): FileManifest =>
  orBadManifest(where, new TextDecoder().decode(bytes));
