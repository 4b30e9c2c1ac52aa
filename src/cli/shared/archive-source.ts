/**
 * Reads the events of a run for `replay`, `explain`, `archive` and others: from relays, or from a file or folder that
 * `archive` wrote.
 */

import { createReadStream } from 'node:fs';
import { mkdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { createSlowReporter } from '../../base/slow.ts';
import {
  type ArchiveFile,
  type ArchiveOptions,
  archiveRun,
  type HistoryOptions,
  type Opened,
  readArchive,
} from '../../certified/records/archive.ts';
import {
  parseRecord,
  type RecordedState,
  type ReplayOptions,
  type ReplayReport,
  type RunRecord,
  recordRun,
  recordText,
} from '../../certified/records/replay-run.ts';
import { bytesRoot } from '../../consensus/roots.ts';
import type { BodyOf } from '../../network/attachments/bodies.ts';
import { manifestDigest } from '../../network/chunks/manifest.ts';
import { packFile } from '../../node/checkpoint/pack.ts';
import { hashFile, kindOf, writeAtomically } from '../../node/files/atomic-file.ts';
import { readDocument } from '../../node/files/documents.ts';
import { type FinishedRounds, readFinishedRounds } from '../../node/files/finished-rounds.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import type { RelayReach as Reach } from '../../node/net/relays.ts';
import { type Digest, roundNumber } from '../../run/ids.ts';
import { readSpec } from '../../run/spec/read-spec.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import { parseStakeJson } from '../../run/stake/stake-snapshot.ts';
import { connectionFlagNames, connectionFlags, connectionOf } from '../../terminal/connection.ts';
import { type FlagValues, severalOr, text } from '../../terminal/flag-table.ts';
import type { FlagRule } from '../../terminal/options.ts';
import { writeNote } from '../../terminal/output.ts';
import { beaconSource } from './beacon.ts';
import { endpointFlags } from './endpoints.ts';
import { orRefuse, readText } from './files.ts';
import { privateRelaysFlag } from './member-flags.ts';
import { toEvents } from './stake-refresh.ts';
import { locateRun, withRelays } from './with-relays.ts';

/** Flags that name the run, its relays, endpoints of chains, and how to reach relays. */
export const sourceFlags = {
  run: text('<run>', 'run: naddr1…, a link, its id, a spec file, or its name on this machine'),
  spec: text('<file>', 'spec of the run, if no event has it'),
  stake: text('<file>', 'stake snapshot of the run, if no event has it'),
  relay: severalOr('those of --run', '<url>', 'relay to ask, repeatable'),
  allowPrivateRelays: privateRelaysFlag,
  ...connectionFlags,
  ...endpointFlags,
};

/** Those of a command that also reads an archive. */
export const historySourceFlags = {
  ...sourceFlags,
  events: text('<file>', 'archive to read instead of asking relays'),
};

export type SourceFlags = FlagValues<typeof sourceFlags> & { readonly events?: string };

/** With --events, flags about relays are refused: no relay is asked. */
export const askingRule = ({ events }: SourceFlags): FlagRule => ({
  flags: [...connectionFlagNames, 'allowPrivateRelays'],
  goesWith: 'relays, not --events FILE',
  holds: events === undefined,
});

/** A run, and the relays to read its events from. */
export interface HistorySource {
  readonly options: HistoryOptions & Pick<ArchiveOptions, 'local'>;
  readonly reach: Reach & { readonly relays: readonly string[] };
}

/** Reads the files that the flags name, and resolves `--run`. */
export async function sourceOf(flags: SourceFlags, signal: AbortSignal): Promise<HistorySource> {
  const { stake, relay, allowPrivateRelays, events } = flags;
  // with --events, the relays of the address are not asked
  const isNamed = relay.length > 0 || events !== undefined;
  const searchOptions = { relays: isNamed ? relay : undefined, allowPrivateRelays };
  const location = flags.run === undefined ? undefined : await locateRun(flags.run, searchOptions);
  const fileSpec = flags.spec === undefined ? undefined : readSpec(await readDocument(flags.spec));
  const spec = fileSpec ?? location?.spec;
  const table = stake && orRefuse(stake, parseStakeJson(await readText(stake)));
  const connection = {
    ...connectionOf(flags),
    ...(location?.publicOnly ? { publicOnly: true } : {}),
  };
  const worker = events === undefined ? location?.worker : undefined;
  const finished = worker === undefined ? undefined : await localRounds(worker);
  return {
    options: {
      spec,
      signal,
      local: finished?.events,
      crypto: nativeCrypto,
      sha256: nativeSha256,
      run: location?.run ?? (fileSpec && runIdOf(fileSpec)),
      snapshots: table ? toEvents(table) : [],
      beacon: (run: RunSpec) => beaconSource(run, flags),
      onNotice: writeNote,
    },
    reach: { connection, signal, relays: location?.relays ?? relay },
  };
}

/** Reads the finished rounds in a worker's folder, and says which rounds need a relay. */
async function localRounds(worker: string): Promise<FinishedRounds | undefined> {
  const finished = await readFinishedRounds(worker);
  if (finished === undefined) return undefined;
  const { first, last } = finished;
  const earlier = first > 0 ? `; rounds before ${roundNumber(first)} need a relay` : '';
  writeNote(
    `reading rounds ${roundNumber(first)} to ${roundNumber(last)} from ${worker}${earlier}; ` +
      'payloads come from relays',
  );
  return finished;
}

export async function openSource(
  { events: file }: SourceFlags,
  { options, reach }: HistorySource,
): Promise<Opened> {
  const { run } = options;
  if (file !== undefined) {
    return readArchiveFile((await kindOf(file)) === 'folder' ? eventsIn(file) : file);
  }
  if (run === undefined || reach.relays.length === 0) {
    throw new ConfigError('flag/events', 'no run to read', {
      hint: 'use --events FILE, --run naddr1…, or --run ID --relay URL',
    });
  }
  const { signal } = reach;
  const report = createSlowReporter(writeNote);
  const onProgress = (have: number) => report(`${have} events`);
  return withRelays(reach.relays, reach, ({ relays }) =>
    archiveRun(run, { ...options, relays, onProgress, signal }),
  );
}

/** Reads the events that the flags name. */
export async function readHistory(
  flags: SourceFlags,
  signal: AbortSignal,
): Promise<HistorySource & { readonly archive: Opened }> {
  const source = await sourceOf(flags, signal);
  return { ...source, archive: await openSource(flags, source) };
}

/** Reads an archive file. Throws `events/file` if it cannot be read. */
export function readArchiveFile(file: string): Promise<ArchiveFile> {
  const report = createSlowReporter(writeNote);
  const input = createReadStream(file);
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  return readArchive(lines, {
    crypto: nativeCrypto,
    onProgress: (have) => report(`${have} lines read`),
  }).catch((cause: unknown) => {
    throw new ConfigError('events/file', `cannot read the events in ${file}`, {
      hint: 'give a file that `nostrain archive` wrote',
      cause,
    });
  });
}

const EVENTS = 'run.jsonl';
const RECORD = 'record.json';

export const eventsIn = (folder: string): string => join(folder, EVENTS);

/** Returns the base name of a state file; a run with tiers has one state per slice. */
const nameOf = ({ rounds, ring: slice }: RecordedState): string =>
  slice === undefined ? `${rounds}` : `${rounds}.ring${slice}`;

const stateIn = (state: RecordedState): string => `states/${nameOf(state)}.state`;

export interface RecordOptions extends ReplayOptions {
  /** The state after every `every` rounds is kept, in addition to the last one; 0 keeps only the last. */
  readonly every: number;
  readonly chunkBytes: number;
}

interface WrittenRecord {
  readonly record: RunRecord;
  readonly report: ReplayReport;
  /** Folders with chunks, by the digest of their manifest. */
  readonly manifests: readonly { readonly folder: string; readonly digest: Digest }[];
}

/** Writes states, record and chunks next to the events, which are already in the folder. */
export async function writeRecord(
  folder: string,
  archive: Opened,
  { every, chunkBytes, ...options }: RecordOptions,
): Promise<WrittenRecord> {
  // earlier states may be of rounds that are not kept this time
  for (const each of ['states', 'chunks'])
    await rm(join(folder, each), { recursive: true, force: true });
  await mkdir(join(folder, 'states'), { recursive: true });
  const keep = (state: RecordedState, bytes: Uint8Array) =>
    writeAtomically(join(folder, stateIn(state)), bytes);
  const { record: replayed, report } = await recordRun(archive, options, { every, keep });
  const record = { ...replayed, eventsSha256: await hashFile(eventsIn(folder)) };
  await writeAtomically(join(folder, RECORD), utf8(recordText(record)));
  const files = [
    { file: eventsIn(folder), name: 'run' },
    ...record.states.map((state) => ({ file: join(folder, stateIn(state)), name: nameOf(state) })),
  ];
  const manifests = [];
  for (const { file, name } of files) {
    const to = join(folder, 'chunks', name);
    const manifest = await packFile(file, to, {
      chunkBytes,
      erasure: null,
      signal: options.signal,
    });
    manifests.push({ folder: to, digest: manifestDigest(manifest, nativeSha256) });
  }
  return { record, report, manifests };
}

/** The files of a run folder in addition to the events. */
export interface OpenedRecord {
  readonly record: RunRecord;
  /** States whose bytes match the root in the record. */
  readonly states: BodyOf;
  /** Files that do not match the record. */
  readonly changed: readonly string[];
}

/**
 * Reads and checks a run folder; undefined if the path is not a folder. Throws `events/record` if there is no record.
 */
export async function openRecord(folder: string): Promise<OpenedRecord | undefined> {
  if ((await kindOf(folder)) !== 'folder') return undefined;
  const file = join(folder, RECORD);
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new ConfigError('events/record', `${folder} is not a run folder: it has no ${RECORD}`, {
      hint: 'give a folder that `nostrain archive --folder` wrote, or a file of events',
      cause,
    });
  });
  const record = orRefuse(file, parseRecord(text));
  const changed: string[] = [];
  const events = await hashFile(eventsIn(folder)).catch(() => undefined);
  if (events !== record.eventsSha256) changed.push(EVENTS);
  const states = new Map<Digest, Uint8Array>();
  for (const state of record.states) {
    const path = join(folder, stateIn(state));
    const size = await stat(path).then(
      ({ size }) => size,
      () => -1,
    );
    const bytes = size === state.bytes && size > 0 ? await readFile(path) : undefined;
    if (bytes && bytesRoot(bytes, nativeSha256) === state.modelRoot)
      states.set(state.modelRoot, bytes);
    else changed.push(stateIn(state));
  }
  return { record, states: ({ root }) => states.get(root), changed };
}
