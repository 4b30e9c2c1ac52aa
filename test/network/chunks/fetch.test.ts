/** Fetching from many sources on a test clock: how long it takes, which sources are used, and what faults cost. */
import { describe, expect, it } from 'vitest';
import { fetchChunks } from '../../../src/network/chunks/fetch.ts';
import type { FetchEvent, FetchOptions } from '../../../src/network/chunks/fetch-options.ts';
import {
  createFakeSource,
  createMemoryStore,
  drawnChunks,
  type FakeSourceOptions,
  whileMoving,
} from '../../support/fake-sources.ts';
import { createManualClock } from '../../support/manual-clock.ts';

const KB = 1024;

async function play(
  file: ReturnType<typeof drawnChunks>,
  made: readonly Omit<FakeSourceOptions, 'clock' | 'contents'>[],
  options: Partial<FetchOptions> = {},
) {
  const clock = createManualClock();
  const { contents, wanted } = file;
  const startedMs = clock.now();
  const sources = made.map(
    (each) =>
    createFakeSource({ contents, ...each, clock, ...(each.diesMs && { diesMs: startedMs + each.diesMs }) }), // biome-ignore format: one line
  );
  const store = createMemoryStore();
  const events: FetchEvent[] = [];
  const fetched = await whileMoving(
    clock,
    fetchChunks({
      ...{ digest: 'ab'.repeat(32), wanted, sources, clock, openSink: store.openSink },
      signal: new AbortController().signal,
      report: (event) => events.push(event),
      ...options,
    }),
  );
  const { missing, sources: reports, bytes } = fetched;
  return { ms: clock.now() - startedMs, missing, reports, bytes, store, sources, events };
}

const six = (rate: number) =>
  Array.from({ length: 6 }, (_, i) => ({ name: `holder ${i}`, rate, latencyMs: 20 }));

describe('R-17 fetching in parallel', () => {
  it('takes at most 1.35 times what six lines of 1 MB/s need', async () => {
    const file = drawnChunks(144, 64 * KB);
    const { ms, missing, store } = await play(file, six(1e6));
    expect([missing, store.held.size]).toEqual([[], 144]);
    expect(ms).toBeLessThan(1.35 * (file.total / 6e6) * 1000);
  });

  it('goes on where two of the six die half way', async () => {
    const file = drawnChunks(144, 64 * KB);
    const made = six(1e6).map((each, i) => (i < 2 ? { ...each, diesMs: 800 } : each));
    const { ms, missing, reports } = await play(file, made);
    expect(missing).toEqual([]);
    expect(ms).toBeLessThan(1.35 * (file.total / 4e6) * 1000);
    expect(reports.slice(0, 2).every(({ failures }) => failures > 0)).toBe(true);
  });

  it('asks once elsewhere for a chunk that does not match its hash, and names its source', async () => {
    const file = drawnChunks(48, 64 * KB);
    const made = six(1e6).map((each, i) =>
      i === 3 ? { ...each, fault: 'garbage' as const } : each,
    );
    const { missing, reports, sources, bytes, events } = await play(file, made, { perSource: 1 });
    expect(missing).toEqual([]);
    expect(sources[3]!.sent.answers).toBe(1);
    expect(bytes).toBe(file.total + 64 * KB);
    expect(reports[3]).toMatchObject({ state: 'demoted', corrupt: 1, chunks: 0 });
    const named = events.filter(({ type }) => type === 'demoted');
    expect(named).toEqual([
      { type: 'demoted', source: 'holder 3', message: expect.stringMatching(/^chunk \d+ does not match its hash$/) }, // biome-ignore format: one line
    ]);
  });
});

describe('R-18 near sources', () => {
  it.each([
    ['that are said to be near', true],
    ['that turn out to be near', undefined],
  ])('%s give at least four fifths of the bytes where they suffice', async (_, isNear) => {
    const file = drawnChunks(120, 64 * KB);
    const near = ['a', 'b', 'c'].map((name) => ({ name, rate: 4e6, latencyMs: 10, isNear }));
    const far = ['x', 'y', 'z'].map((name) => ({ name, rate: 4e6, latencyMs: 200 }));
    const { missing, reports } = await play(file, [...far, ...near] as never);
    expect(missing).toEqual([]);
    const bytes = reports.slice(3).reduce((sum, each) => sum + each.bytes, 0);
    expect(bytes / file.total).toBeGreaterThan(0.8);
  });
});

describe('faults', () => {
  it.each(['short', 'long', 'stops', 'fails', 'garbage'] as const)(
    'a source that %s costs no chunk',
    async (fault) => {
      // biome-ignore format: one line
      const file = drawnChunks(24, 64 * KB);
      const good = { name: 'good', rate: 2e6, latencyMs: 10 };
      const bad = { name: 'bad', rate: 2e6, latencyMs: 10, fault, isNear: true };
      const { missing, reports, ms } = await play(file, [bad, good]);
      expect(missing).toEqual([]);
      expect(reports[1]!.chunks).toBe(24);
      expect(ms).toBeLessThan(20_000);
    },
  );

  it('a source that is slow for ever is overtaken', async () => {
    const file = drawnChunks(40, 64 * KB);
    const made = [
      { name: 'slow', rate: 1000, latencyMs: 5, isNear: true },
      { name: 'fast', rate: 2e6, latencyMs: 30 },
    ];
    const { missing, ms } = await play(file, made);
    expect(missing).toEqual([]);
    // all of it from the fast one takes 1.3 s; the slow one would take 65 s for one chunk
    expect(ms).toBeLessThan(6000);
  });

  it('chunks that no source has are named, at once', async () => {
    const file = drawnChunks(10, 16 * KB);
    const lost = file.wanted[4]!.piece.sha256;
    const has = (sha256: string) => sha256 !== lost;
    const { missing, ms } = await play(file, [
      { name: 'a', has },
      { name: 'b', has },
    ]);
    expect(missing.map(({ name }) => name)).toEqual(['chunk 4']);
    expect(ms).toBeLessThan(500);
  });

  it('without any source that lives it ends', async () => {
    const { missing, ms } = await play(drawnChunks(3, KB), [{ name: 'a', fault: 'fails' }]);
    expect(missing.length).toBe(3);
    expect(ms).toBeLessThan(20_000);
  });

  it('takes no more bytes than it may', async () => {
    const file = drawnChunks(10, 16 * KB);
    const playing = play(file, [{ name: 'a' }], { mostBytes: 100 * KB });
    await expect(playing).rejects.toMatchObject({ code: 'checkpoint/too-much' });
  });

  it('ends when it is told to', async () => {
    const aborter = new AbortController();
    const playing = play(drawnChunks(10, 64 * KB), [{ name: 'a', rate: 1000 }], {
      signal: aborter.signal,
      report: () => aborter.abort(new Error('enough')),
    });
    await expect(playing).rejects.toThrow('enough');
  });
});
