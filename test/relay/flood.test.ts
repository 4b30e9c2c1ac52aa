import { createRelay, type Relay, type RelayOptions } from 'nostrain/relay';
import { afterEach, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { openReader, type RawReader } from '../support/raw-reader.ts';
import { eventOf } from '../support/signers.ts';

const opened: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const thing of opened.splice(0)) await thing.close();
});

async function start(options: RelayOptions = {}): Promise<[RawReader, Relay]> {
  const relay = await createRelay({ policies: [], ...options });
  const reader = await openReader(relay.url);
  opened.push(reader, relay);
  return [reader, relay];
}

const signed = eventOf('');

/** Wrongly signed, for relays that check nothing. */
const bare = (number: number, content = '') => ({
  ...signed,
  content,
  id: number.toString(16).padStart(64, '0'),
});

/** A connection that sends and never reads. */
async function openDeaf(relay: Relay): Promise<WebSocket> {
  const ws = new WebSocket(relay.url, { perMessageDeflate: false });
  await new Promise((resolve) => ws.on('open', resolve));
  ws.pause();
  const closed = new Promise((resolve) => ws.on('close', resolve));
  const close = () => {
    ws.terminate();
    return closed;
  };
  opened.unshift({ close });
  return ws;
}

/** Turns of the event loop without news after which the relay, in this process, has read all that it will. */
const STILL_TURNS = 500;

async function untilStill(read: () => number): Promise<void> {
  for (let still = 0, last = -1; still < STILL_TURNS; still++) {
    if (read() !== last) still = 0;
    last = read();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test('at most `maxSubscriptions` subscriptions are open', async () => {
  const [reader, relay] = await start();
  for (let i = 0; i < 5000; i++) reader.say('REQ', `s${i}`, { '#t': [`${i}`], limit: 0 });
  reader.say('REQ', 's0', { kinds: [1], limit: 0 });
  await reader.until((frame) => frame[1] === 's0' && reader.frames.length > 5000);
  expect(relay.stats().subscriptions).toBe(32);
  expect(reader.frames.filter((frame) => frame[0] === 'CLOSED')).toHaveLength(4968);
});

test('large subscriptions are open up to a size, and closing one frees its share', async () => {
  const [reader, relay] = await start({ limits: { maxSubscriptionBytes: 10_000 } });
  const large = (mark: string) => ({ '#t': [mark.repeat(4000)], limit: 0 });
  const answer = async (id: string, filter: object) => {
    reader.say('REQ', id, filter);
    const from = reader.frames.length;
    const frame = await reader.until((f) => f[1] === id && reader.frames.indexOf(f) >= from);
    return frame[0] === 'CLOSED' ? frame[2] : frame[0];
  };
  expect(await answer('a', large('a'))).toBe('EOSE');
  expect(await answer('b', large('b'))).toBe('EOSE');
  expect(await answer('c', large('c'))).toMatch(/^error: .*too large in total/);
  expect(await answer('b', large('d'))).toBe('EOSE');
  reader.say('CLOSE', 'a');
  expect(await answer('c', large('c'))).toBe('EOSE');
  expect(relay.stats().subscriptions).toBe(2);
});

test('unread stored events are not queued again by another REQ', async () => {
  const [reader, relay] = await start();
  for (let i = 0; i < 2000; i++) reader.say('EVENT', bare(i, 'x'.repeat(10_000)));
  await reader.until(() => reader.frames.length === 2000);
  const deaf = await openDeaf(relay);
  deaf.send('["REQ","same",{}]');
  await untilStill(() => relay.stats().framesOut);
  const before = relay.stats().bytesOut;
  for (let i = 0; i < 1500; i++) deaf.send('["REQ","same",{}]');
  await untilStill(() => relay.stats().framesIn);
  expect(relay.stats().subscriptions).toBe(1);
  expect(relay.stats().bytesOut - before).toBeLessThan(8 << 20);
});

test('who asks without reading the answers is not heard any more', async () => {
  const [, relay] = await start({ limits: { maxSubscriptionIdLength: 5000 } });
  const deaf = await openDeaf(relay);
  const question = JSON.stringify(['COUNT', 'x'.repeat(5000), {}]);
  for (let i = 0; i < 10_000; i++) deaf.send(question);
  await untilStill(() => relay.stats().framesIn);
  expect(relay.stats().framesIn).toBeLessThan(8000);
  expect(relay.stats().connections).toBe(2);
  deaf.resume();
  await untilStill(() => relay.stats().framesIn);
  expect(relay.stats().framesIn).toBe(10_000);
});
