/** The relays of a lobby: given ones, one that the host runs, or public ones that pass the probe. */
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { createRelay, type Relay } from '../../../../relay/server.ts';
import { ConfigError } from '../../../base/errors.ts';
import { isPrivateRelay } from '../../../network/transport/relay-urls.ts';
import { type KeptLobby, lobbyFolder } from '../../../node/files/kept-lobby.ts';
import { choose } from '../../../terminal/ask.ts';
import { writeNote } from '../../../terminal/output.ts';
import { checkRelaysWithPorts } from '../relays.ts';

export interface RelayWishes {
  readonly relays: readonly string[];
  /** Run a relay that the local network reaches. */
  readonly lan: boolean;
  /** Whether a person can answer questions. */
  readonly asks: boolean;
  readonly signal: AbortSignal;
}

/** The relays of a lobby; `local` is the one that the host runs. */
export interface LobbyRelays {
  readonly urls: readonly string[];
  readonly local?: Relay | undefined;
  readonly kept: KeptLobby['relay'];
}

/** The network of this machine and the person at it; tests pass their own. */
export interface MeetingPorts {
  readonly interfaces: typeof networkInterfaces;
  readonly check: typeof checkRelaysWithPorts;
  readonly ask: typeof choose;
}

const usualPorts: MeetingPorts = {
  interfaces: networkInterfaces,
  check: checkRelaysWithPorts,
  ask: choose,
};

/** Public relays that are tried if friends are elsewhere; those that pass the probe are used. */
const PUBLIC = [
  'wss://relay.damus.io',
  'wss://nos.lol',
  'wss://relay.primal.net',
  'wss://offchain.pub',
  'wss://relay.snort.social',
  'wss://nostr.mom',
];
const LEAST_PUBLIC = 2;
const MOST_PUBLIC = 4;
const PROBE_MS = 30_000;
const USUAL_PORT = 7777;
const LOOPBACK = '127.0.0.1';
/** Networks of containers, virtual machines and tunnels, which friends do not reach. */
const VIRTUAL = /^(?:docker|br-|veth|virbr|vmnet|vboxnet|utun|tun|tap|wg|zt)/;

/** Opens the relays of a lobby that was opened before, or chooses them. */
export async function openRelays(
  name: string,
  kept: KeptLobby,
  wishes: RelayWishes,
  ports = usualPorts,
): Promise<LobbyRelays> {
  const { relay, relays: urls } = kept;
  if (urls.length > 0) {
    const local = relay && (await startRelay(name, relay));
    return { urls, local, kept: relay };
  }
  const { relays: given } = wishes;
  const where = wishes.lan || given.length > 0 ? undefined : await askPlace(wishes, ports);
  if (where === 'public') {
    return { urls: await publicRelays(wishes.signal, ports), kept: undefined };
  }
  if (given.length > 0 && !wishes.lan) return { urls: given, kept: undefined };
  const isLan = wishes.lan || where === 'lan';
  const address = isLan ? lanAddress(ports) : LOOPBACK;
  const host = isLan ? '0.0.0.0' : LOOPBACK;
  const local = await startRelay(name, { host, port: USUAL_PORT }).catch((error: unknown) => {
    if (!(error instanceof ConfigError) || error.code !== 'relay/listen') throw error;
    return startRelay(name, { host, port: 0 });
  });
  const url = `ws://${address}:${local.port}`;
  writeNote(
    isLan
      ? `a relay runs at ${url}; if a firewall asks, allow incoming TCP port ${local.port}`
      : 'only this machine reaches the relay: add --lan for your network, or --relay URL',
  );
  return { urls: [url, ...given], local, kept: { host, port: local.port } };
}

const startRelay = (
  name: string,
  { host, port }: NonNullable<KeptLobby['relay']>,
): Promise<Relay> =>
  createRelay({ host, port, store: join(lobbyFolder(name), 'relay') }).catch((cause: unknown) => {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE' || code === 'EACCES') {
      throw new ConfigError('relay/listen', `port ${port} is used by another program`, {
        hint: 'stop that program, for example another `nostrain relay`, or use another name',
        cause,
      });
    }
    throw new ConfigError('relay/store', `the relay of the lobby cannot start: ${message}`, {
      hint: 'free disk space, or use another relay with --relay URL',
      cause,
    });
  });

/** Returns the address of this machine in its local network. Throws a ConfigError (`relay/no-network`). */
function lanAddress({ interfaces }: MeetingPorts): string {
  const addresses = Object.entries(interfaces())
    .filter(([name]) => !VIRTUAL.test(name))
    .flatMap(([, each = []]) => each)
    .filter(({ family, internal }) => family === 'IPv4' && !internal)
    .map(({ address }) => address);
  const address = addresses.find((each) => isPrivateRelay(`ws://${each}`)) ?? addresses[0];
  if (address !== undefined) return address;
  throw new ConfigError('relay/no-network', 'this machine is in no local network', {
    hint: 'connect to the network of your friends, or use public relays with --relay URL',
  });
}

/** Asks where the friends are; in scripts they are on this machine. */
const askPlace = async (
  { asks, signal }: RelayWishes,
  { ask }: MeetingPorts,
): Promise<'lan' | 'public' | 'here'> =>
  asks
    ? ask(
        'Where are your friends?',
        [
          { value: 'lan', label: 'In the same network', hint: 'a relay runs on this machine' },
          { value: 'public', label: 'Elsewhere', hint: 'over public relays, tested first' },
          { value: 'here', label: 'On this machine', hint: 'to try it out' },
        ],
        signal,
      )
    : 'here';

/** Returns public relays that carry a run. Throws a ConfigError (`relay/none-usable`) if there are fewer than two. */
async function publicRelays(
  signal: AbortSignal,
  { check }: MeetingPorts,
): Promise<readonly string[]> {
  writeNote(`testing ${PUBLIC.length} public relays, which takes up to ${PROBE_MS / 1000} s`);
  const checked = await check(PUBLIC, { timeLimitMs: PROBE_MS, signal });
  const usable = checked
    .filter(({ verdict: { carries } }) => carries === 'chunks' || carries === 'manifests')
    .sort((a, b) => (a.report.openedMs ?? 0) - (b.report.openedMs ?? 0))
    .map(({ report: { url } }) => url);
  if (usable.length >= LEAST_PUBLIC) return usable.slice(0, MOST_PUBLIC);
  throw new ConfigError(
    'relay/none-usable',
    `${usable.length} of ${PUBLIC.length} public relays carry a run; ${LEAST_PUBLIC} are needed`,
    {
      hint: 'name relays with --relay URL; `nostrain relays check URL` says what one allows',
    },
  );
}
