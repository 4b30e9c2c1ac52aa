/** What `placement check` asks relays: who announces itself as a holder, who vouches for holders, and who is a member of a run. */

import type { Command } from 'commander';
import { ConfigError } from '../../../base/errors.ts';
import { standOf } from '../../../certified/history/catch-up.ts';
import type { BoardOptions } from '../../../certified/wire/runs.ts';
import type { SignedEvent } from '../../../network/event.ts';
import type { RelaySet } from '../../../network/transport/relay-set.ts';
import { attestationFilter, holderFilter } from '../../../network/wire/holders.ts';
import { tablesOf } from '../../../node/join/join-run.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import type { WorkerId } from '../../../run/ids.ts';
import type { PlacementPolicy } from '../../../run/placement-policy.ts';
import type { RunSpec } from '../../../run/spec/run-spec.ts';
import {
  addConnectionFlags,
  type ConnectionFlags,
  connectionFlagNames,
  connectionOf,
} from '../../../terminal/connection.ts';
import { repeatable } from '../../../terminal/flags.ts';
import { refuseUnused } from '../../../terminal/options.ts';
import { neededBeacon } from '../../shared/beacon.ts';
import {
  addFollowFlags,
  type FollowFlags,
  followFlagNames,
  hintOption,
} from '../../shared/member-flags.ts';
import { readStakeFile } from '../../shared/stake-refresh.ts';
import { findRun, withRelays } from '../../shared/with-relays.ts';

export interface AskFlags extends ConnectionFlags, FollowFlags {
  readonly relay?: readonly string[];
  readonly run?: string;
  readonly allowPrivateRelays?: boolean;
}

export interface Asked {
  readonly events: readonly SignedEvent[];
  /** The roster of the run, if one is named: nobody else may hold. */
  readonly members: readonly WorkerId[] | undefined;
  /** What is placed: as a file says, else as the run does. */
  readonly policy: PlacementPolicy | undefined;
}

/** `--relay`, `--run`, and how to deal with relays. */
export const addAskFlags = (command: Command): Command =>
  addFollowFlags(
    addConnectionFlags(
      command
        .addOption(repeatable('--relay <url>', 'relay to ask for holders, repeatable'))
        .option('--run <run>', 'members of this certified run alone (file, naddr1… or name)')
        .addOption(hintOption()),
    ),
  );

/** Refuses flags about relays and runs where none is named. */
export function checkAskFlags(command: Command, { relay, run }: AskFlags): void {
  refuseUnused(command, [
    { flags: followFlagNames, goesWith: '--run', holds: run !== undefined },
    {
      flags: connectionFlagNames,
      goesWith: '--relay or --run',
      holds: run !== undefined || relay !== undefined,
    },
  ]);
}

/** Holders that announce themselves, what attestors say of them, and the members of the run that is named. */
export async function askRelays(
  flags: AskFlags,
  own: PlacementPolicy | undefined,
  signal: AbortSignal,
): Promise<Asked> {
  const { relay, run, allowPrivateRelays } = flags;
  const connection = connectionOf(flags);
  if (run === undefined && relay === undefined)
    return { events: [], members: undefined, policy: own };
  const found =
    run === undefined
      ? { relays: relay ?? [], connection, spec: undefined }
      : await findRun(run, { relays: relay, allowPrivateRelays, connection, signal });
  if (found.relays.length === 0) {
    throw new ConfigError('flag/relay', 'the file of a run names no relay', {
      hint: 'say where its workers meet: --relay URL',
    });
  }
  const policy = own ?? found.spec?.placement ?? undefined;
  const attestors = policy?.attestors ?? [];
  const filters = [holderFilter(), ...(attestors.length > 0 ? [attestationFilter(attestors)] : [])];
  const waitMs = flags.timeout * 1000;
  return withRelays(found.relays, { connection: found.connection, signal }, async (board) => {
    const { events } = await board.relays.query(filters, { waitMs, signal });
    const members = found.spec && (await membersOf(found.spec, flags, board));
    return { events, members, policy };
  });
}

async function membersOf(
  spec: RunSpec,
  flags: AskFlags,
  board: BoardOptions & { readonly relays: RelaySet },
): Promise<readonly WorkerId[]> {
  const beacon = neededBeacon(spec, flags);
  const tables = tablesOf(await readStakeFile(flags.stake));
  const { ledger } = await standOf(spec, { ...board, beacon, tables, crypto: nativeCrypto });
  return ledger.members.map(({ key }) => key);
}
