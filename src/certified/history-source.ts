/** Where a run's history comes from: a file that `archive` wrote, or relays. The spec is among the events or in a file of its own. */
import type { Command } from 'commander';
import { ConfigError } from '../base/errors.ts';
import { beaconSource } from '../cli/beacon.ts';
import { passingSigner } from '../cli/run/find-run.ts';
import { readDocument } from '../cli/run/spec-file.ts';
import { addEndpointFlags, type EndpointFlags } from '../cli/stake/access.ts';
import { toEvents } from '../cli/stake/events.ts';
import { orRefuse, readText } from '../cli/stake/files.ts';
import type { SignedEvent } from '../network/event.ts';
import { parseRelayUrls } from '../network/transport/relay-urls.ts';
import { decodeRunAddress } from '../network/wire/runs.ts';
import { readSnapshots } from '../network/wire/snapshots.ts';
import { connectRelays } from '../node/connect-relays.ts';
import { nativeSha256 } from '../node/native-sha256.ts';
import type { Digest } from '../run/ids.ts';
import { readSpec } from '../run/read-spec.ts';
import { type RunSpec, runIdOf } from '../run/run-spec.ts';
import { parseStakeJson } from '../run/stake-json.ts';
import { snapshotId } from '../run/stake-snapshot.ts';
import { addConnectionFlags, type ConnectionFlags, connectionOf } from '../terminal/connection.ts';
import { type BadLine, readEventFile } from './event-file.ts';
import { fetchHistory } from './from-relays.ts';
import { specsOf } from './gather.ts';
import { type BeaconLine, type Beacons, beaconsOf } from './history-beacons.ts';
import { slowly } from './slowly.ts';

export interface SourceFlags extends ConnectionFlags, EndpointFlags {
  readonly run?: string;
  readonly spec?: string;
  readonly relay: readonly string[];
  readonly events?: string;
  readonly stake?: string;
}

export interface Source {
  readonly run: Digest;
  readonly spec: RunSpec;
  readonly events: readonly SignedEvent[];
  readonly bad: readonly BadLine[];
  readonly beacons: Beacons;
}

const collect = (url: string, before: readonly string[]): readonly string[] => [...before, url];

/** `--run`, `--spec`, `--relay`, `--events` and what connecting takes. */
export const addSourceFlags = (command: Command): Command =>
  addEndpointFlags(
    addConnectionFlags(
      command
        .option('--run <id>', 'the run: its id, or naddr1…')
        .option('--spec <file>', 'its spec, where no event has it')
        .option('--stake <file>', 'its stake snapshot, where no event has it')
        .option('--relay <url>', 'relay to ask, repeatable', collect, []),
    ),
  );

/** Reads the file, or asks the relays. Throws where the run is not among what it finds. */
export async function openSource(flags: SourceFlags, signal: AbortSignal): Promise<Source> {
  const own = flags.spec === undefined ? undefined : readSpec(await readDocument(flags.spec));
  const tell = slowly();
  const wanted = runOf(flags, own);
  const {
    events: found,
    bad,
    beacons,
  } = flags.events === undefined
    ? { events: await askRelays(flags, wanted, signal), bad: [], beacons: [] }
    : await readEventFile(flags.events, (have) => tell(`${have} lines read`));
  const events = await withStakes(found, flags);
  const specs = new Map(specsOf(events));
  if (own !== undefined) specs.set(runIdOf(own), own);
  const run = wanted ?? onlyRun([...specs.keys()], bad);
  const spec = specs.get(run);
  if (spec !== undefined) {
    const found = await findBeacons({ run, spec }, events, beacons, flags, signal);
    return { run, spec, events, bad: [...bad, ...found.bad], beacons: found };
  }
  throw new ConfigError(
    'run/not-found',
    `no event here has the spec of run ${run}${placesOf(bad)}`,
    {
      hint: 'name a file that has it with --spec FILE, or ask other relays',
    },
  );
}

/** The same events, and those of the snapshot of a file unless it is among them. */
export async function withStakes(
  events: readonly SignedEvent[],
  { stake }: SourceFlags,
): Promise<readonly SignedEvent[]> {
  if (stake === undefined) return events;
  const table = orRefuse(stake, parseStakeJson(await readText(stake)));
  return readSnapshots(events, nativeSha256).has(snapshotId(table))
    ? events
    : [...events, ...toEvents(table)];
}

/** Values of the run's beacon, from the file and from endpoints. */
export function findBeacons(
  which: { readonly run: Digest; readonly spec: RunSpec },
  events: readonly SignedEvent[],
  lines: readonly BeaconLine[],
  flags: EndpointFlags,
  signal: AbortSignal,
): Promise<Beacons> {
  const tell = (words: string) => void process.stderr.write(`${words}\n`);
  const source = beaconSource(which.spec, flags);
  return beaconsOf(which, events, lines, { source, signal, tell });
}

const placesOf = (bad: readonly BadLine[]): string =>
  bad.length === 0 ? '' : `; line ${bad[0]!.line} is no event: ${bad[0]!.reason}`;

/** The run that the flags name, if they do. */
export function runOf({ run }: SourceFlags, own: RunSpec | undefined): Digest | undefined {
  if (run === undefined) return own && runIdOf(own);
  if (/^[0-9a-f]{64}$/.test(run)) return run;
  const address = decodeRunAddress(run);
  if (address.ok) return address.value.run;
  throw new ConfigError('flag/run', `--run ${run} is ${address.issue.message}`, {
    hint: 'give the 64 hex digits of the run id, or its naddr1…',
  });
}

function onlyRun(runs: readonly Digest[], bad: readonly BadLine[]): Digest {
  if (runs.length === 1) return runs[0]!;
  throw new ConfigError(
    'flag/run',
    runs.length === 0
      ? `the file has no run spec${placesOf(bad)}`
      : `the file has ${runs.length} runs`,
    { hint: runs.length === 0 ? 'add --spec FILE' : `choose one with --run: ${runs.join(', ')}` },
  );
}

async function askRelays(
  flags: SourceFlags,
  run: Digest | undefined,
  signal: AbortSignal,
): Promise<readonly SignedEvent[]> {
  if (run === undefined || flags.relay.length === 0) {
    throw new ConfigError('flag/events', 'there is nothing to read', {
      hint: 'say --events FILE, or --run ID --relay URL',
    });
  }
  return fetchFrom(flags, run, signal);
}

/** What the relays of the flags have of a run. */
export async function fetchFrom(
  flags: ConnectionFlags & Pick<SourceFlags, 'relay'>,
  run: Digest,
  signal: AbortSignal,
  since?: number,
): Promise<readonly SignedEvent[]> {
  const tell = slowly();
  const urls = parseRelayUrls(flags.relay);
  const relays = await connectRelays(urls, connectionOf(flags), passingSigner(), signal);
  try {
    const asking = { relays, signal, since, tell: (have: number) => tell(`${have} events`) };
    return await fetchHistory(run, asking);
  } finally {
    await relays.close();
  }
}
