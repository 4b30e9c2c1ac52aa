/** Ten hostile clients of a relay, one attack each; all go on until they are told to stop. */
import { createHash, randomBytes } from 'node:crypto';
import { signSchnorr, xOnlyPointFromScalar } from 'tiny-secp256k1';
import { WebSocket } from 'ws';

/** What one attack may use: connections that are replaced when the relay ends them, and a pause. */
interface Tools {
  readonly signal: AbortSignal;
  open(): Promise<WebSocket>;
  pause(ms: number): Promise<void>;
}

type Attack = (tools: Tools) => Promise<void>;

type Draft = readonly [kind: number, tags: readonly string[][], content: string];

const MIB = 1 << 20;
/** Sent and not taken by the relay yet: an attacker waits then, so as not to drown itself. */
const UNSENT_BYTES = 4 * MIB;

function sign(secret: Buffer, [kind, tags, content]: Draft): string {
  const pubkey = Buffer.from(xOnlyPointFromScalar(secret)).toString('hex');
  const created_at = Math.floor(Date.now() / 1000);
  const preimage = JSON.stringify([0, pubkey, created_at, kind, tags, content]);
  const digest = createHash('sha256').update(preimage).digest();
  const sig = Buffer.from(signSchnorr(digest, secret)).toString('hex');
  const event = { id: digest.toString('hex'), pubkey, created_at, kind, tags, content, sig };
  return JSON.stringify(['EVENT', event]);
}

const mark = () => randomBytes(8).toString('hex');

/** Sends as fast as the relay takes it, and connects again when it hangs up. */
const flood =
  (make: () => string): Attack =>
  async ({ signal, open, pause }) => {
    while (!signal.aborted) {
      const ws = await open();
      while (!signal.aborted && ws.readyState === ws.OPEN) {
        for (let i = 0; i < 16 && ws.bufferedAmount < UNSENT_BYTES; i++) ws.send(make());
        await pause(1);
      }
      ws.terminate();
    }
  };

function floodEvents(draft: () => Draft, keyOf: () => Buffer): Attack {
  return flood(() => sign(keyOf(), draft()));
}

/** Asks, waits for the answer, and asks again. */
const ask =
  (question: () => string, more?: (answer: unknown[]) => string | undefined): Attack =>
  async ({ signal, open, pause }) => {
    while (!signal.aborted) {
      const ws = await open();
      ws.on('message', (data) => {
        const answer = JSON.parse(String(data)) as unknown[];
        if (answer[0] === 'EVENT') return;
        const next = more?.(answer) ?? question();
        void pause(1).then(() => ws.readyState === ws.OPEN && ws.send(next));
      });
      ws.send(question());
      while (!signal.aborted && ws.readyState === ws.OPEN) await pause(50);
      ws.terminate();
    }
  };

const oneKey = () => {
  const secret = randomBytes(32);
  return () => secret;
};
const everything = Array.from({ length: 9 }, () => ({ since: 1 }));
const endless = `61${'ff'.repeat(150)}7f0001${'00'.repeat(16)}`;

export const attacks: Readonly<Record<string, Attack>> = {
  'endless number in NEG-OPEN': ask(() => JSON.stringify(['NEG-OPEN', 'n', {}, endless])),
  'syncs over everything': ask(
    () => JSON.stringify(['NEG-OPEN', mark(), {}, '6100000200']),
    ([verb, id]) =>
      verb === 'NEG-MSG' ? JSON.stringify(['NEG-OPEN', id, {}, '6100000200']) : undefined,
  ),
  'counting everything nine times': ask(() => JSON.stringify(['COUNT', 'c', ...everything])),
  'asking for everything, reading nothing': async ({ signal, open, pause }) => {
    while (!signal.aborted) {
      const deaf = await Promise.all(Array.from({ length: 20 }, open));
      for (const ws of deaf) {
        ws.pause();
        for (let i = 0; i < 32; i++) ws.send(JSON.stringify(['REQ', `${i}`, {}]));
      }
      await pause(10_000);
      for (const ws of deaf) ws.terminate();
    }
  },
  'addressable events, one key': floodEvents(() => [30_000, [['d', mark()]], ''], oneKey()),
  'regular events, a new key each': floodEvents(
    () => [1000, [], mark()],
    () => randomBytes(32),
  ),
  'events of 2,000 tags': floodEvents(
    () => [1000, Array.from({ length: 2000 }, () => ['t', mark()]), ''],
    oneKey(),
  ),
  'deletions of 2,000 events': floodEvents(
    () => [5, Array.from({ length: 2000 }, () => ['e', mark().repeat(4)]), ''],
    oneKey(),
  ),
  'brackets, 2 MB a message': flood(() => '['.repeat(2 * MIB)),
  'connecting over and over, half a message each': async ({ signal, open, pause }) => {
    while (!signal.aborted) {
      const some = await Promise.all(Array.from({ length: 50 }, open));
      for (const ws of some) {
        // a frame of 2 MB whose second half never comes
        const head = Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0, 0x20, 0, 0, 1, 2, 3, 4]);
        const { _socket: socket } = ws as unknown as { _socket: NodeJS.WritableStream };
        socket.write(Buffer.concat([head, Buffer.alloc(MIB)]));
      }
      await pause(2000);
      for (const ws of some) ws.terminate();
    }
  },
};

/** Starts all attacks; resolves once the signal has ended them. */
export async function attack(url: string, signal: AbortSignal): Promise<void> {
  const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
  const open = async (): Promise<WebSocket> => {
    for (;;) {
      const ws = new WebSocket(url, { perMessageDeflate: false });
      ws.on('error', () => ws.terminate());
      const isOpen = await new Promise<boolean>((resolve) => {
        ws.on('open', () => resolve(true));
        ws.on('close', () => resolve(false));
      });
      if (isOpen || signal.aborted) return ws;
      await pause(100);
    }
  };
  await Promise.all(Object.values(attacks).map((each) => each({ signal, open, pause })));
}
