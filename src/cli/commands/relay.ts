/** `nostrain relay`: the small relay we ship, on an address others can reach. */
import { networkInterfaces } from 'node:os';
import { Command } from 'commander';
import { createRelay, type Relay } from '../../../relay/server.ts';
import { ConfigError } from '../../base/errors.ts';
import { wholeFlag } from '../flags.ts';
import { untilInterrupted } from '../interrupt.ts';

interface RelayFlags {
  readonly host: string;
  readonly port: number;
  readonly maxEventBytes: number;
}

export const relay = (): Command =>
  new Command('relay')
    .description('run a relay for a training run: in memory, signatures checked')
    .option('--host <address>', 'address to listen on; 0.0.0.0 lets others in', '127.0.0.1')
    .option(
      '--port <n>',
      'port to listen on; 0 takes any free one',
      wholeFlag('--port', 0, 65535),
      7777,
    )
    .option(
      '--max-event-bytes <n>',
      'largest event taken',
      wholeFlag('--max-event-bytes', 1024),
      2 * 1024 * 1024,
    )
    .action(async ({ host, port, maxEventBytes }: RelayFlags) => {
      const server = await startRelay({ host, port, maxEventBytes });
      for (const url of reachableUrls(host, server)) process.stdout.write(`relay at ${url}\n`);
      process.stderr.write(
        'give a URL to the others; Ctrl-C stops it (events are kept in memory only)\n',
      );
      await untilInterrupted();
      const { eventsAccepted, eventsRefused } = server.stats();
      await server.close();
      process.stderr.write(`\nstopped: ${eventsAccepted} events taken, ${eventsRefused} refused\n`);
    });

/** Where others find it: every address of this machine when it listens on all of them. */
function reachableUrls(host: string, { url, port }: Relay): readonly string[] {
  if (host !== '0.0.0.0' && host !== '::') return [url];
  const addresses = Object.values(networkInterfaces())
    .flat()
    .filter((address) => address?.family === 'IPv4' && !address.internal)
    .map((address) => `ws://${address?.address}:${port}`);
  return addresses.length > 0 ? addresses : [`ws://127.0.0.1:${port}`];
}

/** Starts the relay, or says which port is taken and what to do. */
export async function startRelay(options: RelayFlags): Promise<Relay> {
  try {
    return await createRelay(options);
  } catch (cause) {
    throw wordStartError(options, cause);
  }
}

function wordStartError({ host, port }: RelayFlags, cause: unknown): ConfigError {
  const code = (cause as NodeJS.ErrnoException).code;
  const why = code === 'EADDRINUSE' ? 'something already listens there' : String(code ?? cause);
  return new ConfigError('relay/listen', `cannot listen on ${host}:${port}: ${why}`, {
    hint: 'choose another --port (0 takes any free one), or stop what listens there',
    cause,
  });
}
