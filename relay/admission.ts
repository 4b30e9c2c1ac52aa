/** Who may connect: so many connections in all and of each address, and each with an account of the work done for it. */
import type { IncomingMessage } from 'node:http';
import { type Source, sourceOf, sourceOfRequest } from './addresses.ts';
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
    return this.#hasRoom(source) && this.#rate.takes(source.address, nowMs);
  }

  /** A place for a connection, or undefined when it is one too many. */
  admit(request: IncomingMessage, nowMs: number): Admitted | undefined {
    const source = sourceOfRequest(request, this.#hasProxy);
    if (!this.#hasRoom(source)) return undefined;
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

  #hasRoom({ address, isNear }: Source): boolean {
    const { maxConnections, publicAddress } = this.#limits;
    const most = isNear ? maxConnections / 2 : (publicAddress?.connections ?? maxConnections);
    return this.#count < maxConnections && (this.#guests.get(address)?.count ?? 0) < most;
  }
}
