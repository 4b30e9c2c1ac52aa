/** Load for one relay: signed events made in advance, publishers that pipeline, subscribers that only count. */
import { createHash, randomBytes } from 'node:crypto';
import { signSchnorr, xOnlyPointFromScalar } from 'tiny-secp256k1';
import { WebSocket } from 'ws';

/** Events one publisher sends before it waits for an OK. */
const WINDOW = 32;

/** Regular kinds, so that a relay keeps each event: one to ingest, one that subscribers ask for. */
export const kinds = { ingest: 1573, fanOut: 1574 } as const;

/** EVENT messages whose content has so many bytes, each signed by one of a few keys. */
export function makeEvents(count: number, bytes: number, kind: number): readonly Buffer[] {
  const mark = randomBytes(4).toString('hex');
  const secrets = Array.from({ length: 8 }, () => randomBytes(32));
  const created_at = Math.floor(Date.now() / 1000);
  return Array.from({ length: count }, (_, i) => {
    const secret = secrets[i % secrets.length]!;
    const pubkey = Buffer.from(xOnlyPointFromScalar(secret)).toString('hex');
    const tags = [['t', mark]];
    const content = `${i} `.padEnd(bytes, 'A');
    const preimage = JSON.stringify([0, pubkey, created_at, kind, tags, content]);
    const digest = createHash('sha256').update(preimage).digest();
    const sig = Buffer.from(signSchnorr(digest, secret)).toString('hex');
    const event = { id: digest.toString('hex'), pubkey, created_at, kind, tags, content, sig };
    return Buffer.from(JSON.stringify(['EVENT', event]));
  });
}

const open = (url: string): Promise<WebSocket> =>
  new Promise((resolve, reject) => {
    const ws = new WebSocket(url, { perMessageDeflate: false, maxPayload: 1 << 24 });
    ws.on('open', () => resolve(ws));
    ws.on('error', reject);
  });

/** What came of a publisher's events. */
export interface Verdicts {
  readonly accepted: number;
  /** The first refusal, when there was one. */
  readonly refusal: string | undefined;
}

/** Sends all messages over one connection, a window of them in flight; resolves with the last answer. */
async function publish(ws: WebSocket, messages: readonly Buffer[]): Promise<Verdicts> {
  let [sent, answered, accepted] = [0, 0, 0];
  let refusal: string | undefined;
  return new Promise((resolve, reject) => {
    const more = () => {
      while (sent < messages.length && sent - answered < WINDOW)
        ws.send(messages[sent++]!, { binary: false });
    };
    ws.on('close', () => reject(new Error(`the relay closed after ${answered} answers`)));
    ws.on('message', (data) => {
      const text = String(data);
      if (text.startsWith('["NOTICE"')) refusal ??= text;
      if (!text.startsWith('["OK"')) return;
      answered++;
      if (/^\["OK", ?"[0-9a-f]*", ?true/.test(text)) accepted++;
      else refusal ??= text;
      if (answered === messages.length) resolve({ accepted, refusal });
      else more();
    });
    more();
  });
}

/** Seconds until all events are answered, spread over the publishers. */
export async function timeIngest(url: string, events: readonly Buffer[], publishers: number) {
  const sockets = await Promise.all(Array.from({ length: publishers }, () => open(url)));
  const begin = performance.now();
  const verdicts = await Promise.all(
    sockets.map((ws, i) =>
      publish(
        ws,
        events.filter((_, j) => j % publishers === i),
      ),
    ),
  );
  const seconds = (performance.now() - begin) / 1000;
  for (const ws of sockets) ws.terminate();
  return { seconds, ...sum(verdicts) };
}

const sum = (verdicts: readonly Verdicts[]): Verdicts => ({
  accepted: verdicts.reduce((total, { accepted }) => total + accepted, 0),
  refusal: verdicts.find(({ refusal }) => refusal !== undefined)?.refusal,
});

/** Seconds until every subscriber has every event of one publisher. */
export async function timeFanOut(url: string, events: readonly Buffer[], subscribers: number) {
  const readers = await Promise.all(Array.from({ length: subscribers }, () => subscribe(url)));
  const publisher = await open(url);
  const begin = performance.now();
  const all = Promise.all(readers.map((reader) => reader.heard(events.length)));
  const verdict = await publish(publisher, events);
  await all;
  const seconds = (performance.now() - begin) / 1000;
  for (const ws of [publisher, ...readers.map((reader) => reader.ws)]) ws.terminate();
  return { seconds, ...verdict };
}

/** Asks for what comes from now on, and counts it without looking inside. */
async function subscribe(url: string) {
  const ws = await open(url);
  let count = 0;
  let [wanted, done] = [Number.POSITIVE_INFINITY, () => {}];
  const ready = new Promise<void>((resolve, reject) => {
    ws.on('close', () => reject(new Error(`the relay closed a subscriber after ${count} events`)));
    ws.on('message', (data) => {
      const kind = (data as Buffer).toString('latin1', 2, 4);
      if (kind === 'EO') resolve();
      else if (kind === 'EV' && ++count === wanted) done();
      else if (kind === 'CL' || kind === 'NO') reject(new Error(String(data)));
    });
  });
  ws.send(JSON.stringify(['REQ', 'bench', { kinds: [kinds.fanOut] }]));
  await ready;
  const heard = (events: number) =>
    new Promise<void>((resolve) => {
      [wanted, done] = [events, resolve];
      if (count >= events) resolve();
    });
  return { ws, heard };
}

/** Whether the relay refuses an event whose signature is wrong. */
export async function refusesForgery(url: string): Promise<boolean> {
  const [message] = makeEvents(1, 400, kinds.ingest);
  const at = message!.length - 5;
  message!.write(message!.toString('latin1', at, at + 1) === '0' ? '1' : '0', at, 'latin1');
  const ws = await open(url);
  const { accepted } = await publish(ws, [message!]);
  ws.terminate();
  return accepted === 0;
}
