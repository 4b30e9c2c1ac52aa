/** The WebSocket port of the transport, and its implementation for browsers; src/node/net has the one for Node. */

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
  onerror: ((message: string) => void) | undefined;
  onclose: ((code: number, reason: string) => void) | undefined;
  send(text: string): void;
  close(): void;
}

/** Opens a WebSocket to a URL; each environment brings its own. */
export type OpenSocket = (url: string) => Socket;

const encoder = new TextEncoder();
/** By how it begins: the rest would have to be read. */
const EVENT_START = /^\s*\[\s*"EVENT"/;
/** A relay that sends a longer message is disconnected, by UTF-16 units, which are at most the bytes on the wire. */
const MAX_CHARACTERS = 32 << 20;
const TOO_LONG = 1009;
/** What a connection that never came to be ends with. */
const ABNORMAL = 1006;

/** Opens a connection; an address that the browser refuses ends like one that nobody answers. */
export const openSocket: OpenSocket = (url) => {
  let ws: WebSocket | undefined;
  const socket: Socket = {
    get bufferedAmount() {
      return ws?.bufferedAmount ?? 0;
    },
    onopen: undefined,
    onmessage: undefined,
    onerror: undefined,
    onclose: undefined,
    send: (text) => {
      // a connection that is closing takes nothing more, and says so by its end
      if (ws?.readyState === WebSocket.OPEN) ws.send(text);
    },
    close: () => ws?.close(1000),
  };
  try {
    ws = new WebSocket(url);
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    queueMicrotask(() => {
      socket.onerror?.(words);
      socket.onclose?.(ABNORMAL, words);
    });
    return socket;
  }
  ws.onopen = () => socket.onopen?.();
  ws.onmessage = ({ data }) => {
    if (typeof data !== 'string') {
      socket.onmessage?.(undefined, 0);
      return;
    }
    const { length } = data;
    if (length > MAX_CHARACTERS) {
      ws?.close(TOO_LONG);
      return;
    }
    const isLong = length > (socket.longestEventBytes ?? Number.POSITIVE_INFINITY);
    if (isLong && EVENT_START.test(data.slice(0, 64))) socket.onlong?.(length);
    else socket.onmessage?.(data, encoder.encode(data).length);
  };
  ws.onerror = () => socket.onerror?.('the connection failed');
  ws.onclose = ({ code, reason }) => socket.onclose?.(code, reason);
  return socket;
};
