/** One run out of an archive, ready to be replayed: its spec, its events as evidence, and the beacon values that they need. */
import { ConfigError } from '../base/errors.ts';
import type { SignedEvent } from '../network/event.ts';
import type { BeaconSource } from '../run/beacon-source.ts';
import type { Digest } from '../run/ids.ts';
import { type RunSpec, runIdOf } from '../run/run-spec.ts';
import { type Archive, type BadLine, withSnapshots } from './archive.ts';
import { beaconsOf } from './beacons.ts';
import type { Hashing } from './evidence.ts';
import { type Gathered, gather, specsOf } from './gather.ts';

export interface HistoryOptions extends Hashing {
  /** Which run, where the archive has several. */
  readonly run?: Digest | undefined;
  /** Its spec, where no event has it. */
  readonly spec?: RunSpec | undefined;
  /** Events of stake snapshots that the archive lacks. */
  readonly snapshots?: readonly SignedEvent[] | undefined;
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

/** Finds the run and completes its beacon. Throws a `ConfigError` where the archive has no such run, or several and none is named. */
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
      `no event here has the spec of run ${run}${placesOf(lines)}`,
      { hint: 'name a file that has it with --spec FILE, or ask other relays' },
    );
  }
  const signal = options.signal ?? new AbortController().signal;
  const search = { source: options.beacon?.(spec), signal, onNotice, sha256, crypto };
  const records = archive.beacons.map((record, i) => ({ line: i + 1, ...record }));
  const { values, bad, believed } = await beaconsOf({ run, spec }, events, records, search);
  const gathered = gather(events, { run, spec }, { beacons: values, crypto });
  return { run, spec, events, gathered, bad: [...lines, ...bad], believed };
}

const placesOf = (bad: readonly BadLine[]): string =>
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
      ? `the file has no run spec${placesOf(bad)}`
      : `the file has ${runs.length} runs`,
    { hint: runs.length === 0 ? 'add --spec FILE' : `choose one with --run: ${runs.join(', ')}` },
  );
}
