/** Addresses of clients of a server, and counts by address. */
import { isIPv6, type Socket } from 'node:net';

/** Counts by name; a name whose count is zero takes no memory. */
export class Tally {
  readonly #counts = new Map<string, number>();

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  add(name: string, change: number): void {
    const count = this.of(name) + change;
    if (count === 0) this.#counts.delete(name);
    else this.#counts.set(name, count);
  }
}

/** The IPv4 address of a socket, or the first four groups (the /64 network) of an IPv6 address as `…::`. */
export function addressOf({ remoteAddress }: Socket): string {
  const address = (remoteAddress ?? '').replace(/^::ffff:(?=[\d.]+$)/i, '');
  if (!isIPv6(address)) return address;
  const groups = address.split('::')[0]!.split(':').slice(0, 4);
  return groups.join(':') === '' ? address : `${groups.join(':')}::`;
}
