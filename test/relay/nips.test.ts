import fc from 'fast-check';
import { minePow } from 'nostr-tools/nip13';
import {
  compileFilter,
  createRelay,
  defaultLimits,
  type Relay,
  type RelayOptions,
  Store,
} from 'nostrain/relay';
import { afterEach, describe, expect, test } from 'vitest';
import { openReader, type RawReader } from '../support/raw-reader.ts';
import { eventOf, signerOf } from '../support/signers.ts';

const NOW = 1_700_000_000;
const [mine, theirs] = [signerOf(1), signerOf(2)];
const opened: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((thing) => thing.close()));
});

async function connect(options: RelayOptions = {}): Promise<[RawReader, Relay]> {
  const relay = await createRelay({ nowMs: () => NOW * 1000, ...options });
  const reader = await openReader(relay.url);
  opened.push(relay, reader);
  return [reader, relay];
}

async function contents(reader: RawReader, filter: object = {}): Promise<unknown[]> {
  const name = `s${reader.frames.length}`;
  reader.say('REQ', name, filter);
  await reader.until((frame) => frame[0] === 'EOSE' && frame[1] === name);
  reader.say('CLOSE', name);
  return reader.frames
    .filter((frame) => frame[0] === 'EVENT' && frame[1] === name)
    .map((frame) => (frame[2] as { content: string }).content);
}

const deletion = (tags: string[][], created_at = NOW, signer = mine) =>
  signer.sign({ kind: 5, created_at, tags, content: 'deletion' });

describe('deletions (NIP-09)', () => {
  test('take away the author’s events by id, for good, and are kept', async () => {
    const [reader] = await connect();
    const event = eventOf('mine');
    const other = theirs.sign({ kind: 1000, created_at: NOW, tags: [], content: 'theirs' });
    for (const each of [event, other]) await reader.publish(each);
    await reader.publish(
      deletion([
        ['e', event.id],
        ['e', other.id],
      ]),
    );
    expect((await contents(reader)).toSorted()).toEqual(['deletion', 'theirs']);
    expect((await reader.publish(event))[3]).toMatch(/^deleted: /);
  });

  test('that come first hold too, and cannot be deleted themselves', async () => {
    const [reader] = await connect();
    const event = eventOf('late');
    const first = deletion([['e', event.id]], NOW - 1);
    await reader.publish(first);
    await reader.publish(deletion([['e', first.id]]));
    expect((await reader.publish(event))[2]).toBe(false);
    expect(await contents(reader)).toEqual(['deletion', 'deletion']);
  });

  test('of an address take away the versions before them', async () => {
    const [reader] = await connect();
    const version = (content: string, created_at: number) =>
      eventOf(content, { kind: 30_000, created_at, tags: [['d', 'x:y']] });
    await reader.publish(version('old', NOW - 2));
    await reader.publish(deletion([['a', `30000:${mine.publicKey}:x:y`]], NOW - 1));
    expect((await reader.publish(version('older', NOW - 3)))[3]).toMatch(/^deleted: /);
    expect(await contents(reader)).toEqual(['deletion']);
    await reader.publish(version('new', NOW));
    expect(await contents(reader)).toEqual(['new', 'deletion']);
    const foreign = deletion([['a', `30000:${mine.publicKey}:x:y`]], NOW, theirs);
    await reader.publish(foreign);
    expect(await contents(reader, { kinds: [30_000] })).toEqual(['new']);
  });
});

test('an author can vanish from a relay that is named, older events do not come back (NIP-62)', async () => {
  const [reader, relay] = await connect();
  const before = eventOf('before', { created_at: NOW - 10 });
  await reader.publish(before);
  await reader.publish(deletion([['e', before.id]], NOW - 5));
  await reader.publish(
    theirs.sign({ kind: 1059, created_at: NOW - 5, tags: [['p', mine.publicKey]], content: '' }),
  );
  const vanish = (url: string) =>
    eventOf('bye', { kind: 62, created_at: NOW - 1, tags: [['relay', url]] });
  expect((await reader.publish(vanish('wss://elsewhere.test')))[2]).toBe(false);
  expect((await reader.publish(vanish(relay.url)))[2]).toBe(true);
  expect(await contents(reader)).toEqual(['bye']);
  expect((await reader.publish(before))[3]).toMatch(/^deleted: /);
  await reader.publish(eventOf('back'));
  expect(await contents(reader)).toEqual(['back', 'bye']);
});

test('events that expire are no longer served or counted (NIP-40)', async () => {
  let now = NOW;
  const [reader, relay] = await connect({ nowMs: () => now * 1000 });
  await reader.publish(eventOf('short', { tags: [['expiration', `${NOW + 5}`]] }));
  expect(await contents(reader)).toEqual(['short']);
  now += 5;
  expect(await contents(reader)).toEqual([]);
  expect(relay.stats().eventsStored).toBe(0);
});

test('COUNT counts each event once, whatever the limit (NIP-45)', async () => {
  const [reader] = await connect();
  for (const content of ['a', 'b', 'c']) await reader.publish(eventOf(content));
  reader.say('COUNT', 'n', { kinds: [1000], limit: 1 }, { authors: [mine.publicKey] });
  expect(await reader.until((f) => f[0] === 'COUNT')).toEqual(['COUNT', 'n', { count: 3 }]);
  reader.say('COUNT', 'm', { kinds: 'all' });
  expect((await reader.until((f) => f[0] === 'CLOSED'))[1]).toBe('m');
});

test('EOSE says whether there is more (NIP-67)', async () => {
  const [reader] = await connect();
  for (const content of ['a', 'b']) await reader.publish(eventOf(content));
  const hint = async (filter: object) => {
    const name = `h${reader.frames.length}`;
    reader.say('REQ', name, filter);
    return (await reader.until((frame) => frame[0] === 'EOSE' && frame[1] === name))[2];
  };
  expect(await hint({})).toEqual(['finish']);
  expect(await hint({ limit: 2 })).toEqual(['finish']);
  expect(await hint({ limit: 1 })).toEqual(['more']);
  expect(await hint({ limit: 0 })).toBeUndefined();
});

describe('AUTH (NIP-42)', () => {
  const isAuth = (frame: readonly unknown[]) => frame[0] === 'AUTH';
  const proof = (relay: string, challenge: unknown, signer = mine, created_at = NOW) =>
    signer.sign({
      kind: 22_242,
      created_at,
      tags: [
        ['relay', relay],
        ['challenge', String(challenge)],
      ],
      content: '',
    });
  /** Sends an AUTH event and waits for its verdict. */
  const prove = async (reader: RawReader, event: { id: string }) => {
    reader.say('AUTH', event);
    return (await reader.until((frame) => frame[0] === 'OK' && frame[1] === event.id)).slice(2);
  };

  test('reading and writing wait for it where it is asked for', async () => {
    const [reader, relay] = await connect({ auth: 'all' });
    const [, challenge] = await reader.until(isAuth);
    expect((await reader.publish(eventOf('early')))[3]).toMatch(/^auth-required: /);
    reader.say('REQ', 'a', {});
    expect((await reader.until((f) => f[0] === 'CLOSED'))[2]).toMatch(/^auth-required: /);
    expect(await prove(reader, proof(relay.url, challenge))).toEqual([true, '']);
    expect((await reader.publish(eventOf('welcome')))[2]).toBe(true);
    expect(await contents(reader)).toEqual(['welcome']);
  });

  test('a wrong relay, challenge, time or signature proves nothing', async () => {
    const [reader, relay] = await connect({ auth: 'write' });
    const [, challenge] = await reader.until(isAuth);
    const wrong = [
      proof('wss://elsewhere.test', challenge),
      proof(relay.url, 'guess'),
      proof(relay.url, challenge, mine, NOW - 601),
      { ...proof(relay.url, challenge), sig: '0'.repeat(128) },
      eventOf('x'),
    ];
    for (const event of wrong) expect((await prove(reader, event))[0]).toBe(false);
    expect((await reader.publish(eventOf('still out')))[3]).toMatch(/^auth-required: /);
    expect(await contents(reader)).toEqual([]);
  });

  test('protected events come from their author only, with several keys on one connection (NIP-70)', async () => {
    const [reader, relay] = await connect();
    const kept = eventOf('kept', { tags: [['-']] });
    expect((await reader.publish(kept))[3]).toMatch(/^auth-required: /);
    const [, challenge] = await reader.until(isAuth);
    await prove(reader, proof(relay.url, challenge, theirs));
    expect((await reader.publish(kept))[3]).toMatch(/^restricted: /);
    await prove(reader, proof(relay.url, challenge));
    expect((await reader.publish(kept))[2]).toBe(true);
    expect((await reader.publish(proof(relay.url, challenge)))[2]).toBe(false);
    expect(await contents(reader)).toEqual(['kept']);
  });
});

test('ids carry and commit to the work asked for (NIP-13)', async () => {
  const [reader] = await connect({ minPow: 8, nowMs: Date.now }); // `minePow` dates by the real clock
  const draft = { kind: 1000, created_at: NOW, tags: [], content: 'x', pubkey: mine.publicKey };
  const mined = (bits: number) => {
    const { tags, created_at } = minePow(structuredClone(draft), bits);
    return mine.sign({ ...draft, tags, created_at });
  };
  const worked = mined(8);
  expect(worked.id.startsWith('00')).toBe(true);
  expect((await reader.publish(eventOf('idle')))[3]).toMatch(/^pow: /);
  expect((await reader.publish(mined(1)))[3]).toMatch(/^pow: /);
  const [, , accepted, words] = await reader.publish(worked);
  expect([accepted, words]).toEqual([true, '']);
});

test('the index finds what a scan finds', () => {
  const few = fc.constantFrom('a', 'b', 'c');
  const some = fc.array(few, { maxLength: 2 });
  const small = fc.integer({ min: 0, max: 3 });
  const filter = fc.record(
    { ids: some, authors: some, kinds: fc.array(small, { maxLength: 2 }), '#t': some, '#d': some },
    { requiredKeys: [] },
  );
  const tag = fc.tuple(fc.constantFrom('t', 'd', 'long'), few);
  const event = fc.record({ pubkey: few, kind: small, created_at: small, tags: fc.array(tag) });
  fc.assert(
    fc.property(filter, fc.array(event, { maxLength: 12 }), (asked, events) => {
      const limits = { ...defaultLimits, maxStoredEvents: 8 };
      const store = new Store(limits);
      const json = Buffer.from('{}');
      for (const [i, each] of events.entries())
        store.add({ ...each, id: 'abcdefghijkl'[i]!, json }, NOW);
      const compiled = compileFilter(asked, limits);
      if (typeof compiled === 'string') throw new Error(compiled);
      const scan = [...store.entries()].filter((entry) => compiled.matches(entry));
      const { entries } = store.query([compiled], 100);
      expect(new Set(entries)).toEqual(new Set(scan));
      expect(store.count([compiled], 100)).toBe(scan.length);
    }),
  );
});
