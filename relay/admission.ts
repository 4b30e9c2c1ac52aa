/**
 * Admits connections: limits per address and in total, and an account of the work done for each. An address is an IPv4
 * address or the /64 of an IPv6 one.
 */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv6 } from 'node:net';
import type { Limits } from './limits.ts';
import { Buckets } from './rates.ts';
import type { Account } from './turns.ts';

/** Maximum sockets without a request yet, beyond the allowed connections. */
const SPARE_SOCKETS = 100;

/** Open connections and sockets of one address. */
interface Guest {
  readonly account: Account;
  count: number;
}

const newAccount = (): Account => ({ used: 0, subscribed: 0 });

export interface Admitted extends Source {
  /** A public address has one account for all its connections; near ones have one per connection. */
  readonly account: Account;
  /** Releases the slot. */
  leave(): void;
}

export class Admission {
  readonly maxSockets: number;
  readonly #limits: Limits;
  readonly #hasProxy: boolean;
  readonly #rate: Buckets;
  readonly #guests = new Map<string, Guest>();
  #count = 0;

  /** Behind a proxy, addresses come from its headers. */
  constructor(limits: Limits, hasProxy: boolean) {
    this.#limits = limits;
    this.#hasProxy = hasProxy;
    this.maxSockets = limits.maxConnections + SPARE_SOCKETS;
    this.#rate = new Buckets(limits.publicAddress?.newConnections);
  }

  /** Reports whether a socket may send a request; called before anything is read from it. */
  mayAsk(remote: string, nowMs: number): boolean {
    const source = sourceOf(remote);
    if (source.isNear) return true;
    return this.#hasCapacity(source) && this.#rate.takes(source.address, nowMs);
  }

  /** Returns a slot for a connection, or undefined if a limit is reached. */
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

/** Loopback, private and link-local networks, whose users the operator of the relay admits. */
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
  /** The unit of counting: an IPv4 address, or the /64 of an IPv6 one. */
  readonly address: string;
  /** Whether the address is in a loopback or private network, where many users share one. */
  readonly isNear: boolean;
}

/** Returns the address without its zone, and as IPv4 if it is mapped. */
const plain = (address: string): string =>
  address.replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '');

/** Returns the first four groups of an IPv6 address. */
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
