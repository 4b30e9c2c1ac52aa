/**
 * Finds a certified run by its spec file, its name on this machine or its address, and verifies the spec against the id
 * in the address. Also stores the spec and the evaluation slice in the worker's folder.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError, RelayError } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import { parseRunName, type RunName } from '../../certified/wire/run-names.ts';
import {
  decodeRunAddress,
  fetchRun,
  fetchSlice,
  type RunAddress,
} from '../../certified/wire/runs.ts';
import { hintProblem, parseRelayUrls, withoutSecrets } from '../../network/transport/relay-urls.ts';
import type { Digest } from '../../run/ids.ts';
import { readSpec } from '../../run/spec/read-spec.ts';
import { canonicalSpec, type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import { kindOf } from '../files/atomic-file.ts';
import { dataHome } from '../files/data-home.ts';
import { readDocument } from '../files/documents.ts';
import { findLocalRun, readKeptSpec } from '../files/local-runs.ts';
import { makeRunFolder } from '../files/run-folder.ts';
import { type Connection, type RelayReach, withRelays } from '../net/relays.ts';

export interface LocateOptions {
  /** Relays to use instead of those that the address names. */
  readonly relays?: readonly string[] | undefined;
  /** Allows relays in a private network that the address names. */
  readonly allowPrivateRelays?: boolean | undefined;
  onNotice?(message: string): void;
}

export interface FindOptions extends LocateOptions, RelayReach {
  /** The worker's folder; by default named after the run id. */
  readonly dir?: string | undefined;
}

export interface ResolvedRun {
  readonly run: Digest;
  readonly spec: RunSpec;
  /** The requested relays, else those in the address; empty for a file. */
  readonly relays: readonly string[];
  /** Has `publicOnly` set if a stranger named the relays. */
  readonly connection: Connection;
}

/** A run and the relays with its events, as far as known without a network. */
export interface RunLocation {
  readonly run: Digest;
  readonly spec?: RunSpec | undefined;
  readonly address?: RunAddress;
  readonly relays: readonly string[];
  readonly publicOnly: boolean;
  /** The folder of the worker of this machine, if the run was named by its name or id. */
  readonly worker?: string;
}

/** Milliseconds to wait for the spec. */
const FETCH_MS = 15_000;
/** Milliseconds to wait for the evaluation slice. */
const SLICE_MS = 120_000;
/** Maximum number of relays used from an address. */
const MOST_HINTS = 8;

/**
 * Returns a run from a file, from this machine or from relays. Throws a ConfigError or a RelayError if it is not found
 * or does not match the address.
 */
export async function findRun(
  source: string | RunSpec,
  options: FindOptions,
): Promise<ResolvedRun> {
  const location = await locationOf(source, options);
  const { run, address, relays, publicOnly } = location;
  const connection = publicOnly ? { ...options.connection, publicOnly } : options.connection;
  const spec = location.spec ?? (await readKept(options.dir ?? runDir(run), run));
  if (spec !== undefined) return { run, spec, relays, connection };
  if (address === undefined) throw unknownRun(run);
  return {
    run,
    spec: await askRelays(address, relays, { ...options, connection }),
    relays,
    connection,
  };
}

async function locationOf(source: string | RunSpec, options: LocateOptions): Promise<RunLocation> {
  if (typeof source !== 'string') return locatedSpec(source, options);
  const location = await namedRun(source, options);
  return location ?? locatedSpec(readSpec(await readDocument(source)), options);
}

const locatedSpec = (spec: RunSpec, { relays = [] }: LocateOptions): RunLocation => ({
  run: runIdOf(spec),
  spec,
  relays,
  publicOnly: false,
});

/**
 * Returns the run that a spec file, an id, an address, a link or a name on this machine stands for, without asking
 * relays. Throws a ConfigError (`flag/run`) for other text.
 */
export async function locateRun(source: string, options: LocateOptions): Promise<RunLocation> {
  if ((await kindOf(source)) === 'file') return locationOf(source, options);
  const location = await namedRun(source, options);
  if (location === undefined) throw unknownRun(source);
  return location;
}

const unknownRun = (source: string) =>
  new ConfigError('flag/run', `${source.slice(0, 100)} is not a known run`, {
    hint:
      'name an address (naddr1…), the link of a page, an id (64 hex digits) with --relay, a spec ' +
      'file, or a run that `nostrain runs` lists',
  });

/** Returns the run that an address, a link, an id or a name on this machine stands for; undefined for other text. */
async function namedRun(source: string, options: LocateOptions): Promise<RunLocation | undefined> {
  const name = parseRunName(source);
  if (name?.run.startsWith('naddr1')) return addressed(name, options);
  if (name === undefined && (await kindOf(source)) === 'file') return undefined;
  const local = await findKept(name?.run ?? source, options);
  if (local !== undefined || name === undefined) return local;
  return { run: name.run, ...hintedRelays(name.relays, options) };
}

/** Decodes an address into the run and its relays; those of a link replace those of its address. */
function addressed(name: RunName, options: LocateOptions): RunLocation {
  const decoded = decodeRunAddress(name.run);
  if (!decoded.ok) {
    throw new ConfigError('run/address', `${name.run.slice(0, 40)}… is ${decoded.issue.message}`, {
      hint: 'copy the whole line that `nostrain run create --relay URL` printed',
    });
  }
  const { value: address } = decoded;
  const hints = name.relays.length > 0 ? parseRelayUrls(name.relays) : address.relays;
  return { run: address.run, address, ...hintedRelays(hints, options) };
}

/** Returns the requested relays, else those that an address or a link names, without private ones. */
function hintedRelays(
  hints: readonly string[],
  options: LocateOptions,
): Pick<RunLocation, 'relays' | 'publicOnly'> {
  if (options.relays !== undefined) return { relays: options.relays, publicOnly: false };
  const relays = hints.slice(0, MOST_HINTS);
  const publicOnly = options.allowPrivateRelays !== true;
  return { relays: publicOnly ? dialable(relays, options) : relays, publicOnly };
}

/** Returns a certified run of this machine by its name or id; undefined if there is no such run. */
async function findKept(name: string, options: LocateOptions): Promise<RunLocation | undefined> {
  const local = await findLocalRun(name).catch((error: unknown) => {
    if (error instanceof ConfigError && error.code === 'run/unknown') return undefined;
    throw error;
  });
  const spec = local && (await readKeptSpec(local.worker));
  if (spec === undefined) return undefined;
  const relays = options.relays ?? local!.relays;
  // if all of them are public, a stranger's address may have named them
  const publicOnly =
    options.relays === undefined && relays.every((url) => hintProblem(url) === undefined);
  return { run: runIdOf(spec), spec, relays, publicOnly, worker: local!.worker };
}

/** Returns the public relays of an address. Throws a ConfigError (`relay/private-hint`) if all are private. */
function dialable(hints: readonly string[], { onNotice }: LocateOptions): readonly string[] {
  const usable = hints.filter((url) => hintProblem(url) === undefined);
  const refused = hints.filter((url) => !usable.includes(url));
  if (refused.length === 0) return usable;
  const words = refused.map((url) => `${withoutSecrets(url)} (${hintProblem(url)})`).join(', ');
  if (usable.length === 0) {
    throw new ConfigError(
      'relay/private-hint',
      `the address names only private relays, which are not used on a stranger's word: ${words}`,
      {
        hint:
          'name the relay yourself with --relay URL, or use --allow-private-relays if you trust ' +
          'the sender of the address',
      },
    );
  }
  onNotice?.(`skipped relays that the address names: ${words}`);
  return usable;
}

async function askRelays(
  address: RunAddress,
  urls: readonly string[],
  reach: RelayReach,
): Promise<RunSpec> {
  if (urls.length === 0) {
    throw new ConfigError('flag/relay', 'the address names no relay', {
      hint: 'name a relay that the run was published on: --relay URL',
    });
  }
  return withRelays(urls, reach, async (relaySession) => {
    const result = await fetchRun(address, { ...relaySession, timeoutMs: FETCH_MS });
    if (result.ok) return result.value;
    throw new RelayError('run/not-found', `run ${address.run}: ${result.issue.message}`, {
      hint: 'name other relays with --relay URL, or get the spec file from the creator of the run',
      data: { relays: urls.map(withoutSecrets) },
    });
  });
}

/** Returns the default folder of a worker in a run. */
export const runDir = (run: Digest): string => join(dataHome(), 'runs', run.slice(0, 16));

/** Stores the spec in the worker's folder, so that resuming does not need it from a relay. */
export async function keepSpec(dir: string, spec: RunSpec): Promise<void> {
  await makeRunFolder(dir);
  const options = { flag: 'wx', mode: 0o600 };
  await writeFile(join(dir, 'run.json'), canonicalSpec(spec), options).catch((cause: unknown) => {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return;
    throw new ConfigError('run/folder', `cannot write to the run folder ${dir}`, {
      hint: 'name another one with --dir DIR',
      cause,
    });
  });
}

/** Returns the spec stored in a folder, if it is the spec of this run. */
async function readKept(dir: string, run: Digest): Promise<RunSpec | undefined> {
  const spec = await readKeptSpec(dir);
  return spec && runIdOf(spec) === run ? spec : undefined;
}

const sliceFile = (dir: string): string => join(dir, 'evaluation.txt');

/** Returns the evaluation slice stored in the worker's folder, if its run names one. */
export async function keptSlice(dir: string): Promise<Uint8Array | undefined> {
  const { evaluation = null } = (await readKeptSpec(dir)) ?? {};
  if (evaluation === null) return undefined;
  const kept = await readFile(sliceFile(dir)).catch(() => undefined);
  return kept && sha256Hex(kept) === evaluation.sha256 ? new Uint8Array(kept) : undefined;
}

/** Returns the evaluation slice from the folder, or downloads it from relays and stores it there. */
export async function sliceOf(
  { evaluation, author }: RunSpec,
  dir: string,
  urls: readonly string[],
  reach: RelayReach,
): Promise<Uint8Array | undefined> {
  if (evaluation === null) return undefined;
  const kept = await keptSlice(dir);
  if (kept) return kept;
  return withRelays(urls, reach, async (relaySession) => {
    const result = await fetchSlice(evaluation, author, { ...relaySession, timeoutMs: SLICE_MS });
    if (!result.ok) {
      const message = `the evaluation slice is not available: ${result.issue.message}`;
      throw new RelayError('run/slice', message, {
        hint: 'name other relays with --relay URL, or ask the author to publish the run again',
      });
    }
    await writeFile(sliceFile(dir), result.value);
    return result.value;
  });
}
