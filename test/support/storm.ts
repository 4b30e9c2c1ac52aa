/**
 * Simulates newcomers that download one file at once from one seeder and from each other, with the real choice of
 * sources, over connections in memory and on a simulated clock.
 */

import type { Piece } from 'nostrain/network';
import { fetchChunks } from '../../src/network/chunks/fetch.ts';
import { createFakeSource, createMemoryStore, drawnChunks, whileMoving } from './fake-sources.ts';
import { createManualClock } from './manual-clock.ts';

export interface Storm {
  readonly joiners: number;
  /** Number of other newcomers that each one knows in addition to the seeder; default all. */
  readonly known?: number;
  readonly chunks?: number;
  /** Bytes a second that each line takes. */
  readonly rate?: number;
}

export interface Weathered {
  readonly isWhole: boolean;
  readonly missing: number;
  /** Milliseconds until each newcomer had the whole file, ascending. */
  readonly times: readonly number[];
  /** Amount that the seeder sent, as a multiple of the file size; `sent` has that of each newcomer. */
  readonly seeder: number;
  readonly sent: readonly number[];
}

const KB = 1024;
const COPIES = 3;

/** Runs the download; returns the time of each newcomer, and the amounts sent. */
export async function storm({
  joiners,
  known,
  chunks = 48,
  rate = 1e6,
}: Storm): Promise<Weathered> {
  const clock = createManualClock();
  const { contents, wanted, total } = drawnChunks(chunks, 64 * KB);
  const line = { clock, contents, rate, latencyMs: 20 };
  const seeder = createFakeSource({ ...line, name: 'seeder', copies: COPIES });
  const members = Array.from({ length: joiners }, (_, i) => {
    const store = createMemoryStore();
    const bits = new Uint8Array(Math.ceil(wanted.length / 8));
    const has = (sha256: string) => store.held.has(sha256);
    const source = createFakeSource({ ...line, name: `joiner ${i}`, has, have: () => bits });
    return { store, bits, source };
  });
  const othersOf = (i: number) => {
    const others = members.filter((_, at) => at !== i).map(({ source }) => source);
    if (known === undefined || known >= others.length) return others;
    const step = Math.floor(others.length / known);
    return Array.from({ length: known }, (_, at) => others[(i * 7 + at * step) % others.length]!);
  };
  const startedMs = clock.now();
  const fetching = members.map(async ({ store, bits }, i) => {
    const index = new Map(wanted.map(({ piece, index: at }) => [piece, at]));
    const order = wanted.map((_, at) => wanted[(at * 29 + i * 17) % wanted.length]!);
    const { missing } = await fetchChunks<Piece>({
      ...{ digest: 'ab'.repeat(32), wanted: order, clock, openSink: store.openSink },
      sources: [seeder, ...othersOf(i)],
      signal: new AbortController().signal,
      onChunk: (piece) => {
        const at = index.get(piece)!;
        bits[at >> 3]! |= 1 << (at & 7);
      },
    });
    return { missing: missing.length, ms: clock.now() - startedMs };
  });
  const done = await whileMoving(clock, Promise.all(fetching), 100);
  return {
    isWhole: members.every(({ store }) => store.held.size === wanted.length),
    missing: done.reduce((sum, { missing }) => sum + missing, 0),
    times: done.map(({ ms }) => ms).sort((a, b) => a - b),
    seeder: seeder.sent.bytes / total,
    sent: members.map(({ source }) => source.sent.bytes / total).sort((a, b) => a - b),
  };
}
