/** Fifty newcomers at once on a clock that moves by itself: what that costs the one who has the file, and each of them. */
import { describe, expect, it } from 'vitest';
import { fetchChunks } from '../../src/checkpoint/fetch.ts';
import { createFakePlace, createMemoryStore, drawnChunks, type FakePlace, whileMoving } from '../support/fake-places.ts'; // biome-ignore format: one import
import { createManualClock } from '../support/manual-clock.ts';

const KB = 1024;

describe('R-19 a storm of fifty joiners', () => {
  const RATE = 1e6;
  const JOINERS = 50;

  /** Fifty who fetch one file from one seeder and each other; how long each takes, and what the seeder sent. */
  async function storm(joiners: number) {
    const clock = createManualClock();
    const { contents, wanted, total } = drawnChunks(48, 64 * KB);
    const line = { clock, contents, rate: RATE, latencyMs: 20 };
    const seeder = createFakePlace({ ...line, name: 'seeder', copies: 3 });
    const members = Array.from({ length: joiners }, (_, i) => {
      const store = createMemoryStore();
      const bits = new Uint8Array(Math.ceil(wanted.length / 8));
      const has = (sha256: string) => store.held.has(sha256);
      const place = createFakePlace({ ...line, name: `joiner ${i}`, has, have: () => bits });
      return { store, bits, place };
    });
    const places: readonly FakePlace[] = members.map(({ place }) => place);
    const startedMs = clock.now();
    const fetching = members.map(async ({ store, bits }, i) => {
      const index = new Map(wanted.map(({ piece, index: at }) => [piece, at]));
      const order = wanted.map((_, at) => wanted[(at * 29 + i * 17) % wanted.length]!);
      const { missing } = await fetchChunks({
        ...{ digest: 'ab'.repeat(32), wanted: order, clock, openSink: store.openSink },
        places: [seeder, ...places.filter((_, at) => at !== i)],
        signal: new AbortController().signal,
        onChunk: (piece) => {
          const at = index.get(piece)!;
          bits[at >> 3]! |= 1 << (at & 7);
        },
      });
      return { missing: missing.length, ms: clock.now() - startedMs };
    });
    const done = await whileMoving(clock, Promise.all(fetching), 100);
    const times = done.map(({ ms }) => ms).sort((a, b) => a - b);
    const isWhole = members.every(({ store }) => store.held.size === wanted.length);
    return {
      isWhole,
      missing: done.reduce((sum, { missing }) => sum + missing, 0),
      median: times[Math.floor(joiners / 2)]!,
      share: seeder.sent.bytes / total,
    };
  }

  it('costs the seeder at most four times the file, and each at most three times as long as one alone', async () => {
    const alone = await storm(1);
    const { isWhole, missing, median, share } = await storm(JOINERS);
    expect([isWhole, missing]).toEqual([true, 0]);
    expect(share).toBeLessThanOrEqual(4);
    expect(median).toBeLessThanOrEqual(3 * alone.median);
  });
});
