/** A relay set with one relay whose answers the test gives, on a clock that the test moves. */
import type { RetryPolicy } from 'nostrain/base';
import { createRelaySet, type RelaySetOptions } from 'nostrain/network';
import { createFakeSockets, type FakeSocket } from './fake-sockets.ts';
import { createManualClock } from './manual-clock.ts';

export const PUBLIC = 'wss://a.test';
export const PRIVATE = 'ws://127.0.0.1:7777';

const retry: RetryPolicy = {
  maxAttempts: 4,
  initialMs: 250,
  maxMs: 2000,
  multiplier: 2,
  jitter: 'none',
};

/** Draws 0.5 for all jitter unless told otherwise: no event but the first of its kind is asked back. */
export function openOne(
  url: string,
  options: Partial<RelaySetOptions> = {},
  onAttempt: (socket: FakeSocket, index: number) => void = (socket) => socket.accept(),
) {
  const clock = createManualClock();
  const sockets = createFakeSockets(onAttempt);
  const set = createRelaySet([url], {
    openSocket: sockets.openSocket,
    clock,
    retry,
    random: () => 0.5,
    ...options,
  });
  const status = () => set.status()[0]!;
  return { clock, sockets, set, status };
}

/** Returns the frames with one verb that were sent over this socket. */
export const sentWith = (socket: FakeSocket, verb: string): readonly (readonly unknown[])[] =>
  socket.sent.filter(([name]) => name === verb);

/** Answers every event sent so far with this OK, as often as it was sent. */
export function answerAll(socket: FakeSocket, accepted: boolean, message = ''): void {
  for (const [, event] of sentWith(socket, 'EVENT')) {
    socket.hear('OK', (event as { id: string }).id, accepted, message);
  }
}
