/** The WebSocket port of the transport, and its browser implementation; `src/node/net` has the one for Node. */

/** One connection. Callbacks are not called with errors: every failure ends in `onclose`, exactly once. */
export interface Socket {
  /** Bytes accepted by `send` and not yet handed to the network. */
  readonly bufferedAmount: number;
  /** Set by the opener: longer events go to `onlong` instead of `onmessage`. */
  longestEventBytes?: number | undefined;
  onopen: (() => void) | undefined;
  /** Receives a message and its length on the wire; the text is undefined if the message was not text. */
  onmessage: ((text: string | undefined, bytes: number) => void) | undefined;
  /** Receives the length of an event that is longer than `longestEventBytes`; the event is not read. */
  onlong?: ((bytes: number) => void) | undefined;
  onerror: ((message: string) => void) | undefined;
  onclose: ((code: number, reason: string) => void) | undefined;
  send(text: string): void;
  close(): void;
}

/** Opens a WebSocket to a URL; each environment brings its own. */
export type OpenSocket = (url: string) => Socket;

const encoder = new TextEncoder();
/** Start of an EVENT message; avoids parsing the rest. */
const EVENT_START = /^\s*\[\s*"EVENT"/;
/** Longest message, in UTF-16 units (at most its bytes on the wire); a relay that sends more is disconnected. */
const MAX_CHARACTERS = 32 << 20;
const TOO_LONG = 1009;
/** Close code of a connection that was never established. */
const ABNORMAL = 1006;

/** Opens a connection. An address that the browser refuses ends like one that does not answer. */
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
      // a closing connection drops messages; `onclose` reports it
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
