/**
 * The folder of a whole run, for when all relays are gone: `run.jsonl` (events), `states/` (parameters and momentum after some rounds), `record.json`
 * (what a replay finds), and `chunks/`, each file as content-addressed chunks that Blossom servers and holders keep. What is in it is checked when it is read.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import type { Opened } from '../../certified/records/archive.ts';
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
import { writeWhole } from '../../node/files/whole-file.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import type { Digest } from '../../run/ids.ts';
import { orRefuse } from './files.ts';

const EVENTS = 'run.jsonl';
const RECORD = 'record.json';

/** The file of events in a folder. */
export const eventsIn = (folder: string): string => join(folder, EVENTS);

/** What a state and its chunks are called in a folder: a run with tiers of width has one for each ring. */
const nameOf = ({ rounds, ring }: RecordedState): string =>
  ring === undefined ? `${rounds}` : `${rounds}.ring${ring}`;

const stateIn = (state: RecordedState): string => `states/${nameOf(state)}.state`;

export interface RecordOptions extends ReplayOptions {
  /** States after every so many rounds are kept, and the last one; 0: that one alone. */
  readonly every: number;
  /** Length of the chunks. */
  readonly chunkBytes: number;
}

export interface WrittenRecord {
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
    writeWhole(join(folder, stateIn(state)), bytes);
  const { record: found, report } = await recordRun(archive, options, { every, keep });
  const record = { ...found, eventsSha256: await sha256Of(eventsIn(folder)) };
  await writeWhole(join(folder, RECORD), utf8(recordText(record)));
  const files = [
    { file: eventsIn(folder), name: 'run' },
    ...record.states.map((state) => ({ file: join(folder, stateIn(state)), name: nameOf(state) })),
  ];
  const manifests = [];
  for (const { file, name } of files) {
    const to = join(folder, 'chunks', name);
    const manifest = await packFile(file, to, { chunkBytes, stripe: null, signal: options.signal });
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
