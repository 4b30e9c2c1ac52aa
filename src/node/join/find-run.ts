/**
 * Finds a certified run by its file, its name on this machine or its address, and checks its spec against the id of
 * the address. Keeps the spec and the evaluation slice in the worker's folder.
 */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isHex32 } from '../../base/bytes.ts';
import { ConfigError, RelayError } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import {
  decodeRunAddress,
  fetchRun,
  fetchSlice,
  type RunAddress,
} from '../../certified/wire/runs.ts';
import { hintProblem, withoutSecrets } from '../../network/transport/relay-urls.ts';
import type { Digest } from '../../run/ids.ts';
import { readSpec } from '../../run/spec/read-spec.ts';
import { canonicalSpec, type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import { kindOf } from '../files/atomic-file.ts';
import { dataHome } from '../files/data-home.ts';
import { readDocument } from '../files/documents.ts';
import { findLocalRun, readKeptSpec } from '../files/local-runs.ts';
import { type Connection, type RelayReach, withRelays } from '../net/relays.ts';

export interface LocateOptions {
  /** Asked instead of those that the address names. */
  readonly relays?: readonly string[] | undefined;
  /** Relays of a private network are asked too if the address names them. */
  readonly allowPrivateRelays?: boolean | undefined;
  onNotice?(message: string): void;
}

export interface FindOptions extends LocateOptions, RelayReach {
  /** The worker's folder; default by run id. */
  readonly dir?: string | undefined;
}

export interface ResolvedRun {
  readonly run: Digest;
  readonly spec: RunSpec;
  /** Those asked for, else those the address names; none of a file. */
  readonly relays: readonly string[];
  /** With `publicOnly` if a stranger named the relays. */
  readonly connection: Connection;
}

/** A run and where its events are, as far as that is known without asking anybody. */
export interface RunLocation {
  readonly run: Digest;
  readonly spec?: RunSpec | undefined;
  readonly address?: RunAddress;
  readonly relays: readonly string[];
  readonly publicOnly: boolean;
}

const FETCH_MS = 15_000;
const SLICE_MS = 120_000;
const MOST_HINTS = 8;

/** Reads a file, or asks relays. Throws if there is no such run, or it is not what the address says. */
export async function findRun(
  source: string | RunSpec,
  options: FindOptions,
): Promise<ResolvedRun> {
  const location = await locationOf(source, options);
  const { run, address, relays, publicOnly } = location;
  const connection = publicOnly ? { ...options.connection, publicOnly } : options.connection;
  const spec = location.spec ?? (await readKept(options.dir ?? runDir(run), run));
  if (spec !== undefined) return { run, spec, relays, connection };
  return {
    run,
    spec: await askRelays(address!, relays, { ...options, connection }),
    relays,
    connection,
  };
}

async function locationOf(source: string | RunSpec, asked: LocateOptions): Promise<RunLocation> {
  const named = typeof source === 'string' ? addressed(source, asked) : undefined;
  if (named !== undefined) return named;
  const kept =
    typeof source === 'string' &&
    (await kindOf(source)) !== 'file' &&
    (await findKept(source, asked));
  if (kept) return kept;
  const spec = typeof source === 'string' ? readSpec(await readDocument(source)) : source;
  return { run: runIdOf(spec), spec, relays: asked.relays ?? [], publicOnly: false };
}

/** The run of an id, an address or a name on this machine. */
export async function locateRun(source: string, asked: LocateOptions): Promise<RunLocation> {
  const location = addressed(source, asked) ?? (await findKept(source, asked));
  if (location !== undefined) return location;
  if (isHex32(source)) return { run: source, relays: asked.relays ?? [], publicOnly: false };
  throw new ConfigError('flag/run', `--run ${source} is no run that is known here`, {
    hint: 'give the 64 hex digits of its id, its naddr1…, or a name that `nostrain runs` lists',
  });
}

/** The run of an address and the relays to ask for it; undefined of a text that is none. */
function addressed(source: string, asked: LocateOptions): RunLocation | undefined {
  if (!/^(?:nostr:)?naddr1/.test(source)) return undefined;
  const read = decodeRunAddress(source);
  if (!read.ok) {
    throw new ConfigError('run/address', `${source.slice(0, 40)}… is ${read.issue.message}`, {
      hint: 'copy the whole line that `nostrain run create --relay URL` printed',
    });
  }
  const { value: address } = read;
  const location = { run: address.run, address };
  if (asked.relays !== undefined) return { ...location, relays: asked.relays, publicOnly: false };
  const hints = address.relays.slice(0, MOST_HINTS);
  const publicOnly = asked.allowPrivateRelays !== true;
  return { ...location, relays: publicOnly ? dialable(hints, asked) : hints, publicOnly };
}

/** A certified run of this machine by its name or id, with its relays; undefined if there is none. */
async function findKept(name: string, asked: LocateOptions): Promise<RunLocation | undefined> {
  const kept = await findLocalRun(name).catch((error: unknown) => {
    if (error instanceof ConfigError && error.code === 'run/unknown') return undefined;
    throw error;
  });
  const spec = kept && (await readKeptSpec(kept.worker));
  if (spec === undefined) return undefined;
  const relays = asked.relays ?? kept!.relays;
  // if all of them are public, a stranger's address may have named them
  const publicOnly =
    asked.relays === undefined && relays.every((url) => hintProblem(url) === undefined);
  return { run: runIdOf(spec), spec, relays, publicOnly };
}

/** The hints that are safe to dial. Throws if the address names private relays only. */
function dialable(hints: readonly string[], { onNotice }: LocateOptions): readonly string[] {
  const usable = hints.filter((url) => hintProblem(url) === undefined);
  const refused = hints.filter((url) => !usable.includes(url));
  if (refused.length === 0) return usable;
  const words = refused.map((url) => `${withoutSecrets(url)} (${hintProblem(url)})`).join(', ');
  if (usable.length === 0) {
    throw new ConfigError(
      'relay/private-hint',
      `the address names only relays that are not dialled on a stranger's word: ${words}`,
      {
        hint:
          'name the relay yourself with --relay URL; if you trust who sent the address, ' +
          '--allow-private-relays dials those',
      },
    );
  }
  onNotice?.(`not dialled, though the address names it: ${words}`);
  return usable;
}

async function askRelays(
  address: RunAddress,
  urls: readonly string[],
  reach: RelayReach,
): Promise<RunSpec> {
  if (urls.length === 0) {
    throw new ConfigError('flag/relay', 'the address names no relay', {
      hint: 'say where the run was published: --relay URL',
    });
  }
  return withRelays(urls, reach, async (relaySession) => {
    const found = await fetchRun(address, { ...relaySession, timeoutMs: FETCH_MS });
    if (found.ok) return found.value;
    throw new RelayError('run/not-found', `run ${address.run}: ${found.issue.message}`, {
      hint: 'ask other relays with --relay URL, or get the file from whoever made the run',
      data: { relays: urls.map(withoutSecrets) },
    });
  });
}

/** Where a worker of a run is kept when no folder is named. */
export const runDir = (run: Digest): string => join(dataHome(), 'runs', run.slice(0, 16));

/** Keeps the spec in the worker's folder, so that going on needs no relay to have it still. */
export async function keepSpec(dir: string, spec: RunSpec): Promise<void> {
  const options = { flag: 'wx', mode: 0o600 };
  await writeFile(join(dir, 'run.json'), canonicalSpec(spec), options).catch((cause: unknown) => {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return;
    throw new ConfigError('run/folder', `cannot write to the run folder ${dir}`, {
      hint: 'name another one with --dir DIR',
      cause,
    });
  });
}

/** The spec kept in a folder, if it is the one wanted. */
async function readKept(dir: string, run: Digest): Promise<RunSpec | undefined> {
  const spec = await readKeptSpec(dir);
  return spec && runIdOf(spec) === run ? spec : undefined;
}

const sliceFile = (dir: string): string => join(dir, 'evaluation.txt');

/** What the worker of this folder evaluates on, if its run names that. */
export async function keptSlice(dir: string): Promise<Uint8Array | undefined> {
  const { evaluation = null } = (await readKeptSpec(dir)) ?? {};
  if (evaluation === null) return undefined;
  const kept = await readFile(sliceFile(dir)).catch(() => undefined);
  return kept && sha256Hex(kept) === evaluation.sha256 ? new Uint8Array(kept) : undefined;
}

/** The evaluation slice from the folder, or from relays and then kept there. */
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
    const found = await fetchSlice(evaluation, author, { ...relaySession, timeoutMs: SLICE_MS });
    if (!found.ok) {
      const message = `the evaluation slice is not there: ${found.issue.message}`;
      throw new RelayError('run/slice', message, {
        hint: 'ask other relays with --relay URL, or have its author publish the run again',
      });
    }
    await writeFile(sliceFile(dir), found.value);
    return found.value;
  });
}
