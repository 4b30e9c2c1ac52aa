import { afterEach, describe, expect, test } from 'vitest';
import { createRelay, type Relay, type RelayOptions } from '../../relay/server.ts';
import { openReader, type RawReader } from '../support/raw-reader.ts';
import { eventOf, forgedTwin, signerOf } from '../support/signers.ts';

const NOW = 1_700_000_000;
const opened: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((thing) => thing.close()));
});

async function start(options: RelayOptions = {}): Promise<Relay> {
  const relay = await createRelay({ nowMs: () => NOW * 1000, ...options });
  opened.push(relay);
  return relay;
}

async function read(relay: Relay): Promise<RawReader> {
  const reader = await openReader(relay.url);
  opened.push(reader);
  return reader;
}

const isEose = (frame: readonly unknown[]) => frame[0] === 'EOSE';

const isEventOf = (frame: readonly unknown[], id: string) =>
  frame[0] === 'EVENT' && (frame[2] as { id: string }).id === id;

/** Contents of what is stored, in the order it is sent. */
async function stored(reader: RawReader, ...filters: object[]): Promise<unknown[]> {
  const name = `s${reader.frames.length}`;
  reader.say('REQ', name, ...filters);
  await reader.until((frame) => isEose(frame) && frame[1] === name);
  reader.say('CLOSE', name);
  return reader.frames
    .filter((frame) => frame[0] === 'EVENT' && frame[1] === name)
    .map((frame) => (frame[2] as { content: string }).content);
}

describe('NIP-01', () => {
  test('stored events, EOSE, then live ones, the author included', async () => {
    const relay = await start();
    const [author, other] = await Promise.all([read(relay), read(relay)]);
    const first = eventOf('first');
    expect(await author.publish(first)).toEqual(['OK', first.id, true, '']);
    for (const reader of [author, other]) reader.say('REQ', 'a', { kinds: [1000] });
    await Promise.all([author.until(isEose), other.until(isEose)]);
    const second = eventOf('second', { tags: [['t', 'x']] });
    await author.publish(second);
    for (const reader of [author, other]) {
      await reader.until((frame) => isEventOf(frame, second.id));
      expect(reader.frames.filter((frame) => frame[0] !== 'OK')).toEqual([
        ['EVENT', 'a', first],
        ['EOSE', 'a', ['finish']],
        ['EVENT', 'a', second],
      ]);
    }
    expect(relay.stats()).toMatchObject({ connections: 2, eventsAccepted: 2, eventsStored: 2 });
  });

  test('newest first, of one second the lowest id first, up to the limit', async () => {
    const relay = await start();
    const reader = await read(relay);
    const events = [3, 1, 2, 2, 2].map((age, i) => eventOf(`${i}`, { created_at: NOW - age }));
    for (const event of events) await reader.publish(event);
    const byHand = [...events].sort(
      (a, b) => b.created_at - a.created_at || (a.id < b.id ? -1 : 1),
    );
    const order = byHand.map((event) => event.content);
    expect(await stored(reader, {})).toEqual(order);
    expect(await stored(reader, { limit: 2 })).toEqual(order.slice(0, 2));
    expect(await stored(reader, { limit: 0 })).toEqual([]);
    expect(await stored(reader, { since: NOW - 2, until: NOW - 2 })).toHaveLength(3);
    expect(await stored(reader, { ids: [events[0]!.id] }, { ids: [events[0]!.id] })).toEqual(['0']);
  });

  test('filters by author, kind and the first value of single-letter tags', async () => {
    const reader = await read(await start());
    const tags = [
      ['t', 'one', 'two'],
      ['run', 'r'],
    ];
    await reader.publish(eventOf('mine', { tags }));
    await reader.publish(
      signerOf(2).sign({ kind: 1001, created_at: NOW, tags: [], content: 'theirs' }),
    );
    expect(await stored(reader, { '#t': ['one', 'zero'] })).toEqual(['mine']);
    expect(await stored(reader, { '#t': ['two'] })).toEqual([]);
    expect(await stored(reader, { authors: [signerOf(2).publicKey] })).toEqual(['theirs']);
    expect(await stored(reader, { kinds: [1000] }, { kinds: [1001] })).toHaveLength(2);
    reader.say('REQ', 'x', { '#run': ['r'] });
    const closed = await reader.until((frame) => frame[0] === 'CLOSED');
    expect(closed[2]).toMatch(/^unsupported: /);
  });

  test('a closed subscription hears no more', async () => {
    const relay = await start();
    const reader = await read(relay);
    reader.say('REQ', 'a', {});
    await reader.until(isEose);
    reader.say('CLOSE', 'a');
    await reader.publish(eventOf('unheard'));
    expect(await stored(reader, {})).toEqual(['unheard']);
    expect(reader.frames.some((frame) => frame[1] === 'a' && frame[0] === 'EVENT')).toBe(false);
  });
});

describe('event classes', () => {
  test('of an addressable event the newest stays, on a tie the lowest id', async () => {
    const relay = await start();
    const reader = await read(relay);
    const version = (content: string, created_at: number, d = 'x') =>
      eventOf(content, { kind: 30_000, created_at, tags: [['d', d]] });
    const [low, high] = [version('a', NOW), version('b', NOW)].sort((a, b) =>
      a.id < b.id ? -1 : 1,
    );
    await reader.publish(version('old', NOW - 1));
    await reader.publish(high!);
    await reader.publish(low!);
    expect(await stored(reader, {})).toEqual([low!.content]);
    expect((await reader.publish(high!))[3]).toMatch(/^replaced: /);
    expect((await reader.publish(version('older', NOW - 2)))[2]).toBe(false);
    await reader.publish(version('elsewhere', NOW - 5, 'y'));
    expect(await stored(reader, {})).toEqual([low!.content, 'elsewhere']);
    expect(relay.stats().eventsStored).toBe(2);
  });

  test('replaceable events have one slot per author and kind', async () => {
    const reader = await read(await start());
    await reader.publish(eventOf('old', { kind: 10_002, created_at: NOW - 1, tags: [['d', 'x']] }));
    await reader.publish(eventOf('new', { kind: 10_002 }));
    expect(await stored(reader, {})).toEqual(['new']);
  });

  test('ephemeral events are delivered and not kept', async () => {
    const relay = await start();
    const reader = await read(relay);
    reader.say('REQ', 'a', {});
    await reader.until(isEose);
    const event = eventOf('gone', { kind: 20_001 });
    await reader.publish(event);
    await reader.until((frame) => frame[0] === 'EVENT');
    expect(await stored(reader, {})).toEqual([]);
  });

  test('the oldest arrivals leave a full store', async () => {
    const reader = await read(await start({ limits: { maxStoredEvents: 2 } }));
    for (const [i, content] of ['a', 'b', 'c'].entries()) {
      await reader.publish(eventOf(content, { created_at: NOW - i }));
    }
    expect(await stored(reader, {})).toEqual(['b', 'c']);
  });
});

describe('refusals', () => {
  test.each([
    ['wrong signature', forgedTwin(eventOf('x')), /^invalid: signature/],
    ['wrong id', { ...eventOf('x'), content: 'y' }, /^invalid: id does not match/],
    ['future', eventOf('x', { created_at: NOW + 901 }), /^invalid: created_at .* future/],
    ['expired', eventOf('x', { tags: [['expiration', `${NOW - 1}`]] }), /^invalid: .*expired/],
    ['kind', eventOf('x', { kind: 1001 }), /^blocked: kind 1001/],
    ['tags', eventOf('x', { tags: [['a'], ['b'], ['c']] }), /^invalid: too many tags/],
    ['no sig', { ...eventOf('x'), sig: undefined }, /^invalid: sig/],
  ])('%s', async (_, event, message) => {
    const relay = await start({ limits: { kinds: [1000], maxTags: 2 } });
    const [, , accepted, words] = await (await read(relay)).publish(event);
    expect(accepted).toBe(false);
    expect(words).toMatch(message);
    expect(relay.stats()).toMatchObject({ eventsRefused: 1, eventsStored: 0 });
  });

  test('an event sent again is a success that says duplicate', async () => {
    const reader = await read(await start());
    const event = eventOf('once');
    await reader.publish(event);
    expect(await reader.publish(event)).toEqual([
      'OK',
      event.id,
      true,
      'duplicate: already have this event',
    ]);
  });

  test('a payload of 770 KB passes by default; a limit of 64 KiB refuses it and the connection lives', async () => {
    const large = eventOf('A'.repeat(770_000));
    const roomy = await read(await start());
    expect((await roomy.publish(large))[2]).toBe(true);
    expect(await stored(roomy, {})).toEqual([large.content]);
    const strict = await read(await start({ maxEventBytes: 65_536 }));
    expect((await strict.publish(large))[3]).toMatch(/^invalid: event too large: 770\d{3} bytes/);
    expect((await strict.publish(eventOf('small')))[2]).toBe(true);
  });

  test('a frame beyond reading ends that connection only', async () => {
    const relay = await start({ maxEventBytes: 1024 });
    const [greedy, modest] = await Promise.all([read(relay), read(relay)]);
    greedy.sendRaw('x'.repeat(2 << 20));
    expect(await greedy.closed).toBe(1009);
    expect((await modest.publish(eventOf('fine')))[2]).toBe(true);
  });

  test('too many subscriptions are closed with a reason', async () => {
    const reader = await read(await start({ limits: { maxSubscriptions: 1 } }));
    reader.say('REQ', 'a', {});
    reader.say('REQ', 'a', { kinds: [1] });
    reader.say('REQ', 'b', {});
    const closed = await reader.until((frame) => frame[0] === 'CLOSED');
    expect(closed).toEqual(['CLOSED', 'b', expect.stringMatching(/^error: too many/)]);
  });
});

describe('HTTP and lifecycle', () => {
  test('NIP-11 tells the limits that hold, to any origin', async () => {
    const relay = await start({ name: 'mine', maxEventBytes: 65_536 });
    const url = relay.url.replace('ws', 'http');
    const response = await fetch(url, { headers: { Accept: 'application/nostr+json' } });
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
    expect(await response.json()).toMatchObject({
      name: 'mine',
      supported_nips: [1, 9, 11, 13, 40, 42, 45, 62, 67, 70, 77],
      limitation: { max_message_length: 65_600, max_subscriptions: 32, max_limit: 5000 },
    });
    expect(await (await fetch(url)).text()).toMatch(/^mine: a Nostr relay/);
    expect((await fetch(url, { method: 'POST', body: 'x' })).status).toBe(405);
  });

  test('a busy port rejects with EADDRINUSE', async () => {
    const { port } = await start();
    await expect(createRelay({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });

  test('closing disconnects readers and may be repeated', async () => {
    const relay = await createRelay();
    const reader = await openReader(relay.url);
    await Promise.all([relay.close(), relay.close()]);
    expect(await reader.closed).toBe(1001);
    expect(relay.stats().connections).toBe(0);
  });
});
