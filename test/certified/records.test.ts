/** Files that a replay reads from strangers: lines of archives, and records of what a replay should find. */
import { createSigner } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { describe, expect, it } from 'vitest';
import { formatArchive, readArchive } from '../../src/certified/records/archive.ts';
import {
  parseRecord,
  type RunRecord,
  recordDifference,
  recordText,
} from '../../src/certified/records/replay-run.ts';

const signer = createSigner(new Uint8Array(32).fill(1), nativeCrypto);
const id = 'ab'.repeat(32);
const root = 'cd'.repeat(32);
const eventOf = (tags: readonly (readonly string[])[], content = '') =>
  signer.sign({ kind: 7810, created_at: 1_800_000_000, tags, content });

describe('an archive', () => {
  const events = [eventOf([['d', `${id}/3`]]), eventOf([['d', `${id}/4`]])];
  const beacons = [
    { time: 5, proof: { signature: 'ef' } },
    { time: 6, proof: { block: root, height: 9 } },
  ];
  const read = (...lines: readonly string[]) => readArchive(lines, { crypto: nativeCrypto });

  it('has one line for each event and beacon value; empty lines count as lines only', async () => {
    const text = formatArchive({ events, beacons });
    expect(text.split('\n')).toHaveLength(5);
    const lines = ['', ...text.split('\n'), JSON.stringify(events[0])];
    expect(await read(...lines)).toEqual({
      events,
      beacons: beacons.map((each, i) => ({ ...each, line: 4 + i })),
      bad: [],
    });
  });

  it('reports progress every 500 lines', async () => {
    const seen: number[] = [];
    const lines = Array.from({ length: 1001 }, () => '');
    await readArchive(lines, { onProgress: (have) => seen.push(have) });
    expect(seen).toEqual([500, 1000]);
  });

  const [event] = events;
  const line = JSON.stringify(event);
  it.each<[string, string, object]>([
    ['is not JSON', '{', { reason: 'not JSON' }],
    ['is a number', '5', { reason: expect.stringContaining(' is ') }],
    [
      'is longer than 32 MiB',
      ' '.repeat((32 << 20) + 1),
      { reason: 'longer than 33554432 characters' },
    ],
    ['has a forged signature', line.replace(/"sig":"../, '"sig":"00'), { round: 3 }],
    ['has another round', line.replace(`${id}/3`, `${id}/12`), { round: 12 }],
    [
      'has a chunk of a root',
      JSON.stringify(eventOf([['x', root]])).replace('"content":""', '"content":"a"'),
      { root },
    ],
    ['has another root', JSON.stringify(eventOf([['x', root]])).replace(root, 'CD'.repeat(32)), {}],
    ['is a beacon with more', '{"beacon":{"time":1,"signature":"ef"},"a":1}', {}],
    ['is a beacon without a time', '{"beacon":{"time":1.5,"signature":"ef"}}', {}],
    ['is a beacon without a height', `{"beacon":{"time":1,"block":"${root}"}}`, {}],
    ['is a beacon of another block', '{"beacon":{"time":1,"block":"ef","height":9}}', {}],
    ['is a beacon of nothing', '{"beacon":null}', {}],
  ])('says which line %s, and where it belongs', async (_, text, expected) => {
    const { events: found, beacons: values, bad } = await read(line, text);
    expect([found, values]).toEqual([[event], []]);
    expect(bad).toEqual([{ line: 2, reason: expect.any(String), ...expected }]);
  });

  it('finds the round of a changed event in its content, if that makes the event valid', async () => {
    const nested = eventOf([['d', `${id}/3`]], JSON.stringify({ past: { round: 8 }, round: 3 }));
    const changed = JSON.stringify(nested).replace(`${id}/3`, `${id}/7`);
    expect((await read(changed)).bad).toMatchObject([{ round: 3 }]);
    const untagged = JSON.stringify(eventOf([], '{"round":6}')).replace(
      '"content":"',
      '"content":" ',
    );
    expect((await read(untagged)).bad).toMatchObject([{ round: 6 }]);
  });
});

describe('a record', () => {
  const record: RunRecord = {
    ...{ run: id, rounds: 5, runRoot: root, modelRoot: id, ledgerRoot: root, eventsSha256: id },
    states: [
      { rounds: 2, modelRoot: root, bytes: 100 },
      { rounds: 5, ring: 1, modelRoot: id, bytes: 60 },
    ],
  };
  const fields = JSON.parse(recordText(record));

  it('is read back from its text', () => {
    expect(parseRecord(recordText(record))).toEqual({ ok: true, value: record });
  });

  const [state] = fields.states;
  it.each<[string, object]>([
    ['format', { format: 'nostrain/record/2' }],
    ['run', { run: 'AB'.repeat(32) }],
    ['rounds', { rounds: -1 }],
    ['runRoot', { runRoot: null }],
    ['modelRoot', { modelRoot: 7 }],
    ['ledgerRoot', { ledgerRoot: id.slice(1) }],
    ['eventsSha256', { eventsSha256: undefined }],
    ['states', { states: {} }],
    ['states', { states: [state, 5] }],
    ['states', { states: [{ ...state, rounds: 0.5 }] }],
    ['states', { states: [{ ...state, ring: 'x' }] }],
    ['states', { states: [{ ...state, bytes: undefined }] }],
    ['states', { states: Array.from({ length: 4097 }, () => state) }],
  ])('is refused with a malformed %s', (at, change) => {
    const issue = { code: 'bad-record', at };
    expect(parseRecord(JSON.stringify({ ...fields, ...change }))).toMatchObject({ issue });
  });

  it('has at most 4096 states and 1 MiB', () => {
    const states = Array.from({ length: 4096 }, () => ({ ...state, bytes: 1 }));
    expect(parseRecord(JSON.stringify({ ...fields, states })).ok).toBe(true);
    const most = recordText(record).padEnd(2 ** 20);
    expect(parseRecord(most).ok).toBe(true);
    expect(parseRecord(`${most} `)).toMatchObject({ issue: { code: 'too-large' } });
    expect(parseRecord('{')).toMatchObject({ ok: false });
  });

  it('differs from a replay in the first value that is not the same', () => {
    const report = { ...record, lines: [], forks: [] } as never as Parameters<
      typeof recordDifference
    >[1];
    expect(recordDifference(record, report)).toBeUndefined();
    for (const name of ['run', 'rounds', 'runRoot', 'modelRoot', 'ledgerRoot'] as const) {
      const other = { ...report, [name]: name === 'rounds' ? 6 : 'ef'.repeat(32) };
      expect(recordDifference(record, other)).toMatch(new RegExp(`^${name} is ${record[name]} `));
    }
    const none = { ...record, runRoot: '0'.repeat(64) };
    expect(recordDifference(none, { ...report, runRoot: null })).toBeUndefined();
  });
});
