import { spawn } from 'node:child_process';
import { appendFile, readdir, readFile, truncate, writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import fc from 'fast-check';
import { createRelay, type Relay, type RelayOptions } from 'nostrain/relay';
import { afterEach, expect, test } from 'vitest';
import { decodeRecords, encodeRecord } from '../../../relay/durable/segments.ts';
import { openReader, type RawReader } from '../../support/raw-reader.ts';
import { eventOf } from '../../support/signers.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const NOW = 1_700_000_000;
const at = temporaryFolder();
const opened: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((thing) => thing.close()));
});

async function start(options: RelayOptions = {}): Promise<[Relay, RawReader]> {
  const relay = await createRelay({ store: at('store'), nowMs: () => NOW * 1000, ...options });
  const reader = await openReader(relay.url);
  opened.push(relay, reader);
  return [relay, reader];
}

async function stop(): Promise<void> {
  for (const thing of opened.splice(0)) await thing.close();
}

async function ids(reader: RawReader, filter: object = {}): Promise<string[]> {
  const name = `s${reader.frames.length}`;
  reader.say('REQ', name, filter);
  await reader.until((frame) => frame[0] === 'EOSE' && frame[1] === name);
  return reader.frames
    .filter((frame) => frame[0] === 'EVENT' && frame[1] === name)
    .map((frame) => (frame[2] as { id: string }).id);
}

const signed = eventOf('');

/** Well-formed, wrongly signed; for relays that check nothing. */
const bare = (number: number, bytes = 500) => ({
  ...signed,
  content: 'A'.repeat(bytes),
  id: number.toString(16).padStart(64, '0'),
});

const segments = async () => (await readdir(at('store'))).filter((name) => name.endsWith('.log'));

test('events, versions and deletions are there again after a restart', async () => {
  const [, before] = await start();
  const [gone, kept] = [eventOf('gone'), eventOf('kept', { tags: [['t', 'x']] })];
  const version = (content: string, age: number) =>
    eventOf(content, { kind: 30_000, created_at: NOW - age, tags: [['d', 'a']] });
  const latest = version('new', 1);
  const deletion = eventOf('', { kind: 5, tags: [['e', gone.id]] });
  for (const event of [gone, kept, version('old', 2), latest, deletion]) {
    expect((await before.publish(event))[2]).toBe(true);
  }
  await before.publish(eventOf('', { kind: 20_001 }));
  const ordered = await ids(before);
  await stop();
  for (let times = 0; times < 2; times++) {
    const [relay, after] = await start();
    expect(await ids(after)).toEqual(ordered);
    expect(await ids(after, { '#t': ['x'] })).toEqual([kept.id]);
    expect((await after.publish(gone))[3]).toMatch(/^deleted: /);
    expect((await after.publish(kept))[3]).toMatch(/^duplicate: /);
    expect(relay.stats()).toMatchObject({ eventsStored: 3, tornBytesCut: 0 });
    await stop();
  }
});

test('who asks while the disk works gets the event once', async () => {
  const [relay, author] = await start({ policies: [] });
  const listener = await openReader(relay.url);
  opened.push(listener);
  listener.say('REQ', 'before', {});
  await listener.until((frame) => frame[0] === 'EOSE');
  for (let i = 0; i < 30; i++) {
    author.say('EVENT', bare(i));
    author.say('REQ', `while ${i}`, { ids: [bare(i).id] });
  }
  await author.until((frame) => frame[0] === 'OK' && frame[1] === bare(29).id);
  await listener.until((frame) => (frame[2] as { id?: string })?.id === bare(29).id);
  const heard = (reader: RawReader) =>
    reader.frames.filter(([type]) => type === 'EVENT').map(([, , e]) => (e as { id: string }).id);
  for (const reader of [author, listener]) {
    expect(heard(reader).toSorted()).toEqual(Array.from({ length: 30 }, (_, i) => bare(i).id));
  }
});

test('what was deleted leaves the disk at the next start', async () => {
  const [, before] = await start();
  const secret = eventOf('a secret');
  await before.publish(secret);
  await before.publish(eventOf('', { kind: 62, tags: [['relay', 'ALL_RELAYS']] }));
  await stop();
  await start();
  expect(await segments()).toEqual(['00000002.log']);
  expect(String(await readFile(at('store', '00000002.log')))).not.toContain('a secret');
});

test('a torn tail is cut off, and what follows is kept', async () => {
  const [, before] = await start({ policies: [] });
  for (let i = 0; i < 3; i++) await before.publish(bare(i));
  await stop();
  const file = at('store', '00000001.log');
  const { length } = await readFile(file);
  await truncate(file, length - 7);
  const [relay, after] = await start({ policies: [] });
  expect(relay.stats()).toMatchObject({ eventsStored: 2, tornBytesCut: length / 3 - 7 });
  await after.publish(bare(9));
  await stop();
  await appendFile(file, Buffer.alloc(4096));
  const [again] = await start();
  expect(again.stats()).toMatchObject({ eventsStored: 3, tornBytesCut: 4096 });
});

test('damage before the last segment is not passed over in silence', async () => {
  const [, before] = await start({ policies: [] });
  await before.publish(bare(1));
  await stop();
  await writeFile(at('store', '00000002.log'), '');
  await truncate(at('store', '00000001.log'), 20);
  await expect(start()).rejects.toThrow(/00000001\.log is damaged at byte 0/);
});

test('a folder belongs to one relay at a time', async () => {
  await start();
  await expect(createRelay({ store: at('store') })).rejects.toThrow(/in use/);
  await stop();
  await writeFile(at('store', 'lock'), '999999999');
  await start();
});

test('records: any cut gives whole records only, any flipped bit ends them there', () => {
  const jsons = fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 6 });
  fc.assert(
    fc.property(jsons, fc.nat(), fc.nat(7), (bodies, where, bit) => {
      const records = bodies.map((body) => Buffer.concat(encodeRecord(Buffer.from(body))));
      const whole = Buffer.concat(records);
      expect(decodeRecords(whole)).toEqual({
        jsons: bodies.map((body) => Buffer.from(body)),
        end: whole.length,
      });
      if (whole.length === 0) return;
      const at = where % whole.length;
      const ends = records.map((_, i) => Buffer.concat(records.slice(0, i + 1)).length);
      const intact = ends.filter((end) => end <= at).length;
      expect(decodeRecords(whole.subarray(0, at)).jsons).toHaveLength(intact);
      whole[at]! ^= 1 << bit;
      expect(decodeRecords(whole).jsons).toHaveLength(intact);
    }),
  );
});

const source = JSON.stringify(new URL('../../../relay/server.ts', import.meta.url).href);
const program = `import(${source}).then(async ({ createRelay }) => {
  const relay = await createRelay({ store: process.argv[1], policies: [] });
  console.log(relay.url);
});`;

test('a relay killed under load has every event it acknowledged', async () => {
  const acknowledged = new Set<string>();
  let sent = 0;
  for (const killAfterMs of [0, 3, 9]) {
    const args = ['--import', 'tsx', '--eval', program, at('store')];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = new Promise((resolve) => child.on('close', resolve));
    const url = await new Promise<string>((resolve) => {
      createInterface({ input: child.stdout }).once('line', resolve);
    });
    const writers = await Promise.all(Array.from({ length: 4 }, () => openReader(url)));
    const load = setInterval(() => {
      for (const writer of writers) {
        for (let i = 0; i < 10; i++) writer.say('EVENT', bare(++sent, 3000));
      }
    }, 5);
    const answered = () => writers.reduce((sum, { frames }) => sum + frames.length, 0);
    while (answered() < 200) await new Promise((resolve) => setTimeout(resolve, 1));
    clearInterval(load);
    for (let i = 0; i < 1000; i++) writers[i % 4]!.say('EVENT', bare(++sent, 3000));
    await new Promise((resolve) => setTimeout(resolve, killAfterMs));
    child.kill('SIGKILL');
    await ended;
    await Promise.all(writers.map(({ closed }) => closed));
    for (const [type, id, accepted] of writers.flatMap(({ frames }) => frames)) {
      if (type === 'OK' && accepted === true) acknowledged.add(String(id));
    }
  }
  expect(acknowledged.size).toBeLessThan(sent);
  const [relay, reader] = await start({ limits: { maxLimit: 100_000 } });
  const found = new Set(await ids(reader, { kinds: [1000] }));
  expect([...acknowledged].filter((id) => !found.has(id))).toEqual([]);
  expect(acknowledged.size).toBeGreaterThanOrEqual(600);
  expect(relay.stats().eventsStored).toBeGreaterThanOrEqual(acknowledged.size);
});
