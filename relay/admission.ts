/**
 * Admits connections: limits per address and in total, and an account of the work done for each. An address is an IPv4
 * address or the /64 of an IPv6 one.
 */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv6 } from 'node:net';
import type { Limits } from './limits.ts';
import { Buckets } from './rates.ts';
import type { Account } from './turns.ts';

/** Sockets that have not said yet what they want, beyond the connections allowed. */
const SPARE_SOCKETS = 100;

/** What is open from one address. */
interface Guest {
  readonly account: Account;
  count: number;
}

const newAccount = (): Account => ({ used: 0, subscribed: 0 });

export interface Admitted extends Source {
  /** A public address has one for all its connections; near ones have one each. */
  readonly account: Account;
  /** Gives the place back. */
  leave(): void;
}

export class Admission {
  readonly maxSockets: number;
  readonly #limits: Limits;
  readonly #hasProxy: boolean;
  readonly #rate: Buckets;
  readonly #guests = new Map<string, Guest>();
  #count = 0;

  /** With a proxy in front, addresses are those it names. */
  constructor(limits: Limits, hasProxy: boolean) {
    this.#limits = limits;
    this.#hasProxy = hasProxy;
    this.maxSockets = limits.maxConnections + SPARE_SOCKETS;
    this.#rate = new Buckets(limits.publicAddress?.newConnections);
  }

  /** Whether a socket may say what it wants; asked before anything is read from it. */
  mayAsk(remote: string, nowMs: number): boolean {
    const source = sourceOf(remote);
    if (source.isNear) return true;
    return this.#hasCapacity(source) && this.#rate.takes(source.address, nowMs);
  }

  /** A place for a connection, or undefined when it is one too many. */
  admit(request: IncomingMessage, nowMs: number): Admitted | undefined {
    const source = sourceOfRequest(request, this.#hasProxy);
    if (!this.#hasCapacity(source)) return undefined;
    const isForwarded = this.#hasProxy && sourceOf(request.socket.remoteAddress ?? '').isNear;
    if (isForwarded && !this.#rate.takes(source.address, nowMs)) return undefined;
    const { address, isNear } = source;
    const guest = this.#guests.get(address) ?? { account: newAccount(), count: 0 };
    this.#guests.set(address, guest);
    guest.count++;
    this.#count++;
    const leave = () => {
      this.#count--;
      if (--guest.count === 0) this.#guests.delete(address);
    };
    return { address, isNear, account: isNear ? newAccount() : guest.account, leave };
  }

  #hasCapacity({ address, isNear }: Source): boolean {
    const { maxConnections, publicAddress } = this.#limits;
    const most = isNear ? maxConnections / 2 : (publicAddress?.connections ?? maxConnections);
    return this.#count < maxConnections && (this.#guests.get(address)?.count ?? 0) < most;
  }
}

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
 * Returns the source of a request. Behind a proxy on a near address it is the last `X-Forwarded-For`, which the proxy
 * itself wrote; then no source counts as near.
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
