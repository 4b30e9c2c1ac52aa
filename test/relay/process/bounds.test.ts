import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile, stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import {
  createRelay,
  defaultLimits,
  type Entry,
  type Relay,
  type RelayOptions,
  Store,
} from 'nostrain/relay';
import { afterEach, describe, expect, test } from 'vitest';
import type { EventLog } from '../../../relay/durable/event-log.ts';
import { recover } from '../../../relay/durable/recover.ts';
import { openReader, type RawReader } from '../../support/raw-reader.ts';
import { eventOf } from '../../support/signers.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const NOW = 1_700_000_000;
const at = temporaryFolder();
const opened: { close(): Promise<unknown> }[] = [];
afterEach(stop);

async function stop(): Promise<void> {
  for (const thing of opened.splice(0)) await thing.close();
}

async function start(options: RelayOptions): Promise<[RawReader, Relay]> {
  const relay = await createRelay({ nowMs: () => NOW * 1000, ...options });
  const reader = await openReader(relay.url);
  opened.push(reader, relay);
  return [reader, relay];
}

async function stored(reader: RawReader): Promise<string[]> {
  const name = `s${reader.frames.length}`;
  reader.say('REQ', name, {});
  await reader.until((frame) => frame[0] === 'EOSE' && frame[1] === name);
  reader.say('CLOSE', name);
  return reader.frames
    .filter((frame) => frame[0] === 'EVENT' && frame[1] === name)
    .map((frame) => (frame[2] as { content: string }).content)
    .toSorted();
}

/** A well-formed synthetic event as a store keeps it, cheap to make in large numbers. */
function entryOf(
  number: number,
  draft: Partial<Entry> & { readonly content?: string } = {},
): Entry {
  const id = number.toString(16).padStart(64, '0');
  const { content = 'x'.repeat(100), ...given } = draft;
  const event = { id, pubkey: 'a'.repeat(64), created_at: NOW, kind: 1000, tags: [], ...given };
  const json = Buffer.from(JSON.stringify({ ...event, content, sig: 'b'.repeat(128) }));
  return { ...event, json };
}

const slot = (number: number, d: string) => entryOf(number, { kind: 30_000, tags: [['d', d]] });

describe('a full store', () => {
  test('loses what is over, then the oldest of the class that holds most', async () => {
    let now = NOW;
    const [reader] = await start({ nowMs: () => now * 1000, limits: { maxStoredEvents: 3 } });
    await reader.publish(eventOf('version', { kind: 30_000, tags: [['d', 'x']] }));
    await reader.publish(eventOf('first'));
    await reader.publish(eventOf('brief', { tags: [['expiration', `${NOW + 5}`]] }));
    now += 10;
    await reader.publish(eventOf('second'));
    expect(await stored(reader)).toEqual(['first', 'second', 'version']);
    await reader.publish(eventOf('third'));
    expect(await stored(reader)).toEqual(['second', 'third', 'version']);
    for (const d of ['y', 'z', 'w']) {
      await reader.publish(eventOf(d, { kind: 30_000, tags: [['d', d]] }));
    }
    // addressable events push out each other, not the last regular one
    expect(await stored(reader)).toEqual(['third', 'w', 'z']);
  });

  test('is bounded in bytes, and says what it cannot take at all', async () => {
    const [reader, relay] = await start({ policies: [], limits: { maxStoredBytes: 20_000 } });
    const bare = (i: number, content: string) => ({ ...eventOf(''), content, id: entryOf(i).id });
    const reply = await reader.publish(bare(1000, 'x'.repeat(20_000)));
    expect(reply[3]).toBe('error: the event is more than this relay can keep');
    for (let i = 0; i < 200; i++) {
      expect((await reader.publish(bare(i, 'x'.repeat(100))))[2]).toBe(true);
      expect(relay.stats().bytesStored).toBeLessThanOrEqual(20_000);
    }
    expect(relay.stats().bytesStored).toBeGreaterThan(18_000);
  });

  test('stays bounded over a restart', async () => {
    const options = { store: at('store'), policies: [], limits: { maxStoredEvents: 40 } };
    const [reader] = await start(options);
    const bare = (i: number) => ({ ...eventOf(''), content: `${i}`, id: entryOf(i).id });
    for (let i = 0; i < 100; i++) await reader.publish(bare(i));
    const before = await stored(reader);
    expect(before.length).toBeLessThanOrEqual(40);
    await stop();
    const [after, relay] = await start({ ...options, limits: { maxStoredEvents: 20 } });
    expect(relay.stats().eventsStored).toBeLessThanOrEqual(20);
    const kept = await stored(after);
    expect(before).toEqual(expect.arrayContaining(kept));
    expect(kept).toContain('99');
  });
});

describe('the log of a store', () => {
  const limits = { ...defaultLimits, maxStoredEvents: 50 };
  const SEGMENT = 4096;

  async function open(): Promise<{ store: Store; log: EventLog; close(): Promise<void> }> {
    const store = new Store(limits);
    const recovered = await recover(at('log'), store, NOW, SEGMENT);
    return { store, log: recovered.log, close: recovered.close };
  }

  async function add(to: { store: Store; log: EventLog }, entry: Entry): Promise<void> {
    if (to.store.add(entry, NOW) === 'stored') await to.log.append(entry.json);
  }

  const ids = (store: Store) => Array.from(store.entries(), ({ id }) => id).toSorted();
  const names = async () => (await readdir(at('log'))).filter((name) => name.endsWith('.log'));
  const size = async () => {
    const sizes = (await names()).map(async (name) => (await stat(at('log', name))).size);
    return (await Promise.all(sizes)).reduce((sum, bytes) => sum + bytes, 0);
  };

  test('sheds segments whose events no longer count, and keeps those that do', async () => {
    const opened = await open();
    await add(opened, slot(1_000_000, 'stays'));
    for (let i = 0; i < 1500; i++) {
      await add(opened, i % 3 ? entryOf(i) : slot(i, `${i % 7}`));
      await opened.log.settled();
      expect(await size()).toBeLessThan(2 * opened.store.bytes + 4 * SEGMENT);
    }
    const kept = ids(opened.store);
    expect(kept).toContain(slot(1_000_000, '').id);
    expect(await names()).not.toContain('00000001.log');
    await opened.close();
    const again = await open();
    expect(ids(again.store)).toEqual(expect.arrayContaining(kept));
    expect(again.store.size).toBeLessThanOrEqual(50);
    await again.close();
  });

  test('an older version does not come back when the newer one is evicted', async () => {
    const first = await open();
    await add(first, { ...slot(1, 'x'), created_at: NOW - 5 });
    await add(first, slot(2, 'x'));
    for (let i = 10; i < 400; i++) await add(first, slot(i, `${i}`));
    await first.log.settled();
    await first.close();
    const again = await open();
    expect(ids(again.store)).not.toContain(slot(1, 'x').id);
    await again.close();
  });

  test('events that left and came back do not pile up', async () => {
    const opened = await open();
    for (let round = 0; round < 12; round++) {
      for (let i = 0; i < 60; i++) await add(opened, entryOf(i));
    }
    await opened.log.settled();
    expect(await size()).toBeLessThan(2 * opened.store.bytes + 4 * SEGMENT);
    await opened.close();
  });

  const modules = ['store.ts', 'limits.ts', 'durable/recover.ts'].map((name) =>
    JSON.stringify(new URL(`../../../relay/${name}`, import.meta.url).href),
  );
  const program = `
    const [{ Store }, { defaultLimits }, { recover }] =
      await Promise.all([${modules.map((name) => `import(${name})`).join(', ')}]);
    const [folder, from] = process.argv.slice(1);
    const store = new Store(defaultLimits);
    const { log } = await recover(folder, store, ${NOW}, ${SEGMENT});
    for (let i = Number(from); ; i++) {
      const tags = [['d', i % 2 ? '1' : String(i % 20)]];
      const event = { id: i.toString(16).padStart(64, '0'), pubkey: 'a'.repeat(64), created_at: i, kind: 30000, tags };
      const json = Buffer.from(JSON.stringify({ ...event, content: '', sig: 'b'.repeat(128) }));
      store.add({ ...event, json }, ${NOW});
      void log.append(json).then(() => process.stdout.write(i + '\\n'));
      if (i % 8 === 0) await log.settled();
    }`;

  test('killed while it sheds, it has the newest acknowledged version of everything', async () => {
    let last = -1;
    for (const lines of [200, 300, 400]) {
      const node = ['--import', 'tsx', '--input-type=module', '--eval', program];
      const child = spawn(process.execPath, [...node, at('log'), String(last + 1)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const exited = once(child, 'exit');
      const begin = last;
      for await (const line of createInterface({ input: child.stdout })) {
        last = Number(line);
        if (last - begin >= lines) child.kill('SIGKILL');
      }
      await exited; // its pipe may close a moment before
      const { store, close } = await open();
      const versions = Array.from(store.entries(), ({ created_at, tags }) => [
        tags[0]![1],
        created_at,
      ]);
      const found = new Map(versions as [string, number][]);
      for (let i = Math.max(0, last - 19); i <= last; i++) {
        expect(found.get(i % 2 ? '1' : String(i % 20))).toBeGreaterThanOrEqual(i);
      }
      last = Math.max(...found.values());
      await close();
    }
    expect((await names())[0]).not.toBe('00000001.log');
  });

  test('a rewrite leaves nothing on disk that was deleted', async () => {
    const first = await open();
    const secret = entryOf(1, { content: randomBytes(20).toString('hex') });
    const words = JSON.parse(String(secret.json)).content;
    await add(first, secret);
    for (let i = 10; i < 40; i++) await add(first, entryOf(i));
    await add(first, entryOf(2, { kind: 5, tags: [['e', secret.id]] }));
    await first.close();
    const second = await open();
    const files = await Promise.all((await names()).map((name) => readFile(at('log', name))));
    expect(Buffer.concat(files).includes(words)).toBe(false);
    expect(second.store.size).toBe(31);
    await second.close();
  });
});
