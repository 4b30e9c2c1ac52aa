/** `nostrain relay`: runs the relay that ships with nostrain, for a local network or the internet. */

import { networkInterfaces } from 'node:os';
import type { FaultSettings } from '../../../relay/faults/settings.ts';
import { parseFaults } from '../../../relay/faults/settings.ts';
import { type ProfileName, profiles } from '../../../relay/profiles.ts';
import { createRelay, type Relay } from '../../../relay/server.ts';
import { ConfigError } from '../../base/errors.ts';
import { defineCommand } from '../../terminal/command.ts';
import {
  choice,
  type FlagValues,
  parsed,
  text,
  whole,
  withDefault,
} from '../../terminal/flag-table.ts';
import { untilInterrupted } from '../../terminal/interrupt.ts';
import { refuseUnused } from '../../terminal/options.ts';
import { writeNote, writeOut } from '../../terminal/output.ts';
import { pageFolder } from '../shared/page-folder.ts';

const relayFlags = {
  host: withDefault(
    text('<address>', 'address to listen on; 0.0.0.0 for all interfaces'),
    '127.0.0.1',
  ),
  port: withDefault(whole('<n>', 'port to listen on; 0 for any free port', 0, 65535), 7777),
  maxEventBytes: whole(
    '<n>',
    'maximum event size in bytes (default: 2 MiB, or that of --strict)',
    1024,
  ),
  store: text(
    '<folder>',
    'folder to keep events in; events are synced before they are acknowledged',
  ),
  maxStoreBytes: whole(
    '<n>',
    'maximum bytes of stored events, also in memory; a full store evicts old events ' +
      '(default: 1 GiB)',
    1,
  ),
  strict: choice(
    '<name>',
    'imitate this relay: its limits, messages and information document',
    Object.keys(profiles) as ProfileName[],
  ),
  auth: withDefault(
    choice('<who>', 'clients that must authenticate (NIP-42): none, writers, or all', [
      'none',
      'write',
      'all',
    ]),
    'none',
  ),
  minPow: whole('<bits>', 'required proof of work of events, in bits (NIP-13)', 0, 256),
  publicUrl: parsed(
    '<url>',
    'public URL of the relay, if it has a host name or is behind a proxy',
    publicUrlFlag,
  ),
  faults: parsed(
    '<list>',
    'inject faults, as JSON or as drop=0.1,delay=normal:50,10,forge=0.05',
    faultsFlag,
  ),
  seed: {
    ...whole('<n>', 'random seed of --faults; the same seed gives the same faults', 0),
    group: 'Advanced:',
  },
  page: whole(
    '<port>',
    'also serve the run page on this port, with the runs on this relay; 0 for any free port',
    0,
    65535,
  ),
};

type RelayFlags = FlagValues<typeof relayFlags>;

export const relay = defineCommand({
  name: 'relay',
  help:
    'run a relay for training runs; it verifies signatures and keeps events in memory or ' +
    'on disk',
  flags: relayFlags,
  async run(flags, { command }) {
    refuseUnused(command, [
      { flags: ['seed'], goesWith: '--faults', holds: flags.faults !== undefined },
    ]);
    const { maxStoreBytes: maxStoredBytes } = flags;
    const limits = maxStoredBytes === undefined ? {} : { maxStoredBytes };
    const server = await createRelay({ ...flags, limits }).catch((cause: unknown) => {
      throw wordStartError(flags, cause);
    });
    const interrupted = untilInterrupted();
    for (const url of reachableUrls(flags.host, server)) writeOut(`relay at ${url}\n`);
    const where = flags.store ? `are kept in ${flags.store}` : 'are kept in memory only';
    writeNote(`give a URL to the other workers; press Ctrl-C to stop (events ${where})`);
    const names = describeNames(flags, server);
    if (names !== undefined) writeNote(names);
    const page = await pageOf(flags, server);
    await interrupted;
    await page?.close();
    const { eventsAccepted, eventsRefused } = server.stats();
    await server.close();
    writeNote(`\nstopped: ${eventsAccepted} events accepted, ${eventsRefused} refused`);
  },
});

/** Serves the run page for the runs of this relay, if --page is given. */
async function pageOf({ host, page }: RelayFlags, server: Relay) {
  if (page === undefined) return undefined;
  const { readPage, servePage } = await import('../../node/net/http-server.ts');
  const served = await servePage(await readPage(pageFolder()), { host, port: page });
  const [relay = server.url] = reachableUrls(host, server);
  writeOut(`page at ${served.url}#${new URLSearchParams({ relay })}\n`);
  return served;
}

function publicUrlFlag(text: string): string {
  if (/^wss?:/i.test(text) && URL.canParse(text)) return text;
  throw new ConfigError('flag/value', `--public-url is ${JSON.stringify(text)}`, {
    hint: 'use a WebSocket URL, such as wss://relay.example.org',
  });
}

function faultsFlag(text: string): FaultSettings {
  const faults = parseFaults(text);
  if (typeof faults !== 'string') return faults;
  throw new ConfigError('flag/value', `--faults is ${JSON.stringify(text)}: ${faults}`, {
    hint: 'use a list such as drop=0.1,delay=normal:50,10,forge=0.05',
  });
}

/** Returns which relay URL clients must sign in AUTH events; undefined if they cannot get it wrong. */
function describeNames({ auth, host, publicUrl }: RelayFlags, { port }: Relay): string | undefined {
  if (publicUrl !== undefined) return `AUTH and requests to vanish must name ${publicUrl}`;
  if ((auth ?? 'none') === 'none' && host === '127.0.0.1') return undefined;
  const named = `AUTH and requests to vanish must name this address and port ${port}`;
  return `${named}; if the relay has a host name, set --public-url`;
}

/** Returns the URLs of the relay: one per address of this machine if it listens on all interfaces. */
function reachableUrls(host: string, { url, port }: Relay): readonly string[] {
  if (host !== '0.0.0.0' && host !== '::') return [url];
  const addresses = Object.values(networkInterfaces())
    .flat()
    .filter((address) => address?.family === 'IPv4' && !address.internal)
    .map((address) => `ws://${address?.address}:${port}`);
  return addresses.length > 0 ? addresses : [`ws://127.0.0.1:${port}`];
}

/** Returns the error for a relay that cannot start, with a hint to use another port or folder. */
function wordStartError({ host, port, store }: RelayFlags, cause: unknown): ConfigError {
  const { code, syscall } = cause as NodeJS.ErrnoException;
  if (store !== undefined && syscall !== 'listen' && syscall !== 'getaddrinfo') {
    const why = cause instanceof Error ? cause.message : String(cause);
    return new ConfigError('relay/store', `cannot keep events in ${store}: ${why}`, {
      hint: 'use another --store, or leave it out to keep events in memory',
      cause,
    });
  }
  const why =
    code === 'EADDRINUSE' ? 'another program already listens there' : String(code ?? cause);
  return new ConfigError('relay/listen', `cannot listen on ${host}:${port}: ${why}`, {
    hint: 'use another --port (0 for any free port), or stop the program that listens there',
    cause,
  });
}
