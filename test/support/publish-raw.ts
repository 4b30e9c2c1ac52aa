/** Publishes events to a relay unchecked, so that a test can send invalid ones. */
import { WebSocket } from 'ws';

export async function publishRaw(url: string, events: readonly unknown[]): Promise<void> {
  const socket = new WebSocket(url);
  await new Promise((resolve) => socket.once('open', resolve));
  let answers = 0;
  const answered = new Promise<void>((resolve) => {
    socket.on('message', () => {
      answers += 1;
      if (answers >= events.length) resolve();
    });
  });
  for (const event of events) socket.send(JSON.stringify(['EVENT', event]));
  await answered;
  socket.close();
}
