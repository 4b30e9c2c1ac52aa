/** Frames to a relay on this machine have a mask of zeros, which costs nothing; others are masked. */
import type { AddressInfo } from 'node:net';
import { openSocket } from 'nostrain/node';
import { expect, test } from 'vitest';
import { WebSocketServer } from 'ws';

/** Returns the bytes of the first frame of a text that is sent to this host. */
async function firstFrame(host: string): Promise<Buffer> {
  const server = new WebSocketServer({ port: 0 });
  const frame = new Promise<Buffer>((resolve) => {
    server.on('connection', (_, { socket }) => {
      // copied before the server unmasks it
      socket.prependOnceListener('data', (data) => resolve(Buffer.from(data)));
    });
  });
  const socket = openSocket(`ws://${host}:${(server.address() as AddressInfo).port}`);
  socket.onopen = () => socket.send('in clear');
  const bytes = await frame;
  socket.close();
  server.close();
  return bytes;
}

test('only on this machine a frame is not masked', async () => {
  const direct = await firstFrame('127.0.0.1');
  expect([...direct.subarray(2, 6)]).toEqual([0, 0, 0, 0]);
  expect(direct.subarray(6).toString()).toBe('in clear');
  // also this machine, but not by its name
  const other = await firstFrame('0.0.0.0');
  expect(other[1]! & 0x80).toBe(0x80);
  expect(other.subarray(6).toString()).not.toBe('in clear');
});
