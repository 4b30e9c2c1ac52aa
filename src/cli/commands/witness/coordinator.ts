/**
 * What the same rotation costs where a coordinator publishes the witnesses and everybody reads them: one write and N reads.
 * Measured against a relay of ours on this machine, or computed from stated numbers where N is large.
 */
import { createRelay } from '../../../../relay/server.ts';
import { systemClock } from '../../../base/async.ts';
import { createSigner, type SignedEvent } from '../../../network/event.ts';
import type { Socket } from '../../../network/transport/socket.ts';
import { createSecretKey } from '../../../node/files/keys.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import { openSocket } from '../../../node/net/relays.ts';
import { processorMs } from './draw-bench.ts';

/** Measured up to here. */
export const MOST_MEASURED = 1000;
const CONNECTIONS = 50;
/** A regular kind that nothing of ours uses. */
const KIND = 1573;

/** Milliseconds of processor time of one write and N reads over loopback: the relay's and the readers' together. */
export async function measureCoordinator(members: number, seats: number): Promise<number> {
  const relay = await createRelay();
  const sockets = await Promise.all(
    Array.from({ length: Math.min(members, CONNECTIONS) }, () => connect(relay.url)),
  );
  try {
    const event = announce(seats);
    const start = processorMs();
    await ask(sockets[0]!, ['EVENT', event], 'OK');
    await Promise.all(
      sockets.map(async (socket, i) => {
        for (let reader = i; reader < members; reader += sockets.length) {
          await ask(socket, ['REQ', `${reader}`, { ids: [event.id] }], 'EOSE');
          socket.send(JSON.stringify(['CLOSE', `${reader}`]));
        }
      }),
    );
    return processorMs() - start;
  } finally {
    for (const socket of sockets) socket.close();
    await relay.close();
  }
}

/** Milliseconds by the model: a round trip to write, one to read, and the relay's time for N reads. */
export const modelCoordinator = (
  members: number,
  { rttMs, readsPerSecond }: { readonly rttMs: number; readonly readsPerSecond: number },
): number => 2 * rttMs + (1000 * members) / readsPerSecond;

/** The witnesses of a rotation as a coordinator would state them. */
function announce(seats: number): SignedEvent {
  const signer = createSigner(createSecretKey(), nativeCrypto);
  const content = Array.from({ length: seats }, () => signer.publicKey).join(' ');
  const created_at = Math.floor(systemClock.now() / 1000);
  return signer.sign({ kind: KIND, created_at, tags: [], content });
}

const connect = (url: string): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = openSocket(url);
    socket.onopen = () => resolve(socket);
    socket.onclose = () => reject(new Error('the relay hung up'));
  });

/** Sends a frame and waits for the answer of this verb. */
const ask = (socket: Socket, frame: readonly unknown[], verb: string): Promise<void> =>
  new Promise((resolve, reject) => {
    socket.onclose = () => reject(new Error('the relay hung up'));
    socket.onmessage = (text) => {
      if (text?.startsWith(`["${verb}"`)) resolve();
    };
    socket.send(JSON.stringify(frame));
  });
