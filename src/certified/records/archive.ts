/**
 * Archives of certified runs: all events and beacon values as JSON lines, so that a run can be replayed after relays
 * have deleted it. Reading reports invalid lines.
 */
import { jsonIn } from '../../base/canonical-json.ts';
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
  /** Line number, from 1. */
  readonly line: number;
  readonly reason: string;
  /** Round that the text appears to belong to, if any. */
  readonly round?: number;
  /** Payload root that the chunk appears to belong to, if any. */
  readonly root?: string;
}

/** The contents of an archive. */
export interface Archive {
  readonly events: readonly SignedEvent[];
  readonly beacons: readonly BeaconRecord[];
}

/** An archive as read from a file. */
export interface ArchiveFile extends Archive {
  readonly bad: readonly BadLine[];
  /** Beacon records, not yet checked. */
  readonly beacons: readonly BeaconLine[];
}

/** Options of `archiveRun`: the relays to read from, and what is known already. */
export interface ArchiveOptions
  extends Omit<HistoryQuery, 'known' | 'leavesPayloads' | 'since' | 'start'> {
  /** An earlier archive; only later events are queried. */
  readonly known?: Archive | undefined;
  /** Events of stake snapshots, added if relays do not have them. */
  readonly snapshots?: readonly SignedEvent[] | undefined;
  /** Events of the run that this machine has; relays are asked for everything all the same. */
  readonly local?: readonly SignedEvent[] | undefined;
}

/** Overlap of queries, since relays may receive an event long after its date. */
const OVERLAP_SECONDS = 2 * 86_400;
/** Maximum characters of a line; no relay accepts a larger event. */
const LONGEST_LINE = 32 << 20;
const PROGRESS_EVERY = 500;

/**
 * Archives everything that relays have of a run, in addition to an earlier archive. The same events give the same
 * archive. See the example of `joinCertifiedRun`.
 */
export async function archiveRun(run: Digest, options: ArchiveOptions): Promise<Archive> {
  const { known = { events: [], beacons: [] }, local = [], signal } = options;
  const since = known.events.reduce(
    (latest, { created_at }) => Math.max(latest, created_at - OVERLAP_SECONDS),
    0,
  );
  const { sha256, crypto, onNotice = () => undefined } = options;
  let start: Chain | Certified | undefined;
  const startOfRun = (spec: RunSpec) => (start ??= openingOf(spec, { sha256 }));
  const present = [...known.events, ...local];
  const fresh = await fetchHistory(run, { ...options, since, known: present, start: startOfRun });
  const events = archiveOrder(withSnapshots([...present, ...fresh], options));
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

/** Reports whether all counted payloads are available, so that the model can be recomputed without a checkpoint. */
const isWhole = ({ stops }: Path, { message, payload }: Gathered): boolean =>
  [...stops.values()].every(({ outcome }) =>
    (outcome?.accepted ?? []).every(({ manifest: id }) => {
      const submission = message(id);
      return submission?.type === 'manifest' && payload(submission.manifest) !== undefined;
    }),
  );

/** Adds the events of snapshots that are missing. */
function withSnapshots(
  events: readonly SignedEvent[],
  { snapshots = [], sha256 }: Pick<ArchiveOptions, 'snapshots' | 'sha256'>,
): readonly SignedEvent[] {
  const present = readSnapshots(events, sha256);
  const arePresent = [...readSnapshots(snapshots, sha256).keys()].every((id) => present.has(id));
  return arePresent ? events : [...events, ...snapshots];
}

/** Formats an archive as JSON lines: one signed event per line, then beacon values. */
export const formatArchive = ({ events, beacons }: Archive): string =>
  [...events.map((event) => JSON.stringify(event)), ...beacons.map(formatBeacon)]
    .map((line) => `${line}\n`)
    .join('');

/** Reads an archive to its end and checks every id and signature. */
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

/** Returns the event or beacon record of a line, or why it is neither. */
function readLine(
  text: string,
  crypto: EventCrypto | undefined,
): SignedEvent | BeaconRecord | string {
  if (text.length > LONGEST_LINE) return `longer than ${LONGEST_LINE} characters`;
  const json = jsonIn(text);
  if (json === undefined) return 'not JSON';
  const beacon = readBeacon(json);
  if (beacon !== undefined) return beacon;
  const parsed = parseEvent(json);
  if (!parsed.ok) return `${parsed.issue.at} is ${parsed.issue.message}`;
  const genuine = verifyEvent(parsed.value, crypto);
  return genuine.ok ? genuine.value : genuine.issue.message;
}

const IN_TAG = /([0-9a-f]{60}\/)(\d{1,9})(?!\d)/;
const IN_CONTENT = /\\*"round\\*":(\d{1,9})/g;

/**
 * Guesses the round of a broken event from its tags and content, preferring a round that would make the event valid.
 */
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

/** What is known about a run in addition to its archive. */
export interface HistoryOptions extends Hashing {
  /** Selects the run if the archive has several. */
  readonly run?: Digest | undefined;
  /** The run's spec, if no event has it. */
  readonly spec?: RunSpec | undefined;
  /** Events of stake snapshots that the archive lacks. */
  readonly snapshots?: readonly SignedEvent[] | undefined;
  /** Returns bytes of states stored next to the archive, checked against their root. */
  readonly states?: BodyOf | undefined;
  /** Source of missing beacon values; also checks archived block hashes. */
  beacon?(spec: RunSpec): BeaconSource | undefined;
  onNotice?(message: string): void;
  readonly signal?: AbortSignal | undefined;
}

export interface RunHistory {
  readonly run: Digest;
  readonly spec: RunSpec;
  readonly events: readonly SignedEvent[];
  readonly gathered: Gathered;
  /** Lines that are not genuine events, and invalid beacon records. */
  readonly bad: readonly BadLine[];
  /** Number of block hashes that were not checked against a chain. */
  readonly believed: number;
}

/** An archive, either read from a file or fetched from relays. */
export type Opened = Archive & { readonly bad?: readonly BadLine[] };

/**
 * Finds the run in an archive and completes its beacon values. Throws a ConfigError if the archive does not name
 * exactly one run.
 */
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
      `no event in the archive has the spec of run ${run}${firstBadLine(lines)}`,
      { hint: 'pass the spec with --spec FILE, or archive from other relays' },
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
  bad.length === 0 ? '' : `; line ${bad[0]!.line} is not an event: ${bad[0]!.reason}`;

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
