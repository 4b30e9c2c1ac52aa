/** A run by its file or its address: read, or fetched from relays and checked against the id the address holds. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../base/clock.ts';
import { ConfigError, RelayError } from '../../base/errors.ts';
import { createSigner, type Signer } from '../../network/event.ts';
import { parseRelayUrls } from '../../network/transport/relay-urls.ts';
import { fetchRun } from '../../network/wire/run-board.ts';
import { decodeRunAddress, type RunAddress, readCanonical } from '../../network/wire/runs.ts';
import type { Connection } from '../../node/connect-relays.ts';
import { connectRelays } from '../../node/connect-relays.ts';
import { dataHome } from '../../node/data-home.ts';
import { createSecretKey } from '../../node/keys.ts';
import { nativeCrypto } from '../../node/native-crypto.ts';
import { nativeSha256 } from '../../node/native-sha256.ts';
import type { Digest } from '../../run/ids.ts';
import { readSpec } from '../../run/read-spec.ts';
import { canonicalSpec, type RunSpec, runIdOf } from '../../run/run-spec.ts';
import { readDocument } from './spec-file.ts';

export interface FindOptions {
  /** Asked instead of those the address names. */
  readonly relays?: readonly string[] | undefined;
  /** The worker's folder; default by run id. */
  readonly dir?: string | undefined;
  readonly connection: Connection;
  /** Proves to relays that ask whose key this is; default a key of the moment. */
  readonly signer?: Signer | undefined;
  readonly signal: AbortSignal;
}

export interface FoundRun {
  readonly run: Digest;
  readonly spec: RunSpec;
  /** Those asked for, else those the address names; none of a file. */
  readonly relays: readonly string[];
}

const FETCH_MS = 15_000;
/** More relays than an address needs are not asked. */
const MOST_HINTS = 8;
const KEPT_AS = 'run.json';

/** Reads a file, or asks relays; throws where there is none or it is not what the address says. */
export async function findRun(source: string, options: FindOptions): Promise<FoundRun> {
  if (!/^(?:nostr:)?naddr1/.test(source)) {
    const spec = readSpec(await readDocument(source));
    return { run: runIdOf(spec), spec, relays: options.relays ?? [] };
  }
  const address = decodeRunAddress(source);
  if (!address.ok) {
    throw new ConfigError('run/address', `${source.slice(0, 40)}… is ${address.issue.message}`, {
      hint: 'copy the whole line that `nostrain run create --relay URL` printed',
    });
  }
  const { run } = address.value;
  const relays = options.relays ?? address.value.relays.slice(0, MOST_HINTS);
  const kept = await readKept(options.dir ?? runDir(run), run);
  const spec = kept ?? (await askRelays(address.value, relays, options));
  return { run, spec, relays };
}

/** Where a worker of a run is kept when no folder is named. */
export const runDir = (run: Digest): string => join(dataHome(), 'runs', run.slice(0, 16));

/** A signer for reading relays that want to know who asks. */
export const passingSigner = (): Signer => createSigner(createSecretKey(), nativeCrypto);

/** Keeps the spec in the worker's folder, so that going on needs no relay to have it still. */
export async function keepSpec(dir: string, spec: RunSpec): Promise<void> {
  const options = { flag: 'wx', mode: 0o600 };
  await writeFile(join(dir, KEPT_AS), canonicalSpec(spec), options).catch((cause: unknown) => {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return;
    throw new ConfigError('run/folder', `cannot write to the run folder ${dir}`, {
      hint: 'name another one with --dir DIR',
      cause,
    });
  });
}

/** The spec kept in a folder, where it is the one wanted. */
async function readKept(dir: string, run: Digest): Promise<RunSpec | undefined> {
  const text = await readFile(join(dir, KEPT_AS), 'utf8').catch(() => undefined);
  const read = text === undefined ? undefined : readCanonical(text);
  return read?.ok && runIdOf(read.value) === run ? read.value : undefined;
}

async function askRelays(
  address: RunAddress,
  urls: readonly string[],
  { connection, signer = passingSigner(), signal }: FindOptions,
): Promise<RunSpec> {
  if (urls.length === 0) {
    throw new ConfigError('flag/relay', 'the address names no relay', {
      hint: 'say where the run was published: --relay URL',
    });
  }
  const relays = await connectRelays(parseRelayUrls(urls), connection, signer, signal);
  try {
    const board = { relays, clock: systemClock, sha256: nativeSha256, signal };
    const found = await fetchRun(address, { ...board, timeoutMs: FETCH_MS });
    if (found.ok) return found.value;
    throw new RelayError('run/not-found', `run ${address.run}: ${found.issue.message}`, {
      hint: 'ask other relays with --relay URL, or get the file from whoever made the run',
      data: { relays: urls },
    });
  } finally {
    await relays.close();
  }
}
