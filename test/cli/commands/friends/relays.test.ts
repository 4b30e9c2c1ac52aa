/** Where friends meet: a relay on the local network, given relays, or public ones that pass the test. */
import { mkdtempSync } from 'node:fs';
import type { NetworkInterfaceInfo } from 'node:os';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRelay } from 'nostrain/relay';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import {
  type MeetingPorts,
  openRelays,
  type RelayWishes,
} from '../../../../src/cli/commands/friends/relays.ts';
import type { KeptLobby } from '../../../../src/node/files/kept-lobby.ts';
import type { CheckedRelay, Verdict } from '../../../../src/probe/index.ts';
import { keyOf } from '../../../support/swarm.ts';

const notes: string[] = [];
beforeEach(() => {
  vi.stubEnv('NOSTRAIN_HOME', mkdtempSync(join(tmpdir(), 'nostrain-relays-')));
  notes.length = 0;
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    notes.push(String(text));
    return true;
  });
  return () => {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  };
});

const { signal } = new AbortController();
const kept: KeptLobby = { host: keyOf(0), name: 'winter', relays: [], people: 2, typed: '' };
const wishes: RelayWishes = { relays: [], lan: false, asks: false, signal };
const ipv4 = (address: string, internal = false) =>
  ({ family: 'IPv4', address, internal }) as NetworkInterfaceInfo;

const portsWith = (ports: Partial<MeetingPorts>): MeetingPorts => ({
  interfaces: () => ({}),
  check: async () => [],
  ask: async () => {
    throw new TypeError('nothing is asked here');
  },
  ...ports,
});

/** Ports of a person whose friends are elsewhere; the test of the n-th relay takes `carries[n]` and `ms[n]`. */
const publicPorts = (carries: readonly Verdict['carries'][], ms: readonly number[] = []) =>
  portsWith({
    ask: async (_, choices) => choices.find(({ value }) => value === 'public')!.value,
    check: async (urls) =>
      urls.map(
        (url, at) =>
          ({
            report: { url, openedMs: ms[at] ?? at },
            verdict: { carries: carries[at] ?? 'nothing' },
          }) as CheckedRelay,
      ),
  });

const opened = async (more: Partial<RelayWishes>, ports: Partial<MeetingPorts> = {}) => {
  const result = await openRelays('winter', kept, { ...wishes, ...more }, portsWith(ports));
  onTestFinished(() => result.local?.close());
  return result;
};

describe('--lan', () => {
  const interfaces = () => ({
    lo: [ipv4('127.0.0.1', true)],
    docker0: [ipv4('172.17.0.1')],
    eth0: [ipv4('8.8.8.8')],
    wlan0: [ipv4('192.168.1.5')],
  });

  it('takes the address that friends reach, and says which port a firewall must open', async () => {
    const { urls, local, kept: stored } = await opened({ lan: true }, { interfaces });
    expect(urls).toEqual([`ws://192.168.1.5:${local!.port}`]);
    expect(stored).toEqual({ host: '0.0.0.0', port: local!.port });
    expect(notes.join('')).toContain(`allow incoming TCP port ${local!.port}`);
  });

  it('adds given relays to that of the host', async () => {
    const relays = ['wss://relay.example.org'];
    const { urls } = await opened({ lan: true, relays }, { interfaces });
    expect(urls.length).toBe(2);
    expect(urls[1]).toBe(relays[0]);
  });

  it('needs a network', async () => {
    const offline = () => ({ lo: [ipv4('127.0.0.1', true)], docker0: [ipv4('172.17.0.1')] });
    await expect(opened({ lan: true }, { interfaces: offline })).rejects.toMatchObject({
      code: 'relay/no-network',
      hint: expect.stringContaining('--relay URL'),
    });
  });
});

describe('public relays', () => {
  it('are those that carry a run, the fastest first, four at most', async () => {
    const carries = ['chunks', 'heartbeats', 'manifests', 'chunks', 'chunks', 'chunks'] as const;
    const { urls } = await opened({ asks: true }, publicPorts(carries, [50, 1, 40, 30, 20, 10]));
    expect(urls).toEqual([
      'wss://nostr.mom',
      'wss://relay.snort.social',
      'wss://offchain.pub',
      'wss://relay.primal.net',
    ]);
  });

  it('are at least two, or the host is told what to do', async () => {
    await expect(opened({ asks: true }, publicPorts(['chunks']))).rejects.toMatchObject({
      code: 'relay/none-usable',
      message: '1 of 6 public relays carry a run; 2 are needed',
      hint: expect.stringContaining('--relay URL'),
    });
  });
});

it('scripts are asked nothing: the relay is on this machine, unless they name one', async () => {
  const { urls } = await opened({});
  expect(urls[0]).toMatch(/^ws:\/\/127\.0\.0\.1:\d+$/);
  expect(notes.join('')).toContain('add --lan');
  const named = await opened({ relays: ['wss://relay.example.org'] });
  expect(named).toEqual({ urls: ['wss://relay.example.org'], kept: undefined });
});

it('a lobby that opens again needs its port, and says so if another program has it', async () => {
  const other = await createRelay();
  onTestFinished(() => other.close());
  const relay = { host: '127.0.0.1', port: other.port };
  const again = { ...kept, relays: [other.url], relay };
  await expect(openRelays('winter', again, wishes, portsWith({}))).rejects.toMatchObject({
    code: 'relay/listen',
    message: `port ${other.port} is used by another program`,
  });
});
