/** Where a connection comes from, as far as it is to be held against it: an IPv4 address, or the /64 an IPv6 customer has. */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv6 } from 'node:net';

/** Loopback, private and link-local networks: whoever is there is let in by whoever runs the relay. */
const near = new BlockList();
for (const [network, prefix] of [
  ['127.0.0.0', 8],
  ['10.0.0.0', 8],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
  ['169.254.0.0', 16],
] as const) {
  near.addSubnet(network, prefix, 'ipv4');
}
near.addAddress('::1', 'ipv6');
near.addSubnet('fc00::', 7, 'ipv6');
near.addSubnet('fe80::', 10, 'ipv6');

export interface Source {
  /** What is counted as one: an IPv4 address, or the first half of an IPv6 one. */
  readonly address: string;
  /** Whether it is in a loopback or private network, where many share an address and are known. */
  readonly isNear: boolean;
}

/** Without zone, and as IPv4 where it is one. */
const plain = (address: string): string =>
  address.replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '');

/** The first four groups of an IPv6 address. */
function networkOf(address: string): string {
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const groups = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: 8 - groups.length - after.length }, () => '0');
  const all = tail === undefined ? groups : [...groups, ...zeros, ...after];
  return `${all.slice(0, 4).join(':')}::/64`;
}

export function sourceOf(remote: string): Source {
  const address = plain(remote);
  const isSix = isIPv6(address);
  const isNear = isIP(address) !== 0 && near.check(address, isSix ? 'ipv6' : 'ipv4');
  return { address: isSix ? networkOf(address) : address, isNear };
}

/**
 * Where a request comes from. Behind a proxy on a near address the last `X-Forwarded-For` is believed, the one the proxy
 * itself wrote; then nobody counts as near, because everybody comes through it.
 */
export function sourceOfRequest({ socket, headers }: IncomingMessage, hasProxy: boolean): Source {
  const direct = sourceOf(socket.remoteAddress ?? '');
  if (!hasProxy || !direct.isNear) return direct;
  const forwarded = String(headers['x-forwarded-for'] ?? '')
    .split(',')
    .at(-1)!
    .trim();
  const source = isIP(plain(forwarded)) === 0 ? direct : sourceOf(forwarded);
  return { ...source, isNear: false };
}
