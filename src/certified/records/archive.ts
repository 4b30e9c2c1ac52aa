/**
 * Archives of certified runs: all events and beacon values of a run as JSON lines, so that it can be replayed when
 * relays have forgotten it. Reports which lines are invalid.
 */
import { ConfigError } from '../../base/errors.ts';
import { layoutOfRun } from '../../model/from-settings.ts';
import type { BodyOf } from '../../network/attachments/bodies.ts';
import { parseEvent, type SignedEvent, verifyEvent } from '../../network/event.ts';
import type { EventCrypto } from '../../network/event-crypto.ts';
import type { BeaconSource } from '../../run/committee.ts';
import type { Digest } from '../../run/ids.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import { type Certified, type Chain, openingOf } from '../decisions/chain.ts';
import type { Gathered, Hashing } from '../decisions/evidence.ts';
import { type Path, pathOf } from '../decisions/replay.ts';
import { checkpointChunks } from '../history/catch-up.ts';
import {
  type BeaconLine,
  type BeaconRecord,
  beaconsOf,
  formatBeacon,
  gather,
  readBeacon,
  specsOf,
} from '../history/gather.ts';
import { fetchHistory, type HistoryQuery } from '../history/history.ts';
import { archiveOrder } from '../wire/runs.ts';
import { readSnapshots } from '../wire/snapshots.ts';

/** A line that is not a genuine event. */
export interface BadLine {
  /** From 1. */
  readonly line: number;
  readonly reason: string;
  /** What the text itself says of the round it belongs to, if anything. */
  readonly round?: number;
  /** The same of the payload a chunk belongs to. */
  readonly root?: string;
}

/** What is kept of a run. */
export interface Archive {
  readonly events: readonly SignedEvent[];
  readonly beacons: readonly BeaconRecord[];
}

/** An archive as it was read. */
export interface ArchiveFile extends Archive {
  readonly bad: readonly BadLine[];
  /** Values of the run's beacon, not judged yet. */
  readonly beacons: readonly BeaconLine[];
}

/** What `archiveRun` takes: the relays to read from, and what is known already. */
export interface ArchiveOptions
  extends Omit<HistoryQuery, 'known' | 'leavesPayloads' | 'since' | 'start'> {
  /** What is archived already: only later events are asked for. */
  readonly known?: Archive | undefined;
  /** Events of stake snapshots, kept if relays have none of them. */
  readonly snapshots?: readonly SignedEvent[] | undefined;
}

/** Relays may have taken an event a while after it was dated. */
const OVERLAP_SECONDS = 2 * 86_400;
/** Longer lines are no events that any relay took. */
const LONGEST_LINE = 32 << 20;
const PROGRESS_EVERY = 500;

/**
 * Everything that relays have of a run, added to what was archived before. The same events make the same archive. See
 * the example of `joinCertifiedRun`.
 */
export async function archiveRun(run: Digest, options: ArchiveOptions): Promise<Archive> {
  const { known = { events: [], beacons: [] }, signal } = options;
  const latest = Math.max(...known.events.map(({ created_at }) => created_at));
  const since = known.events.length > 0 ? Math.max(0, latest - OVERLAP_SECONDS) : undefined;
  const { sha256, crypto, onNotice = () => undefined } = options;
  let start: Chain | Certified | undefined;
  const startOfRun = (spec: RunSpec) => (start ??= openingOf(spec, { sha256 }));
  const asking = { ...options, since, known: known.events, start: startOfRun };
  const fresh = await fetchHistory(run, asking);
  const events = archiveOrder(withSnapshots([...known.events, ...fresh], options));
  const spec = options.spec ?? specsOf(events).get(run);
  if (spec === undefined) return { events, beacons: [] };
  const lines = known.beacons.map((record, i) => ({ ...record, line: i + 1 }));
  const search = { source: options.beacon?.(spec), signal, onNotice, sha256, crypto };
  const { records, values } = await beaconsOf({ run, spec }, events, lines, search);
  const gathered = gather(events, { run, spec }, { beacons: values, crypto });
  const path = pathOf(startOfRun(spec), gathered);
  if (isWhole(path, gathered)) return { events, beacons: records };
  const readOptions = { ...options, beacon: undefined };
  const state = await checkpointChunks(path, spec, layoutOfRun(spec), readOptions);
  return { events: archiveOrder([...events, ...state]), beacons: records };
}

/** Whether every payload that counted is here: then the model can be recomputed, and no checkpoint is needed. */
const isWhole = ({ stops }: Path, { message, payload }: Gathered): boolean =>
  [...stops.values()].every(({ outcome }) =>
    (outcome?.accepted ?? []).every(({ manifest: id }) => {
      const submission = message(id);
      return submission?.type === 'manifest' && payload(submission.manifest) !== undefined;
    }),
  );

/** The same events, and those of snapshots that are not among them. */
function withSnapshots(
  events: readonly SignedEvent[],
  { snapshots = [], sha256 }: Pick<ArchiveOptions, 'snapshots' | 'sha256'>,
): readonly SignedEvent[] {
  if (snapshots.length === 0) return events;
  const present = readSnapshots(events, sha256);
  const arePresent = [...readSnapshots(snapshots, sha256).keys()].every((id) => present.has(id));
  return arePresent ? events : [...events, ...snapshots];
}

/** The archive as text: JSON lines, one signed event each, then values of the beacon. */
export const formatArchive = ({ events, beacons }: Archive): string =>
  [...events.map((event) => JSON.stringify(event)), ...beacons.map(formatBeacon)]
    .map((line) => `${line}\n`)
    .join('');

/** Reads an archive to its end; every id and signature is checked. */
export async function readArchive(
  lines: AsyncIterable<string> | Iterable<string>,
  options: { readonly crypto?: EventCrypto; onProgress?(have: number): void } = {},
): Promise<ArchiveFile> {
  const { crypto, onProgress } = options;
  const events = new Map<string, SignedEvent>();
  const bad: BadLine[] = [];
  const beacons: BeaconLine[] = [];
  let line = 0;
  for await (const text of lines) {
    line += 1;
    if (line % PROGRESS_EVERY === 0) onProgress?.(line);
    if (text === '') continue;
    const read = readLine(text, crypto);
    if (typeof read === 'string') bad.push({ line, reason: read, ...originOf(text, crypto) });
    else if ('proof' in read) beacons.push({ ...read, line });
    else events.set(read.id, read);
  }
  return { events: [...events.values()], bad, beacons };
}

/** The event or beacon value, or why the line is neither. */
function readLine(
  text: string,
  crypto: EventCrypto | undefined,
): SignedEvent | BeaconRecord | string {
  if (text.length > LONGEST_LINE) return `longer than ${LONGEST_LINE} characters`;
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return 'not JSON';
  }
  const beacon = readBeacon(json);
  if (beacon !== undefined) return beacon;
  const parsed = parseEvent(json);
  if (!parsed.ok) return `${parsed.issue.at} is ${parsed.issue.message}`;
  const genuine = verifyEvent(parsed.value, crypto);
  return genuine.ok ? genuine.value : genuine.issue.message;
}

const IN_TAG = /([0-9a-f]{60}\/)(\d{1,9})(?!\d)/;
const IN_CONTENT = /\\*"round\\*":(\d{1,9})/g;

/** Where a broken event seems to belong: what its tags and its content say, and of those what would make it whole. */
function originOf(text: string, crypto: EventCrypto | undefined): Pick<BadLine, 'round' | 'root'> {
  const tag = IN_TAG.exec(text)?.[2];
  const rounds = [...text.matchAll(IN_CONTENT)].map(([, round]) => round!);
  const mends = rounds.find(
    (round) => typeof readLine(text.replace(IN_TAG, `$1${round}`), crypto) !== 'string',
  );
  const round = mends ?? tag ?? rounds[0];
  if (round !== undefined) return { round: Number(round) };
  const root = /"x","([0-9a-f]{64})"/.exec(text)?.[1];
  return root === undefined ? {} : { root };
}

/** What is known of a run beside its events, where it is read again. */
export interface HistoryOptions extends Hashing {
  /** Which run, where the archive has several. */
  readonly run?: Digest | undefined;
  /** Its spec, where no event has it. */
  readonly spec?: RunSpec | undefined;
  /** Events of stake snapshots that the archive lacks. */
  readonly snapshots?: readonly SignedEvent[] | undefined;
  /** Bytes of states that are kept beside the events, checked against the root that they are asked for by. */
  readonly states?: BodyOf | undefined;
  /** Where beacon values come from that the archive lacks; block hashes that it has are compared with it. */
  beacon?(spec: RunSpec): BeaconSource | undefined;
  onNotice?(message: string): void;
  readonly signal?: AbortSignal | undefined;
}

export interface RunHistory {
  readonly run: Digest;
  readonly spec: RunSpec;
  readonly events: readonly SignedEvent[];
  readonly gathered: Gathered;
  /** Lines that are no genuine events, and records that are no values of the beacon. */
  readonly bad: readonly BadLine[];
  /** Block hashes of the beacon that nobody was asked about. */
  readonly believed: number;
}

/** What may be opened: an archive as it was read, or as relays gave it. */
export type Opened = Archive & { readonly bad?: readonly BadLine[] };

/** Finds the run and completes its beacon. Throws a `ConfigError` if the archive does not name exactly one run. */
export async function openHistory(archive: Opened, options: HistoryOptions): Promise<RunHistory> {
  const { sha256, crypto, onNotice = () => undefined } = options;
  const { bad: lines = [] } = archive;
  const events = withSnapshots(archive.events, options);
  const specs = new Map(specsOf(events));
  if (options.spec !== undefined) specs.set(runIdOf(options.spec), options.spec);
  const run = options.run ?? onlyRun([...specs.keys()], options.spec, lines);
  const spec = specs.get(run);
  if (spec === undefined) {
    throw new ConfigError(
      'run/not-found',
      `no event here has the spec of run ${run}${firstBadLine(lines)}`,
      { hint: 'name a file that has it with --spec FILE, or ask other relays' },
    );
  }
  const signal = options.signal ?? new AbortController().signal;
  const search = { source: options.beacon?.(spec), signal, onNotice, sha256, crypto };
  const records = archive.beacons.map((record, i) => ({ line: i + 1, ...record }));
  const { values, bad, believed } = await beaconsOf({ run, spec }, events, records, search);
  const fromEvents = gather(events, { run, spec }, { beacons: values, crypto });
  const bytesOf: BodyOf = (named) => fromEvents.bytesOf(named) ?? options.states?.(named);
  const gathered = { ...fromEvents, bytesOf };
  return { run, spec, events, gathered, bad: [...lines, ...bad], believed };
}

const firstBadLine = (bad: readonly BadLine[]): string =>
  bad.length === 0 ? '' : `; line ${bad[0]!.line} is no event: ${bad[0]!.reason}`;

function onlyRun(
  runs: readonly Digest[],
  spec: RunSpec | undefined,
  bad: readonly BadLine[],
): Digest {
  if (spec !== undefined) return runIdOf(spec);
  if (runs.length === 1) return runs[0]!;
  throw new ConfigError(
    'flag/run',
    runs.length === 0
      ? `the file has no run spec${firstBadLine(bad)}`
      : `the file has ${runs.length} runs`,
    { hint: runs.length === 0 ? 'add --spec FILE' : `choose one with --run: ${runs.join(', ')}` },
  );
}
