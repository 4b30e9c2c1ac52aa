/** Fake sockets: the test plays the relay, accepts or refuses connections, and sends the messages. */
import type { OpenSocket, Socket } from 'nostrain/network';

export interface FakeSocket extends Socket {
  readonly url: string;
  bufferedAmount: number;
  /** Parsed messages that the client sent. */
  readonly sent: readonly (readonly unknown[])[];
  accept(): void;
  refuse(message?: string): void;
  /** A frame from the relay. */
  hear(...frame: readonly unknown[]): void;
  hearText(text: string | undefined, bytes?: number): void;
  drop(code?: number): void;
}

export interface FakeSockets {
  readonly openSocket: OpenSocket;
  /** Every attempt to connect, in order. */
  readonly attempts: readonly FakeSocket[];
  /** The latest attempt. */
  latest(): FakeSocket;
}

function createFakeSocket(url: string): FakeSocket {
  const sent: (readonly unknown[])[] = [];
  let isGone = false;
  const end = (code: number, reason: string) => {
    if (isGone) return;
    isGone = true;
    socket.onclose?.(code, reason);
  };
  const socket: FakeSocket = {
    url,
    bufferedAmount: 0,
    sent,
    onopen: undefined,
    onmessage: undefined,
    onerror: undefined,
    onclose: undefined,
    send: (text) => void sent.push(JSON.parse(text)),
    close: () => end(1000, ''),
    accept: () => socket.onopen?.(),
    refuse: (message = 'refused') => {
      socket.onerror?.(message);
      end(1006, '');
    },
    hear: (...frame) => socket.hearText(JSON.stringify(frame)),
    hearText: (text, bytes = text?.length ?? 0) => socket.onmessage?.(text, bytes),
    drop: (code = 1006) => end(code, ''),
  };
  return socket;
}

/** `onAttempt` may accept or refuse at once, as soon as the transport listens. */
export function createFakeSockets(
  onAttempt?: (socket: FakeSocket, index: number) => void,
): FakeSockets {
  const attempts: FakeSocket[] = [];
  return {
    attempts,
    latest: () => attempts.at(-1)!,
    openSocket: (url) => {
      const socket = createFakeSocket(url);
      const index = attempts.push(socket) - 1;
      if (onAttempt) queueMicrotask(() => onAttempt(socket, index));
      return socket;
    },
  };
}
