/** Where `replay`, `explain` and `archive` read a run from: a file that `archive` wrote, or relays; what is missing, from flags. */

import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import {
  type ArchiveFile,
  archiveRun,
  type HistoryOptions,
  type Opened,
  readArchive,
} from '../../certified/records/archive.ts';
import { readDocument } from '../../node/files/documents.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import type { RelayReach as Reach } from '../../node/net/relays.ts';
import { readSpec } from '../../run/spec/read-spec.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import { parseStakeJson } from '../../run/stake/stake-json.ts';
import {
  addConnectionFlags,
  type ConnectionFlags,
  connectionFlagNames,
  connectionOf,
} from '../../terminal/connection.ts';
import { repeatable } from '../../terminal/flags.ts';
import type { FlagRule } from '../../terminal/options.ts';
import { writeNote } from '../../terminal/output.ts';
import { beaconSource } from './beacon.ts';
import { addEndpointFlags, type EndpointFlags } from './endpoints.ts';
import { orRefuse, readText } from './files.ts';
import { hintOption } from './member-flags.ts';
import { eventsIn } from './record-folder.ts';
import { toEvents } from './stake-refresh.ts';
import { locateRun, withRelays } from './with-relays.ts';

export interface SourceFlags extends ConnectionFlags, EndpointFlags {
  readonly run?: string;
  readonly spec?: string;
  readonly relay: readonly string[];
  readonly events?: string;
  readonly stake?: string;
  readonly allowPrivateRelays?: boolean;
}

/** `--run`, `--spec`, `--relay`, `--stake`, the endpoints of chains, and how to deal with relays. */
export const addSourceFlags = (command: Command): Command =>
  addEndpointFlags(
    addConnectionFlags(
      command
        .option('--run <run>', 'the run: its id, naddr1…, or its name on this machine')
        .option('--spec <file>', 'spec of the run, where no event has it')
        .option('--stake <file>', 'stake snapshot of the run, where no event has it')
        .addOption(
          repeatable('--relay <url>', 'relay to ask, repeatable').default([], 'those of --run'),
        )
        .addOption(hintOption()),
    ),
  );

/** A file is read without asking any relay. */
export const askingRule = ({ events }: SourceFlags): FlagRule => ({
  flags: [...connectionFlagNames, 'allowPrivateRelays'],
  goesWith: 'relays that are asked; --events FILE is read alone',
  holds: events === undefined,
});

/** What the flags say of a run beside its events, and which relays have those. */
export interface Source {
  readonly options: HistoryOptions;
  readonly reach: Reach & { readonly relays: readonly string[] };
}

/** Reads the files that the flags name, and finds the run that `--run` means. */
export async function sourceOf(flags: SourceFlags, signal: AbortSignal): Promise<Source> {
  const { stake, relay, allowPrivateRelays, events } = flags;
  // a file is read without asking those that an address names
  const isNamed = relay.length > 0 || events !== undefined;
  const asked = { relays: isNamed ? relay : undefined, allowPrivateRelays };
  const place = flags.run === undefined ? undefined : await locateRun(flags.run, asked);
  const own = flags.spec === undefined ? undefined : readSpec(await readDocument(flags.spec));
  const spec = own ?? place?.spec;
  const table = stake && orRefuse(stake, parseStakeJson(await readText(stake)));
  const connection = { ...connectionOf(flags), ...(place?.publicOnly ? { publicOnly: true } : {}) };
  return {
    options: {
      spec,
      signal,
      crypto: nativeCrypto,
      sha256: nativeSha256,
      run: place?.run ?? (own && runIdOf(own)),
      snapshots: table ? toEvents(table) : [],
      beacon: (run: RunSpec) => beaconSource(run, flags),
      onNotice: writeNote,
    },
    reach: { connection, signal, relays: place?.relays ?? relay },
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
  const report = slowly();
  const onProgress = (have: number) => report(`${have} events`);
  return withRelays(reach.relays, reach, ({ relays }) =>
    archiveRun(run, { ...options, relays, onProgress, signal }),
  );
}

/** An archive from the disk; throws `events/file` where it cannot be read. */
export function readArchiveFile(file: string): Promise<ArchiveFile> {
  const report = slowly();
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
export function slowly(): (words: string) => void {
  let toldAt = Date.now();
  return (words) => {
    if (Date.now() - toldAt < PATIENCE_MS) return;
    toldAt = Date.now();
    writeNote(words);
  };
}
