/** Flags of how long relays are listened to, and the query of one round that collect-events and aggregate-round share. */
import { type Command, Option } from 'commander';
import type { Patience } from '../../collect/collect.ts';
import type { GradientsQuery, SyncStrategy } from '../../collect/gradients.ts';
import { above0, decimal, integer } from '../number-flags.ts';
import { addRelayFlags, type RelayFlags } from './relay-flags.ts';

export interface ListeningFlags extends RelayFlags {
  readonly run: string;
  /** Unix seconds. */
  readonly since?: number;
  /** Seconds. */
  readonly idleTimeout: number;
  readonly maxWait?: number;
}

export interface RoundFlags extends ListeningFlags {
  readonly round: number;
  readonly limit?: number;
  readonly sync: SyncStrategy;
  readonly discoverWorkers?: true;
  readonly heartbeatSince?: number;
  /** Seconds. */
  readonly heartbeatIdleTimeout?: number;
  readonly maxMissedHeartbeats: number;
}

/** Adds the relay flags, `--run`, `--since`, `--idle-timeout` and `--max-wait`. */
export const addListeningFlags = (command: Command): Command =>
  addRelayFlags(command, 'seconds a connection may take')
    .requiredOption('--run <name>', 'name of the training run')
    .addOption(integer('--since <unix>', 'only events from this time on, unix seconds', 0))
    .addOption(
      decimal(
        '--idle-timeout <s>',
        'stop after so many seconds without a message from the relay',
        above0,
      ).default(2),
    )
    .addOption(
      decimal(
        '--max-wait <s>',
        'stop after so many seconds, whatever the relay sends (default: 60, or 30 idle timeouts if that is longer)',
        above0,
      ),
    );

export const patienceOf = ({ idleTimeout, maxWait }: ListeningFlags): Patience => ({
  idleMs: idleTimeout * 1000,
  maxMs: maxWait === undefined ? undefined : maxWait * 1000,
});

/** Adds what collect-events and aggregate-round have in common. */
export const addRoundFlags = (command: Command): Command =>
  addListeningFlags(command)
    .addOption(integer('--round <n>', 'the round, from 0', 0).makeOptionMandatory())
    .addOption(integer('--limit <n>', 'stop when this many workers are in', 1))
    .addOption(
      new Option(
        '--sync <strategy>',
        'what to wait for: silence (timeout), all known workers (strict), most of them (quorum), or nothing beyond what relays store (async)',
      )
        .choices(['timeout', 'strict', 'quorum', 'async'])
        .default('timeout'),
    )
    .option('--discover-workers', 'look for heartbeats first; strict and quorum always do')
    .addOption(
      integer(
        '--heartbeat-since <unix>',
        'only heartbeats from this time on, unix seconds (default: --since)',
        0,
      ),
    )
    .addOption(
      decimal(
        '--heartbeat-idle-timeout <s>',
        'the idle timeout while looking for heartbeats, in seconds (default: --idle-timeout)',
        above0,
      ),
    )
    .addOption(
      integer(
        '--max-missed-heartbeats <n>',
        'a worker is gone after missing this many of its own intervals',
        1,
      ).default(3),
    );

export function roundQuery(flags: RoundFlags): GradientsQuery {
  const { run, round, limit, since, sync, maxMissedHeartbeats: maxMissed } = flags;
  const patience = patienceOf(flags);
  const { heartbeatIdleTimeout: idle, heartbeatSince } = flags;
  return {
    run,
    round,
    limit,
    since,
    sync,
    ...patience,
    discover: flags.discoverWorkers ?? false,
    heartbeats: {
      idleMs: idle === undefined ? patience.idleMs : idle * 1000,
      since: heartbeatSince,
      maxMissed,
    },
  };
}
