/** Flags of commands that ask or tell relays something once, named and set as in the Python reference; and the relay sets they use. */
import type { Command } from 'commander';
import { type Clock, systemClock } from '../../../base/clock.ts';
import { RelayError } from '../../../base/errors.ts';
import { safeLine } from '../../../base/safe-text.ts';
import { parseRelayUrls } from '../../../network/transport/relay-urls.ts';
import type { OpenSocket } from '../../../network/transport/socket.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import { openSocket } from '../../../node/net/relays.ts';
import { exactRetry } from '../../../terminal/connection.ts';
import { repeatable } from '../../../terminal/flags.ts';
import { createRelayPorts, type RelayPorts } from '../../collect/relay-ports.ts';
import { openZstd } from '../../node/zstd.ts';
import type { RelayFailure } from '../../wire/retry-telemetry.ts';
import { above0, decimal, integer, type Range } from '../number-flags.ts';

/** Time and network of a command; tests bring their own. */
export interface CommandPorts {
  readonly clock: Clock;
  readonly openSocket: OpenSocket;
}

export const machinePorts: CommandPorts = { clock: systemClock, openSocket };

export interface RelayFlags {
  readonly relay: readonly string[];
  /** Seconds. */
  readonly timeout: number;
  readonly relayRetries: number;
  /** Seconds. */
  readonly relayRetryBackoff: number;
  readonly relayRetryBackoffMax: number;
  readonly relayRetryBackoffMultiplier: number;
}

const from = (least: number): Range => ({
  says: `from ${least} on`,
  holds: (value) => value >= least,
});

/** Adds `--relay`, `--timeout` and the four `--relay-retry` flags. */
export const addRelayFlags = (command: Command, timeoutHelp: string): Command =>
  command
    .addOption(
      repeatable(
        '--relay <url>',
        'relay address, ws:// or wss://; repeatable',
      ).makeOptionMandatory(),
    )
    .addOption(decimal('--timeout <s>', timeoutHelp, above0).default(10))
    .addOption(
      integer('--relay-retries <n>', 'tries after the first one, for each relay', 0).default(0),
    )
    .addOption(
      decimal('--relay-retry-backoff <s>', 'seconds before the first retry', from(0)).default(0.25),
    )
    .addOption(
      decimal(
        '--relay-retry-backoff-max <s>',
        'longest wait before a retry, in seconds; 0 for no cap',
        from(0),
      ).default(2),
    )
    .addOption(
      decimal(
        '--relay-retry-backoff-multiplier <x>',
        'growth of the wait from one retry to the next',
        from(1),
      ).default(2),
    );

/** The relays named, each once. */
export const relaysOf = ({ relay }: RelayFlags): readonly string[] => parseRelayUrls(relay);

/** What publishing and collecting need. */
export async function relayPorts(flags: RelayFlags, ports: CommandPorts): Promise<RelayPorts> {
  return createRelayPorts({
    ...ports,
    crypto: nativeCrypto,
    retry: exactRetry(flags, 'settings/value'),
    timeoutMs: flags.timeout * 1000,
    zstd: await openZstd(),
  });
}

/** Reads from the relays that flags name. Throws when the only one failed: with several, that is told beside what was found. */
export async function readRelays<Query, Found extends { readonly failed: readonly RelayFailure[] }>(
  collect: (relays: readonly string[], query: Query, ports: RelayPorts) => Promise<Found>,
  query: Query,
  flags: RelayFlags,
  ports: CommandPorts,
): Promise<Found> {
  const relays = relaysOf(flags);
  const found = await collect(relays, query, await relayPorts(flags, ports));
  assertRead(relays, found.failed);
  return found;
}

function assertRead(relays: readonly string[], failed: readonly RelayFailure[]): void {
  const [failure] = failed;
  if (relays.length > 1 || failure === undefined) return;
  const { operation, relay, attempts, message } = failure;
  const tries = attempts === 1 ? '1 attempt' : `${attempts} attempts`;
  throw new RelayError(
    'relay/unreachable',
    `${operation} failed at ${relay} after ${tries}: ${safeLine(message)}`,
    {
      hint: 'check the address and that a relay listens there; --relay-retries N tries more often',
    },
  );
}
