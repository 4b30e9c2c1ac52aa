/**
 * WebSockets of Node for the transport, by way of `ws`. For relays that strangers named only public addresses are looked up, at every
 * connection anew.
 */

import { type LookupAddress, lookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { WebSocket } from 'ws';
import { isPublicIp } from '../../network/transport/public-hosts.ts';
import type { OpenSocket, Socket } from '../../network/transport/socket.ts';

/** A relay that sends a longer message is disconnected. */
const MAX_PAYLOAD_BYTES = 32 << 20;
/** How long a closing connection waits for the other side. */
const GOODBYE_MS = 500;

/** Opens a connection without compression: payloads are compressed already. */
export const openSocket: OpenSocket = (url) => open(url, {});

/** The same for relays that strangers named: a name that leads to a private address is not connected to. */
export const openPublicSocket: OpenSocket = (url) => open(url, { lookup: publicLookup() });

/** By how it begins: the rest would have to be copied to be read. */
const isEvent = (message: Buffer): boolean =>
  /^\s*\[\s*"EVENT"/.test(message.toString('latin1', 0, 64));

const open = (url: string, how: { readonly lookup?: LookupFunction }): Socket => {
  const ws = new WebSocket(url, {
    maxPayload: MAX_PAYLOAD_BYTES,
    perMessageDeflate: false,
    ...how,
  });
  const socket: Socket = {
    get bufferedAmount() {
      return ws.bufferedAmount;
    },
    onopen: undefined,
    onmessage: undefined,
    onerror: undefined,
    onclose: undefined,
    send: (text) => ws.send(text, () => {}), // a failed send ends in `close`
    close: () => {
      ws.close(1000);
      setTimeout(() => ws.terminate(), GOODBYE_MS).unref();
    },
  };
  ws.on('open', () => socket.onopen?.());
  ws.on('message', (data, isBinary) => {
    const bytes = data as Buffer; // `ws` gives one Buffer per message unless told otherwise
    const { longestEventBytes = MAX_PAYLOAD_BYTES } = socket;
    if (bytes.length > longestEventBytes && isEvent(bytes)) socket.onlong?.(bytes.length);
    else socket.onmessage?.(isBinary ? undefined : bytes.toString(), bytes.length);
  });
  ws.on('error', (error) => socket.onerror?.(error.message || String(error)));
  ws.on('close', (code, reason) => socket.onclose?.(code, reason.toString()));
  return socket;
};

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
