/** Name resolution for relays that strangers named: whatever the name, only public addresses come back, at every connection anew. */
import { type LookupAddress, lookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { isPublicIp } from '../network/transport/public-hosts.ts';

type Resolve = (
  hostname: string,
  options: { readonly all: true; readonly family?: number },
  callback: (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void,
) => void;

/** For the `lookup` of sockets and requests; `resolve` default the system's. */
export const publicLookup =
  (resolve: Resolve = lookup): LookupFunction =>
  (hostname, { all, family }, callback) => {
    const wanted = typeof family === 'number' ? { family } : {};
    resolve(hostname, { all: true, ...wanted }, (error, found) => {
      const usable = error ? [] : found.filter(({ address }) => isPublicIp(address));
      const [first] = usable;
      if (error) callback(error, '', 4);
      else if (!first) callback(new Error(`${hostname} leads to a private address`), '', 4);
      else if (all) callback(null, usable);
      else callback(null, first.address, first.family);
    });
  };
