/** The port through which the transport reaches a WebSocket; `src/node/net/relays.ts` fills it on Node, `browser-sockets.ts` in a browser. */

/** One connection. It never throws from callbacks' side: what goes wrong ends in `onclose`, exactly once. */
export interface Socket {
  /** Bytes accepted by `send` and not yet handed to the network. */
  readonly bufferedAmount: number;
  /** Set by who opened it: a longer event is handed to `onlong` in place of `onmessage`. */
  longestEventBytes?: number | undefined;
  onopen: (() => void) | undefined;
  /** One message and its length on the wire; the text is undefined when the message was not text. */
  onmessage: ((text: string | undefined, bytes: number) => void) | undefined;
  /** An event was longer than that, by its length; it is not read. */
  onlong?: ((bytes: number) => void) | undefined;
  /** Why the connection is about to close. */
  onerror: ((message: string) => void) | undefined;
  /** The connection is gone, or never came to be. */
  onclose: ((code: number, reason: string) => void) | undefined;
  send(text: string): void;
  /** Starts closing; `onclose` follows. */
  close(): void;
}

export type OpenSocket = (url: string) => Socket;
