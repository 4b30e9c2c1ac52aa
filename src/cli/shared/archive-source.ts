/** Where `replay`, `explain` and `archive` read a run from: a file that `archive` wrote, or relays; what is missing, from flags. */

import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import {
  type ArchiveFile,
  archiveRun,
  type HistoryOptions,
  type Opened,
  readArchive,
} from '../../certified/archive.ts';
import { decodeRunAddress } from '../../network/wire/runs.ts';
import type { Connection } from '../../node/connect-relays.ts';
import { nativeCrypto } from '../../node/native-crypto.ts';
import { nativeSha256 } from '../../node/native-sha256.ts';
import type { Digest } from '../../run/ids.ts';
import { readSpec } from '../../run/read-spec.ts';
import { type RunSpec, runIdOf } from '../../run/run-spec.ts';
import { parseStakeJson } from '../../run/stake-json.ts';
import {
  addConnectionFlags,
  type ConnectionFlags,
  connectionOf,
} from '../../terminal/connection.ts';
import { repeatable } from '../../terminal/flags.ts';
import { writeNote } from '../../terminal/output.ts';
import { connectionFlagNames, type FlagRule } from '../../terminal/unused-flags.ts';
import { beaconSource } from './beacon.ts';
import { addEndpointFlags, type EndpointFlags } from './endpoints.ts';
import { orRefuse, readText } from './files.ts';
import { hintOption, relaysFor } from './find-run.ts';
import { readDocument } from './spec-file.ts';
import { toEvents } from './stake-refresh.ts';
import { withRelays } from './with-relays.ts';

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
        .option('--run <id>', 'the run: its id, or naddr1…')
        .option('--spec <file>', 'spec of the run, where no event has it')
        .option('--stake <file>', 'stake snapshot of the run, where no event has it')
        .addOption(hintOption())
        .addOption(
          repeatable('--relay <url>', 'relay to ask, repeatable').default([], 'those of naddr1…'),
        ),
    ),
  );

/** A file is read without asking any relay. */
export const askingRule = ({ events }: SourceFlags): FlagRule => ({
  flags: [...connectionFlagNames, 'allowPrivateRelays'],
  goesWith: 'relays that are asked; --events FILE is read alone',
  holds: events === undefined,
});

/** What the flags say of a run beside its events. */
export async function historyOptions(
  flags: SourceFlags,
  signal: AbortSignal,
): Promise<HistoryOptions> {
  const { stake } = flags;
  const spec = flags.spec === undefined ? undefined : readSpec(await readDocument(flags.spec));
  const table = stake && orRefuse(stake, parseStakeJson(await readText(stake)));
  return {
    ...{ spec, signal, crypto: nativeCrypto, sha256: nativeSha256 },
    run: runOf(flags, spec),
    snapshots: table ? toEvents(table) : [],
    beacon: (run: RunSpec) => beaconSource(run, flags),
    onNotice: writeNote,
  };
}

/** Reads the file, or asks the relays. */
export async function openSource(
  flags: SourceFlags,
  options: HistoryOptions,
  signal: AbortSignal,
): Promise<Opened> {
  const { events: file } = flags;
  const { run } = options;
  if (file !== undefined) return readArchiveFile(file);
  const { relays: urls, connection } = askedRelays(flags);
  if (run === undefined || urls.length === 0) {
    throw new ConfigError('flag/events', 'there is nothing to read', {
      hint: 'say --events FILE, --run naddr1…, or --run ID --relay URL',
    });
  }
  const report = slowly();
  const onProgress = (have: number) => report(`${have} events`);
  return withRelays(urls, { connection, signal }, ({ relays }) =>
    archiveRun(run, { ...options, relays, onProgress, signal }),
  );
}

/** The relays that flags or the address of the run name, and how to deal with them. */
export function askedRelays(flags: SourceFlags): {
  readonly relays: readonly string[];
  readonly connection: Connection;
} {
  const { relay, allowPrivateRelays, run = '' } = flags;
  const address = decodeRunAddress(run);
  const { relays, publicOnly } = address.ok
    ? relaysFor(address.value, {
        relays: relay.length > 0 ? relay : undefined,
        allowPrivateRelays,
      })
    : { relays: relay, publicOnly: false };
  return { relays, connection: { ...connectionOf(flags), publicOnly } };
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

/** The run that the flags name, if they do. */
function runOf({ run }: SourceFlags, own: RunSpec | undefined): Digest | undefined {
  if (run === undefined) return own && runIdOf(own);
  if (/^[0-9a-f]{64}$/.test(run)) return run;
  const address = decodeRunAddress(run);
  if (address.ok) return address.value.run;
  throw new ConfigError('flag/run', `--run ${run} is ${address.issue.message}`, {
    hint: 'give the 64 hex digits of the run id, or its naddr1…',
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
