/** Where `replay`, `explain` and `archive` read a run from: a file or folder that `archive` wrote, or relays. */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream/promises';
import { utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import {
  type ArchiveFile,
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
import { writeAtomically } from '../../node/files/atomic-file.ts';
import { readDocument } from '../../node/files/documents.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import type { RelayReach as Reach } from '../../node/net/relays.ts';
import type { Digest } from '../../run/ids.ts';
import { readSpec } from '../../run/spec/read-spec.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import { parseStakeJson } from '../../run/stake/stake-snapshot.ts';
import { connectionFlagNames, connectionFlags, connectionOf } from '../../terminal/connection.ts';
import { type FlagValues, several, text, withDefault } from '../../terminal/flag-table.ts';
import type { FlagRule } from '../../terminal/options.ts';
import { writeNote } from '../../terminal/output.ts';
import { beaconSource } from './beacon.ts';
import { endpointFlags } from './endpoints.ts';
import { orRefuse, readText } from './files.ts';
import { privateRelaysFlag } from './member-flags.ts';
import { toEvents } from './stake-refresh.ts';
import { locateRun, withRelays } from './with-relays.ts';

/** Which run, where its events are, endpoints of chains, and how to deal with relays. */
export const sourceFlags = {
  run: text('<run>', 'the run: its id, naddr1…, or its name on this machine'),
  spec: text('<file>', 'spec of the run, where no event has it'),
  stake: text('<file>', 'stake snapshot of the run, where no event has it'),
  relay: withDefault(several('<url>', 'relay to ask, repeatable'), [], 'those of --run'),
  allowPrivateRelays: privateRelaysFlag,
  ...connectionFlags,
  ...endpointFlags,
};

export type SourceFlags = FlagValues<typeof sourceFlags> & { readonly events?: string };

/** A file is read without asking any relay. */
export const askingRule = ({ events }: SourceFlags): FlagRule => ({
  flags: [...connectionFlagNames, 'allowPrivateRelays'],
  goesWith: 'relays that are asked; --events FILE is read alone',
  holds: events === undefined,
});

/** What the flags say of a run beside its events, and which relays have those. */
interface Source {
  readonly options: HistoryOptions;
  readonly reach: Reach & { readonly relays: readonly string[] };
}

/** Reads the files that the flags name, and finds the run that `--run` means. */
export async function sourceOf(flags: SourceFlags, signal: AbortSignal): Promise<Source> {
  const { stake, relay, allowPrivateRelays, events } = flags;
  // a file is read without asking those that an address names
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
  return {
    options: {
      spec,
      signal,
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

export async function openSource(
  { events: file }: SourceFlags,
  { options, reach }: Source,
): Promise<Opened> {
  const { run } = options;
  if (file !== undefined) {
    const isFolder = await stat(file).then(
      (found) => found.isDirectory(),
      () => false,
    );
    return readArchiveFile(isFolder ? eventsIn(file) : file);
  }
  if (run === undefined || reach.relays.length === 0) {
    throw new ConfigError('flag/events', 'there is nothing to read', {
      hint: 'say --events FILE, --run naddr1…, or --run ID --relay URL',
    });
  }
  const { signal } = reach;
  const report = createSlowReporter();
  const onProgress = (have: number) => report(`${have} events`);
  return withRelays(reach.relays, reach, ({ relays }) =>
    archiveRun(run, { ...options, relays, onProgress, signal }),
  );
}

/** An archive from the disk; throws `events/file` where it cannot be read. */
export function readArchiveFile(file: string): Promise<ArchiveFile> {
  const report = createSlowReporter();
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

const PATIENCE_MS = 2000;

/** Says on stderr how far reading is, once it takes longer than two seconds, and then no oftener than that. */
export function createSlowReporter(): (words: string) => void {
  let reportedAt = Date.now();
  return (words) => {
    if (Date.now() - reportedAt < PATIENCE_MS) return;
    reportedAt = Date.now();
    writeNote(words);
  };
}

const EVENTS = 'run.jsonl';
const RECORD = 'record.json';

/** The file of events in a folder. */
export const eventsIn = (folder: string): string => join(folder, EVENTS);

/** What a state and its chunks are called in a folder: a run with tiers has one for each slice. */
const nameOf = ({ rounds, ring: slice }: RecordedState): string =>
  slice === undefined ? `${rounds}` : `${rounds}.ring${slice}`;

const stateIn = (state: RecordedState): string => `states/${nameOf(state)}.state`;

export interface RecordOptions extends ReplayOptions {
  /** States after every so many rounds are kept, and the last one; 0: that one alone. */
  readonly every: number;
  /** Length of the chunks. */
  readonly chunkBytes: number;
}

interface WrittenRecord {
  readonly record: RunRecord;
  readonly report: ReplayReport;
  /** Folders with chunks, by the digest of their manifest. */
  readonly manifests: readonly { readonly folder: string; readonly digest: Digest }[];
}

/** Writes what stands beside the events, which are in the folder already. */
export async function writeRecord(
  folder: string,
  archive: Opened,
  { every, chunkBytes, ...options }: RecordOptions,
): Promise<WrittenRecord> {
  // states of an earlier call are of rounds that may not be kept this time
  for (const each of ['states', 'chunks'])
    await rm(join(folder, each), { recursive: true, force: true });
  await mkdir(join(folder, 'states'), { recursive: true });
  const keep = (state: RecordedState, bytes: Uint8Array) =>
    writeAtomically(join(folder, stateIn(state)), bytes);
  const { record: found, report } = await recordRun(archive, options, { every, keep });
  const record = { ...found, eventsSha256: await sha256Of(eventsIn(folder)) };
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

/** What a folder of a run has beside its events. */
export interface OpenedRecord {
  readonly record: RunRecord;
  /** States whose bytes have the root that the record names. */
  readonly states: BodyOf;
  /** What is not as the record says. */
  readonly changed: readonly string[];
}

/** Reads and checks it; undefined of what is no folder. Throws where the record cannot be read. */
export async function openRecord(folder: string): Promise<OpenedRecord | undefined> {
  const found = await stat(folder).catch(() => undefined);
  if (!found?.isDirectory()) return undefined;
  const file = join(folder, RECORD);
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new ConfigError('events/record', `${folder} is no folder of a run: it has no ${RECORD}`, {
      hint: 'give a folder that `nostrain archive --folder` wrote, or a file of events',
      cause,
    });
  });
  const record = orRefuse(file, parseRecord(text));
  const changed: string[] = [];
  const events = await sha256Of(eventsIn(folder)).catch(() => undefined);
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

async function sha256Of(file: string): Promise<Digest> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}
