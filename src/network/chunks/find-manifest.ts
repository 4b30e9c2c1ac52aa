/** Finds the manifest of a chunked file at sources, by its digest. No source is trusted. */
import { anySignal, type Clock, firstOf } from '../../base/async.ts';
import { toHex } from '../../base/bytes.ts';
import { CheckpointError } from '../../base/errors.ts';
import type { Digest } from '../../run/ids.ts';
import type { Sha256 } from '../event-crypto.ts';
import { type FileManifest, MOST_MANIFEST_BYTES, parseManifest } from './manifest.ts';
import { type ChunkSource, readUpTo } from './source.ts';

export interface ManifestSearch {
  readonly clock: Clock;
  readonly sha256: Sha256;
  readonly signal: AbortSignal;
}

/** Milliseconds that a source may take before the next one is asked too. */
const NEXT_MS = 1000;
/** After this many milliseconds, a source slower than `LEAST_RATE` is given up. */
const LATE_MS = 4000;
/** Bytes per second. */
const LEAST_RATE = 16_384;
/** After this many milliseconds a relay is given up: it sends nothing while it searches. */
const MOST_MS = 30_000;

/**
 * Asks the sources one after another, the next as soon as one fails or is slow. Parses only bytes with that hash.
 * Throws a CheckpointError if no source has it.
 */
export async function findManifestOf(
  digest: Digest,
  sources: readonly ChunkSource[],
  { signal, ...options }: ManifestSearch,
): Promise<FileManifest> {
  const both = anySignal(signal);
  const eachOptions = { ...options, signal: both.signal };
  let turn: Promise<unknown> = Promise.resolve();
  const tries = sources.map((source) => {
    const tried = turn.then(() => trySource(source, digest, eachOptions));
    const pause = turn.then(() => options.clock.sleep(NEXT_MS, both.signal));
    turn = firstOf([tried, pause].map((each) => each.then(ignore, ignore)));
    return tried;
  });
  const failures: string[] = [];
  const manifest = await Promise.any(tries).catch(({ errors }: AggregateError) => {
    failures.push(...errors.map(({ message }: Error) => message));
  });
  both.end(new Error('another source was faster'));
  if (manifest) return manifest;
  signal.throwIfAborted();
  throw new CheckpointError(
    'checkpoint/no-manifest',
    `no source has the manifest ${digest}: ${failures.join('; ') || 'none was named'}`,
    { hint: 'name sources that have it with --from; relays have what `checkpoint push` sent' },
  );
}

const ignore = (): void => undefined;

/** Downloads the manifest from one source. Throws if it is absent, wrong or too slow. */
async function trySource(
  source: ChunkSource,
  digest: Digest,
  { clock, sha256, signal }: ManifestSearch,
): Promise<FileManifest> {
  const both = anySignal(signal);
  const startedMs = clock.now();
  let received = 0;
  const watch = async () => {
    for (;;) {
      await clock.sleep(NEXT_MS, both.signal);
      const ms = clock.now() - startedMs;
      const isLate = source.findManifest
        ? ms > MOST_MS
        : ms > LATE_MS && received * 1000 < LEAST_RATE * ms;
      if (isLate) both.end(new Error(`${source.name} is too slow`));
    }
  };
  watch().catch(ignore);
  try {
    const bytes = await bytesAt(source, digest, both.signal, (length) => {
      received = length;
    });
    if (bytes === 'absent') throw new Error(`${source.name} does not have it`);
    if (bytes && toHex(sha256(bytes)) === digest) return parseBytes(source.name, bytes);
    throw new Error(`${source.name} sends other bytes`);
  } finally {
    both.end();
  }
}

async function bytesAt(
  source: ChunkSource,
  digest: Digest,
  signal: AbortSignal,
  onBytes: (length: number) => void,
) {
  if (source.findManifest) return source.findManifest(digest, signal);
  const blob = { sha256: digest, bytes: MOST_MANIFEST_BYTES, offset: undefined };
  const body = await source.read(blob, signal);
  return body === undefined ? 'absent' : readUpTo(body, MOST_MANIFEST_BYTES, onBytes);
}

const parseBytes = (where: string, bytes: Uint8Array): FileManifest =>
  orBadManifest(where, new TextDecoder().decode(bytes));

/** Parses the manifest that came from `where`. Throws a CheckpointError for other bytes. */
export function orBadManifest(where: string, text: string): FileManifest {
  const parsed = parseManifest(text);
  if (parsed.ok) return parsed.value;
  const { at, message } = parsed.issue;
  throw new CheckpointError('checkpoint/bad-manifest', `${where}: ${at}: ${message}`, {
    hint: 'get the manifest from the one who packed the file; its name is its SHA-256',
  });
}
