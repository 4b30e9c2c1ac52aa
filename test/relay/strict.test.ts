import { createRelay, type Relay, type RelayOptions } from 'nostrain/relay';
import { afterEach, describe, expect, test } from 'vitest';
import { openReader, type RawReader } from '../support/raw-reader.ts';
import { eventOf, forgedTwin } from '../support/signers.ts';

const NOW = 1_700_000_000;
const opened: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((thing) => thing.close()));
});

async function start(options: RelayOptions): Promise<Relay> {
  const relay = await createRelay({ nowMs: () => NOW * 1000, ...options });
  opened.push(relay);
  return relay;
}

async function read(relay: Relay): Promise<RawReader> {
  const reader = await openReader(relay.url);
  opened.push(reader);
  return reader;
}

const document = async (relay: Relay) =>
  (
    await fetch(relay.url.replace('ws', 'http'), { headers: { Accept: 'application/nostr+json' } })
  ).json();

const notice = async (reader: RawReader) =>
  (await reader.until((frame) => frame[0] === 'NOTICE'))[1];

describe('strfry', () => {
  const strfry = (options: RelayOptions = {}) => start({ strict: 'strfry', ...options });

  test('refuses in its own words', async () => {
    const reader = await read(await strfry());
    const words = async (event: { id: string }) => (await reader.publish(event))[3];
    expect(await words(eventOf('A'.repeat(65_536)))).toMatch(/^invalid: event too large: 65\d{3}/);
    expect(await words(eventOf('x', { created_at: NOW + 901 }))).toBe(
      'invalid: created_at too late',
    );
    const stale = eventOf('x', { kind: 20_001, created_at: NOW - 61 });
    expect(await words(stale)).toBe('invalid: ephemeral event expired');
    expect(await words(forgedTwin(eventOf('x')))).toBe('invalid: bad signature');
    expect(await words(eventOf('x', { tags: [['-']] }))).toBe('blocked: event marked as protected');
  });

  test('brings 500 events at most, and EOSE does not say that there are more', async () => {
    const reader = await read(await strfry({ policies: [] }));
    const event = eventOf('x');
    for (let i = 0; i <= 500; i++) {
      reader.say('EVENT', { ...event, id: i.toString(16).padStart(64, '0') });
    }
    reader.say('REQ', 'a', { limit: 5000 });
    expect(await reader.until((frame) => frame[0] === 'EOSE')).toEqual(['EOSE', 'a']);
    expect(reader.frames.filter((frame) => frame[0] === 'EVENT')).toHaveLength(500);
  });

  test('a bad REQ gets a NOTICE and no CLOSED; three tag conditions are the most', async () => {
    const reader = await read(await strfry());
    const tags = { '#a': ['1'], '#b': ['1'], '#c': ['1'] };
    reader.say('REQ', 'a', tags);
    await reader.until((frame) => frame[0] === 'EOSE');
    reader.say('REQ', 'b', { ...tags, '#d': ['1'] });
    expect(await notice(reader)).toMatch(/^ERROR: bad req: too many tags in filter/);
    expect(reader.frames.some((frame) => frame[0] === 'CLOSED')).toBe(false);
  });

  test('tag values beyond 255 bytes are kept and cannot be found', async () => {
    const reader = await read(await strfry());
    const [short, long] = ['v'.repeat(255), 'v'.repeat(256)];
    await reader.publish(eventOf('short', { tags: [['x', short]] }));
    await reader.publish(eventOf('long', { tags: [['x', long]] }));
    reader.say('REQ', 'a', { '#x': [short, long] });
    await reader.until((frame) => frame[0] === 'EOSE');
    expect(reader.frames.filter((frame) => frame[0] === 'EVENT')).toHaveLength(1);
  });

  test('ephemeral events can be queried for five minutes', async () => {
    let now = NOW;
    const reader = await read(await strfry({ nowMs: () => now * 1000 }));
    await reader.publish(eventOf('soon gone', { kind: 20_001 }));
    const count = async (name: string) => {
      reader.say('REQ', name, { kinds: [20_001] });
      await reader.until((frame) => frame[0] === 'EOSE' && frame[1] === name);
      return reader.frames.filter((frame) => frame[0] === 'EVENT' && frame[1] === name).length;
    };
    expect(await count('a')).toBe(1);
    now += 301;
    expect(await count('b')).toBe(0);
  });

  test('a frame beyond 128 KiB ends the connection; the document hides the event size', async () => {
    const relay = await strfry();
    const reader = await read(relay);
    reader.sendRaw('x'.repeat(131_073));
    expect(await reader.closed).toBe(1009);
    expect((await document(relay)).limitation).toEqual({
      max_message_length: 131_072,
      max_subscriptions: 200,
      max_limit: 500,
      auth_required: false,
    });
  });
});

describe('nostr-rs-relay', () => {
  test('an oversize event gets a NOTICE and never an OK; the connection lives', async () => {
    const reader = await read(await start({ strict: 'nostr-rs-relay' }));
    reader.say('EVENT', eventOf('A'.repeat(140_000)));
    expect(await notice(reader)).toMatch(/^message too large \(140\d{3} > 131072\)$/);
    expect((await reader.publish(eventOf('A'.repeat(120_000))))[2]).toBe(true);
    expect(reader.frames.filter((frame) => frame[0] === 'OK')).toHaveLength(1);
  });

  test('looks half an hour ahead and ignores what it does not know in a filter', async () => {
    const relay = await start({ strict: 'nostr-rs-relay' });
    const reader = await read(relay);
    expect((await reader.publish(eventOf('x', { created_at: NOW + 1800 })))[2]).toBe(true);
    const late = await reader.publish(eventOf('x', { created_at: NOW + 1801 }));
    expect(late[3]).toMatch(/out of the acceptable range/);
    reader.say('REQ', 'a', { search: 'x' });
    reader.say('REQ', 'b', { '#run': ['r'] });
    await reader.until((frame) => frame[0] === 'EOSE' && frame[1] === 'b');
    const events = reader.frames.filter((frame) => frame[0] === 'EVENT');
    expect(events.map((frame) => frame[1])).toEqual(['a']);
    expect((await document(relay)).supported_nips).not.toContain(42);
  });
});

describe('nostream', () => {
  test('counts characters, not bytes', async () => {
    const reader = await read(await start({ strict: 'nostream' }));
    expect((await reader.publish(eventOf('é'.repeat(102_400))))[2]).toBe(true);
    expect((await reader.publish(eventOf('A'.repeat(102_401))))[3]).toMatch(/longer than 102400/);
  });

  test('takes 24 addressable events a minute from one author', async () => {
    let now = NOW;
    const reader = await read(await start({ strict: 'nostream', nowMs: () => now * 1000 }));
    const publish = (i: number) =>
      reader.publish(eventOf(`${i}`, { kind: 30_000, tags: [['d', `${i}`]] }));
    for (let i = 0; i < 24; i++) expect((await publish(i))[2]).toBe(true);
    expect((await publish(24))[3]).toBe('rate-limited: slow down');
    expect((await reader.publish(eventOf('another class')))[2]).toBe(true);
    now += 61;
    expect((await publish(25))[2]).toBe(true);
  });

  test('ten subscriptions, 12 connections a second', async () => {
    const relay = await start({ strict: 'nostream' });
    const reader = await read(relay);
    for (let i = 0; i <= 10; i++) reader.say('REQ', `${i}`, { limit: 0 });
    expect(await notice(reader)).toMatch(/^Subscription rejected: Too many subscriptions/);
    for (let i = 1; i < 12; i++) await read(relay);
    const extra = await openReader(relay.url);
    expect(await extra.closed).toBe(1006);
    expect(relay.stats().connectionsRefused).toBe(1);
  });
});
