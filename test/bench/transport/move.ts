/**
 * Moves a payload in chunks over a relay of ours on loopback: the relay, the sender and the receiver each a process of its
 * own, every chunk verified by relay and receiver. Beside it, in the same run, the same frames over a bare WebSocket, unread.
 */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { systemClock } from 'nostrain/base';
import {
  Attachments,
  buildManifest,
  chunkCount,
  createRelaySet,
  createSigner,
  type Manifest,
  sendChunks,
  toManifest,
} from 'nostrain/network';
import { nativeCrypto, nativeSha256, openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { WebSocket, WebSocketServer } from 'ws';

export interface Progress {
  readonly payloadBytes: number;
  readonly sendSeconds: number;
  readonly pullSeconds: number;
  readonly bareSeconds: number;
  /** Bytes the receiver read from its socket. */
  readonly wireBytes: number;
}

const me = createSigner(new Uint8Array(32).fill(1), nativeCrypto);

/** Sends and pulls a payload of so many bytes; throws when other bytes arrive. */
export async function movePayload(payloadBytes: number): Promise<Progress> {
  const relay = await startChild('relay');
  const payload = Uint8Array.from({ length: payloadBytes }, (_, i) => (i * 31) ^ (i >>> 9));
  const createdAt = Math.floor(Date.now() / 1000);
  const lifetime = { createdAt, expiresAt: createdAt + 3600 };
  const sendSeconds = await timed(() => send(relay.url, payload, lifetime));
  let wireBytes = 0;
  const manifest = manifestOf(payload, lifetime);
  const pullSeconds = await timed(async () => {
    wireBytes = await pull(relay.url, manifest, payload);
  });
  relay.stop();
  const bare = await startChild('bare');
  const bareSeconds = await timed(() => drain(bare.url, chunkCount(payloadBytes)));
  bare.stop();
  return { payloadBytes, sendSeconds, pullSeconds, bareSeconds, wireBytes };
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return (performance.now() - startedMs) / 1000;
}

interface Lifetime {
  readonly createdAt: number;
  readonly expiresAt: number;
}

const connect = (url: string) =>
  createRelaySet([url], { openSocket, clock: systemClock, crypto: nativeCrypto });

async function send(url: string, payload: Uint8Array, lifetime: Lifetime): Promise<void> {
  const relays = connect(url);
  await relays.ready();
  const { enough } = sendChunks([payload], 1, {
    relays,
    sign: (draft) => me.sign(draft),
    sha256: nativeSha256,
    lifetime,
    signal: new AbortController().signal,
  });
  if (!(await enough)) throw new Error('the relay did not take every chunk');
  await relays.close();
}

function manifestOf(payload: Uint8Array, lifetime: Lifetime): Manifest {
  const own = { run: 'r', round: 0, base: 'ab'.repeat(32), codec: 'nstr', examples: 1, steps: 1 };
  const { draft } = buildManifest(own, payload, lifetime, nativeSha256);
  const context = { run: 'r', round: 0, base: own.base };
  const limits = { maxPayloadBytes: 1e9, nowSeconds: lifetime.createdAt };
  const judged = toManifest(me.sign(draft), { ...context, ...limits });
  if (!judged.ok) throw new Error(judged.rejection.detail);
  return judged.value;
}

async function pull(url: string, manifest: Manifest, payload: Uint8Array): Promise<number> {
  const relays = connect(url);
  await relays.ready();
  const puller = new Attachments({ relays, clock: systemClock, sha256: nativeSha256 });
  const found = await puller.pull(manifest).done;
  if (!found || Buffer.compare(found.payload, payload) !== 0) throw new Error('other bytes came');
  const [status] = relays.status();
  puller.close();
  await relays.close();
  return status?.bytesIn ?? 0;
}

/** Reads so many frames from a socket and does nothing with them. */
function drain(url: string, frames: number): Promise<void> {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  socket.on('open', () => socket.send(`${frames}`));
  return new Promise((resolve, reject) => {
    let left = frames;
    socket.on('error', reject);
    socket.on('message', () => {
      left--;
      if (left > 0) return;
      socket.close();
      resolve();
    });
  });
}

const FRAME = 'x'.repeat(61_000);

/** As `bare`, sends the frames it is asked for, with some in flight. */
async function serveBare(): Promise<string> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
  await new Promise((resolve) => server.on('listening', resolve));
  server.on('connection', (socket) => {
    socket.on('message', (data) => {
      let left = Number(data.toString());
      const next = () => {
        if (left-- > 0) socket.send(FRAME, next);
      };
      for (let i = 0; i < 16; i++) next();
    });
  });
  const address = server.address();
  return `ws://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
}

async function startChild(role: 'relay' | 'bare') {
  const execArgv = ['--import', 'tsx', '--conditions=nostrain:source'];
  const child = fork(fileURLToPath(import.meta.url), [role], { execArgv });
  const url = await new Promise<string>((resolve, reject) => {
    child.once('message', (message) => resolve(String(message)));
    child.once('exit', (code) => reject(new Error(`the ${role} ended at once (${code})`)));
  });
  return { url, stop: () => void child.kill() };
}

const [, , role] = process.argv;
if (process.send && (role === 'relay' || role === 'bare')) {
  const url = role === 'relay' ? (await createRelay()).url : await serveBare();
  process.send(url);
}
