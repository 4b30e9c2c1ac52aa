/** `nostrain run join`: trains as one worker of a run with a spec. Flags become options of `openJoin`. */
import type { Command } from 'commander';
import { countedWork, describeCounted } from '../../../certified/records/counted.ts';
import type { CertifiedSummary, RunEvent } from '../../../certified/rounds/events.ts';
import { limitOfStrangers } from '../../../certified/security-report.ts';
import { findLocalRun, withHistory } from '../../../node/files/local-runs.ts';
import { openJoin } from '../../../node/join/join-run.ts';
import type { WorkerId } from '../../../run/ids.ts';
import {
  joinNames,
  type PartialSettings,
  settingNames,
  unspecifiedNames,
} from '../../../run/settings.ts';
import { type RunSpec, tierName } from '../../../run/spec/run-spec.ts';
import { defineCommand, type Invocation } from '../../../terminal/command.ts';
import { connectionOf } from '../../../terminal/connection.ts';
import {
  type FlagValues,
  settingFlags,
  several,
  text,
  toggle,
  untoggle,
} from '../../../terminal/flag-table.ts';
import {
  type FlagRule,
  refuseUnused,
  settingsFromFile,
  settingsFromFlags,
} from '../../../terminal/options.ts';
import { writeNote } from '../../../terminal/output.ts';
import { assertWritable, stateOutputFlags } from '../../../terminal/state-flags.ts';
import { workerFlags } from '../../../terminal/worker-flags.ts';
import type { WorkerState } from '../../../worker/state.ts';
import { neededBeacon } from '../../shared/beacon.ts';
import { fetchFiles, fetchFlags, fetchText } from '../../shared/chunks.ts';
import { accessOf } from '../../shared/endpoints.ts';
import { holdRules, openChunks } from '../../shared/holder-flags.ts';
import { type MemberFlags, memberFlags, privateRelaysFlag } from '../../shared/member-flags.ts';
import { deletionsNextTo } from '../../shared/notes.ts';
import { runWorkerCommand } from '../../shared/run-worker.ts';
import { createRefreshPort, readStakeFile } from '../../shared/stake-refresh.ts';

const SHARD =
  'part of the data to train on, such as 2/4 (default: by founder position, otherwise by key)';

/** Flags of a command that joins a run. */
export const joinFlags = {
  allowPrivateRelays: privateRelaysFlag,
  discoverRelays: toggle(
    'also use relays that workers of the run name in heartbeats and relay lists (NIP-65)',
  ),
  advertiseRelay: several(
    '<url>',
    'relay to name in heartbeats, without user, password and query; repeatable (default: none)',
  ),
  ...settingFlags(),
  ...workerFlags('your data folder'),
  ...stateOutputFlags,
  machine: text('<program>', 'prints evidence for the user data in its argument; or simulated'),
  allowSimulated: toggle('join a run that accepts simulated machines, which prove nothing'),
  ...memberFlags,
  ...fetchFlags,
  bunker: text(
    '<address>',
    'train for the key behind this remote signer (bunker://…, NIP-46), which signs one ' +
      'delegation; for runs created with --set sessions=true',
  ),
  seats: untoggle(
    'request no committee seats, in runs created with --set seatWishes=true; the next ' +
      'start without this flag requests them again',
  ),
};

export type JoinFlags = FlagValues<typeof joinFlags>;

export const joinRun = defineCommand({
  name: 'join',
  help: 'train as one worker of a run; run the same command again to resume',
  args: [['<run>', 'file, naddr1…, link or name of the run']],
  flags: joinFlags,
  finish: finishJoinHelp,
  run: (flags, invocation) => trainIn(invocation.args[0], flags, invocation),
});

/** Hides settings that the spec fixes; they are accepted too, and refused if they differ. */
export function finishJoinHelp({ options }: Command): void {
  for (const option of options) {
    const name = option.attributeName();
    if (name === 'shard') option.description = SHARD;
    const isSetting = settingNames.some((each) => each === name);
    if (isSetting && !joinNames.some((each) => each === name)) option.hideHelp();
  }
}

/** What a command adds to a join. */
export interface JoinExtras {
  /** Relays to use instead of those that were typed. */
  readonly relays?: readonly string[] | undefined;
  /** Whether to download the text from the address in the spec, which the user trusts. */
  readonly trustsAddress?: boolean;
  /** Stream of the reports; default stdout. */
  readonly stream?: NodeJS.WriteStream | undefined;
  /** Called before training with the spec and a function that shows a notice. */
  onOpen?(spec: RunSpec, notify: (message: string) => void): void;
  onEvent?(event: RunEvent): void;
}

export interface JoinedRun {
  readonly spec: RunSpec;
  readonly me: WorkerId;
  readonly state: WorkerState;
  /** Every round that this worker finished, oldest first. */
  readonly history: readonly CertifiedSummary[];
}

/**
 * Trains in the run of this file or address until it ends or Ctrl-C, and tells what of the work did not count. Returns
 * undefined after Ctrl-C.
 */
export async function trainIn(
  source: string,
  flags: JoinFlags,
  { command, signal }: Invocation,
  extras: JoinExtras = {},
): Promise<JoinedRun | undefined> {
  assertWritable(flags);
  const file = flags.settings === undefined ? {} : await settingsFromFile(flags.settings);
  const requested: PartialSettings = { ...file, ...settingsFromFlags(command) };
  const stake = await readStakeFile(flags.stake);
  let close = async (): Promise<void> => undefined;
  let me = '';
  try {
    const joined = await openJoin(source, {
      ...flags,
      relays: extras.relays ?? requested.relay,
      settings: requested,
      connection: connectionOf(flags),
      advertise: flags.advertiseRelay,
      stake,
      wantsSeats: () => flags.seats !== false,
      onSpec: (spec) => {
        refuseUnused(command, [...joinRules(spec, requested), ...holdRules(spec, flags)]);
        const limit = limitOfStrangers(spec);
        if (limit !== undefined) writeNote(`warning: ${limit}`);
      },
      onNotice: writeNote,
      signal,
      beacon: (spec) => neededBeacon(spec, flags),
      stakes: (spec, relays) =>
        createRefreshPort(spec, { given: stake, chain: chainOf(spec, flags) }, relays, signal),
      deletedNotes: deletionsNextTo(connectionOf(flags)),
      chunks: (spec, worker) => openChunks(spec, { ...worker, flags }),
      sealedFile: (spec, file, reach) => fetchText(file, flags, reach, spec),
      files: (spec, named, reach) => {
        const address = (extras.trustsAddress && spec.dataFrom) || undefined;
        return fetchFiles(spec, { ...named, corpus: named.corpus ?? address }, flags, reach);
      },
    });
    close = joined.close;
    const { spec, session } = joined;
    const state = await runWorkerCommand(session, flags, {
      title: `run ${spec.name}, ${tierName(spec)} tier`,
      signal,
      stream: extras.stream,
      onOpen: (notify) => extras.onOpen?.(spec, notify),
      onEvent: (event) => {
        if (event.type === 'hello') me = event.worker;
        extras.onEvent?.(event);
      },
    });
    if (state === undefined) return undefined;
    const { history } = await withHistory(await findLocalRun(session.dir));
    for (const line of describeCounted(countedWork(history, state.round, me))) writeNote(line);
    return { spec, me, state, history };
  } finally {
    await close();
  }
}

/**
 * Access to the chain for the next stake snapshot, if the worker has endpoints. It waits for the block for up to one
 * round.
 */
const chainOf = ({ timing }: RunSpec, flags: MemberFlags) =>
  flags.rpc.length === 0
    ? undefined
    : accessOf({ ...flags, wait: Math.ceil(timing.graceMaxMs / 1000) });

/** Returns which flags this run can use. */
function joinRules(spec: RunSpec, { sync }: PartialSettings): readonly FlagRule[] {
  const { sessions, seatWishes, start, tiers, data, machines } = spec;
  const rule = (name: string, goesWith: string, holds: boolean) => ({
    flags: [name],
    goesWith,
    holds,
  });
  const isStrict = sync?.strategy === 'strict';
  return [
    { flags: unspecifiedNames, goesWith: 'runs without a spec', holds: false },
    rule(
      'sync',
      'runs without a spec; here only strict:N, which sets how many workers to wait for',
      isStrict,
    ),
    rule('machine', 'runs that accept only some machines', machines.vendors.length > 0),
    rule('bunker', 'runs created with --set sessions=true', sessions),
    rule('seats', 'runs created with --set seatWishes=true', seatWishes),
    rule('base', 'runs that start from a published model', start !== null),
    rule('tier', 'runs with tiers', tiers > 0),
    rule('tierStrategy', 'runs with tiers of a published model', tiers > 0 && start !== null),
    rule('corpus', 'runs that train on a corpus', data.kind !== 'made'),
  ];
}
