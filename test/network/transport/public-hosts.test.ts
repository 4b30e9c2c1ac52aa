/** Which relays that strangers name are connected to. */

import { hintProblem } from 'nostrain/network';
import { expect, test } from 'vitest';
import { isPublicIp } from '../../../src/network/transport/relay-urls.ts';

test.each([
  'wss://relay.damus.io',
  'wss://relay.damus.io/',
  'wss://relay.example.com:7777/nostr/v1',
  'ws://8.8.8.8',
  'ws://[2606:4700:4700::1111]:8080',
])('%s is dialled', (url) => {
  expect(hintProblem(url)).toBeUndefined();
});

test.each([
  ...['ws://127.0.0.1:7777', 'ws://127.1', 'ws://2130706433', 'ws://0x7f000001', 'ws://0.0.0.0'],
  ...[
    'ws://10.1.2.3',
    'ws://172.16.0.1',
    'ws://172.31.255.255',
    'ws://192.168.1.1',
    'ws://100.64.0.1',
  ],
  ...[
    'ws://169.254.169.254/latest/meta-data',
    'ws://224.0.0.1',
    'ws://255.255.255.255',
    'ws://198.18.0.1',
  ],
  ...['ws://[::1]', 'ws://[::]', 'ws://[fe80::1]', 'ws://[fd00::1]', 'ws://[ff02::1]'],
  ...[
    'ws://[::ffff:127.0.0.1]',
    'ws://[::ffff:10.0.0.1]',
    'ws://[64:ff9b::7f00:1]',
    'ws://[2002:7f00:1::]',
  ],
  ...['ws://[2001::1]', 'ws://[2001:db8::1]', 'ws://[3fff::1]'],
  ...[
    'ws://localhost',
    'ws://LOCALHOST.',
    'ws://router',
    'ws://nas.local',
    'ws://printer.lan',
    'ws://db.internal',
  ],
  ...['ws://abc.onion', 'ws://host.home.arpa', 'ws://a.localhost:7777'],
  ...[
    'ws://relay.damus.io:22',
    'ws://relay.damus.io:25',
    'ws://relay.damus.io:6379',
    'ws://relay.damus.io:8545',
  ],
  ...['wss://user:pass@relay.damus.io', 'wss://relay.damus.io/?token=1', 'wss://relay.damus.io/#x'],
  ...[
    'wss://relay.damus.io/a%0d%0ab',
    `wss://relay.damus.io/${'x'.repeat(80)}`,
    'https://relay.damus.io',
    'x',
  ],
])('%s is not', (url) => {
  expect(hintProblem(url)).toBeTypeOf('string');
});

test('addresses that names lead to are judged alike', () => {
  const publicOnes = ['1.1.1.1', '172.32.0.1', '192.167.0.1', '2001:200::1', '2a00:1450:4001::1'];
  expect(publicOnes.filter((ip) => !isPublicIp(ip))).toEqual([]);
  const others = ['', 'x', '1.2.3', '::1', 'fe80::1%eth0', '::ffff:8.8.8.8', '127.0.0.53'];
  expect(others.filter(isPublicIp)).toEqual([]);
});
