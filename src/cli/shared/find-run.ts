/** A run by its file, its name on this machine or its address: read, or fetched from relays and checked against the id the address holds. */
import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Option } from 'commander';
import { isHex32 } from '../../base/bytes.ts';
import { ConfigError, RelayError } from '../../base/errors.ts';
import { decodeRunAddress, fetchRun, type RunAddress } from '../../certified/wire/runs.ts';
import { hintProblem, withoutSecrets } from '../../network/transport/relay-urls.ts';
import { dataHome } from '../../node/files/data-home.ts';
import { findLocalRun, readKeptSpec } from '../../node/files/local-runs.ts';
import type { Connection } from '../../node/net/relays.ts';
import type { Digest } from '../../run/ids.ts';
import { readSpec } from '../../run/spec/read-spec.ts';
import { canonicalSpec, type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import { writeNote } from '../../terminal/output.ts';
import { readDocument } from './spec-file.ts';
import { type Reach, withRelays } from './with-relays.ts';

export interface FindOptions extends Reach {
  /** Asked instead of those the address names. */
  readonly relays?: readonly string[] | undefined;
  /** The worker's folder; default by run id. */
  readonly dir?: string | undefined;
  /** Relays of a private network are asked too where the address names them. */
  readonly allowPrivateRelays?: boolean | undefined;
}

export interface FoundRun {
  readonly run: Digest;
  readonly spec: RunSpec;
  /** Those asked for, else those the address names; none of a file. */
  readonly relays: readonly string[];
  /** How to deal with them: where the address names them, none of a private network is dialled unless that is allowed. */
  readonly connection: Connection;
}

/** `--allow-private-relays`, for commands that take the address of a run. */
export const hintOption = (): Option =>
  new Option(
    '--allow-private-relays',
    'dial relays on this machine or in a private network too where naddr1… names them',
  );

const FETCH_MS = 15_000;
/** More relays than an address needs are not asked. */
const MOST_HINTS = 8;
const KEPT_AS = 'run.json';

/** Reads a file, or asks relays; throws where there is none or it is not what the address says. */
export async function findRun(source: string, options: FindOptions): Promise<FoundRun> {
  const place = placeOf(source, options);
  if (place === undefined) return findHere(source, options);
  const { address, relays, publicOnly } = place;
  const connection = { ...options.connection, publicOnly };
  const { run } = address;
  const kept = await readKept(options.dir ?? runDir(run), run);
  const spec = kept ?? (await askRelays(address, relays, { ...options, connection }));
  return { run, spec, relays, connection };
}

type Asked = Pick<FindOptions, 'relays' | 'allowPrivateRelays'>;

/** Which run an address is of, and which relays to ask; undefined of a text that is none. */
function placeOf(source: string, { relays, allowPrivateRelays }: Asked) {
  if (!/^(?:nostr:)?naddr1/.test(source)) return undefined;
  const address = decodeRunAddress(source);
  if (!address.ok) {
    throw new ConfigError('run/address', `${source.slice(0, 40)}… is ${address.issue.message}`, {
      hint: 'copy the whole line that `nostrain run create --relay URL` printed',
    });
  }
  return { address: address.value, ...relaysFor(address.value, { relays, allowPrivateRelays }) };
}

/** Relays to ask for the run of an address: those asked for, else those it names, of which none of a private network unless that is allowed. */
function relaysFor(
  { relays: named }: RunAddress,
  { relays, allowPrivateRelays }: Asked,
): { readonly relays: readonly string[]; readonly publicOnly: boolean } {
  if (relays !== undefined) return { relays, publicOnly: false };
  const hints = named.slice(0, MOST_HINTS);
  const publicOnly = allowPrivateRelays !== true;
  return { relays: publicOnly ? dialable(hints) : hints, publicOnly };
}

/** A run and where its events are, as far as that is known without asking anybody. */
export interface RunPlace {
  readonly run: Digest;
  readonly spec?: RunSpec;
  readonly relays: readonly string[];
  readonly publicOnly: boolean;
}

/** The run of an id, an address or a name on this machine. */
export async function locateRun(source: string, asked: Asked): Promise<RunPlace> {
  const place = placeOf(source, asked);
  if (place !== undefined) return { ...place, run: place.address.run };
  const kept = await findKept(source);
  if (kept !== undefined)
    return { run: runIdOf(kept.spec), ...keptRelays(kept, asked.relays), spec: kept.spec };
  if (isHex32(source)) return { run: source, relays: asked.relays ?? [], publicOnly: false };
  throw new ConfigError('flag/run', `--run ${source} is no run that is known here`, {
    hint: 'give the 64 hex digits of its id, its naddr1…, or a name that `nostrain runs` lists',
  });
}

/** The run of a file, or the one kept on this machine under that name with the relays it was joined over. */
async function findHere(source: string, options: FindOptions): Promise<FoundRun> {
  const isFile = await stat(source).then(
    (found) => found.isFile(),
    () => false,
  );
  const kept = isFile ? undefined : await findKept(source);
  const spec = kept?.spec ?? readSpec(await readDocument(source));
  const { relays, publicOnly } = keptRelays(kept, options.relays);
  const connection = publicOnly ? { ...options.connection, publicOnly } : options.connection;
  return { run: runIdOf(spec), spec, relays, connection };
}

/** Those asked for, else those a run was joined over: if all of them are public, a stranger's address may have named them. */
function keptRelays(kept: Kept | undefined, asked: readonly string[] | undefined) {
  const relays = asked ?? kept?.relays ?? [];
  const isHinted = kept !== undefined && asked === undefined;
  return { relays, publicOnly: isHinted && relays.every((url) => hintProblem(url) === undefined) };
}

interface Kept {
  readonly spec: RunSpec;
  readonly relays: readonly string[];
}

/** A certified run of this machine by its name or id; undefined where there is none. */
async function findKept(name: string): Promise<Kept | undefined> {
  const run = await findLocalRun(name).catch((error: unknown) => {
    if (error instanceof ConfigError && error.code === 'run/unknown') return undefined;
    throw error;
  });
  const spec = run && (await readKeptSpec(run.worker));
  return spec && { spec, relays: run.relays };
}

/** Those that a stranger's word is enough to dial. Throws where there are only others: whoever wrote the address chose them. */
function dialable(hints: readonly string[]): readonly string[] {
  const problems = hints.flatMap((url) => {
    const problem = hintProblem(url);
    return problem === undefined ? [] : [`${withoutSecrets(url)} (${problem})`];
  });
  const usable = hints.filter((url) => hintProblem(url) === undefined);
  if (problems.length > 0 && usable.length === 0) {
    throw new ConfigError(
      'relay/private-hint',
      `the address names only relays that are not dialled on a stranger's word: ${problems.join(', ')}`,
      {
        hint: 'name the relay yourself with --relay URL; if you trust who sent the address, --allow-private-relays dials those',
      },
    );
  }
  if (problems.length > 0)
    writeNote(`not dialled, though the address names it: ${problems.join(', ')}`);
  return usable;
}

/** Where a worker of a run is kept when no folder is named. */
export const runDir = (run: Digest): string => join(dataHome(), 'runs', run.slice(0, 16));

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
  const spec = await readKeptSpec(dir);
  return spec && runIdOf(spec) === run ? spec : undefined;
}

async function askRelays(
  address: RunAddress,
  urls: readonly string[],
  reach: Reach,
): Promise<RunSpec> {
  if (urls.length === 0) {
    throw new ConfigError('flag/relay', 'the address names no relay', {
      hint: 'say where the run was published: --relay URL',
    });
  }
  return withRelays(urls, reach, async (board) => {
    const found = await fetchRun(address, { ...board, timeoutMs: FETCH_MS });
    if (found.ok) return found.value;
    throw new RelayError('run/not-found', `run ${address.run}: ${found.issue.message}`, {
      hint: 'ask other relays with --relay URL, or get the file from whoever made the run',
      data: { relays: urls.map(withoutSecrets) },
    });
  });
}
