/** When the fetcher asks a source, asks it again or gives up on it, and how much it asks of it at once. */
import { describe, expect, it } from 'vitest';
import { fetchChunks } from '../../../src/network/chunks/fetch.ts';
import type { FetchEvent, FetchOptions } from '../../../src/network/chunks/fetch-options.ts';
import { type ChunkSource, SourceError } from '../../../src/network/chunks/source.ts';
import { createMemoryStore, drawnChunks, whileMoving } from '../../support/fake-sources.ts';
import { createManualClock } from '../../support/manual-clock.ts';

const BYTES = 1024;

/** What a source does when it is asked for the `times`-th time: sends all, some or endless bytes, lacks it, or fails. */
type Reply = 'all' | 'half' | 'endless' | 'silence' | 'slowly' | 'in turn' | 'absent' | SourceError;
interface Script extends Partial<ChunkSource> {
  reply(times: number, afterMs: number): Reply;
}

/** Fetches `count` chunks from scripted sources; `asks` are their requests as `[chunk, seconds]`. */
async function play(scripts: readonly Script[], count = 1, options: Partial<FetchOptions> = {}) {
  const clock = createManualClock();
  const startMs = clock.now();
  const { contents, wanted } = drawnChunks(count, BYTES);
  const events: FetchEvent[] = [];
  const received: string[] = [];
  const sources = scripts.map(({ reply, ...more }, i) => {
    const asks: [number, number][] = [];
    const seen = { asks, active: 0, mostActive: 0, pieces: 0, aborted: 0, holds: 0 };
    async function* body(content: Uint8Array, is: Reply, signal: AbortSignal) {
      seen.mostActive = Math.max(seen.mostActive, ++seen.active);
      signal.addEventListener('abort', () => seen.aborted++);
      try {
        for (let at = 0; is === 'endless' || at < BYTES; at += BYTES / 4) {
          if (is === 'half' && at >= BYTES / 2) return;
          const turnMs = at === 0 ? 300 * seen.active + 50 : 0;
          const ms = { silence: 1e9, slowly: 6000, 'in turn': turnMs }[is as string] ?? 10;
          await clock.sleep(ms, signal);
          seen.pieces++;
          yield is === 'endless' ? new Uint8Array(BYTES / 4) : content.slice(at, at + BYTES / 4);
        }
      } finally {
        seen.active--;
      }
    }
    const source: ChunkSource = {
      name: `source ${i}`,
      ...more,
      async read({ sha256 }, signal) {
        const afterMs = clock.now() - startMs;
        asks.push([wanted.findIndex(({ piece }) => piece.sha256 === sha256), afterMs / 1000]);
        const is = reply(asks.length, afterMs);
        if (is instanceof SourceError) throw is;
        return is === 'absent' ? undefined : body(contents.get(sha256)!, is, signal);
      },
    };
    return { source, seen };
  });
  const { openSink } = createMemoryStore();
  let sinks = 0;
  const fetched = await whileMoving(
    clock,
    fetchChunks({
      ...{ digest: 'ab'.repeat(32), wanted, clock, sources: sources.map(({ source }) => source) },
      openSink: async (piece) => {
        sinks++;
        const sink = await openSink(piece);
        return { ...sink, discard: async () => void sinks-- };
      },
      signal: new AbortController().signal,
      report: (event) => events.push(event),
      onChunk: ({ name }) => received.push(name),
      ...options,
    }),
  );
  const seconds = (clock.now() - startMs) / 1000;
  const told = events.flatMap((event) => (event.type === 'progress' ? [] : event.type));
  const seen = sources.map((each) => each.seen);
  const ats = seen[0]!.asks.map(([, at]) => at);
  return { ...fetched, seconds, seen, ats, told, received, sinks, reports: fetched.sources };
}

const failure = new SourceError('403');

describe('a source that', () => {
  it('fails rests for longer each time, and is away after five failures in a row', async () => {
    const { ats, told, missing, reports } = await play([{ reply: () => failure }]);
    expect(ats).toEqual([0, 0.5, 1.5, 3.5, 7.5]);
    expect(told).toEqual(['away']);
    expect(missing).toHaveLength(1);
    expect(reports[0]).toMatchObject({ state: 'away', failures: 5, corrupt: 0, message: '403' });
  });

  it('delivers in between may fail again five times', async () => {
    const script: Script = { reply: (times: number) => (times % 5 === 0 ? 'all' : failure) };
    const { missing, reports, received } = await play([script], 3, { perSource: 1 });
    expect(missing).toEqual([]);
    expect(received).toHaveLength(3);
    expect(reports[0]).toMatchObject({ state: 'good', failures: 12, chunks: 3 });
  });

  it('says when to come back is asked for the chunk then, and for others after a moment', async () => {
    const busy = new SourceError('429', { retryMs: 3000 });
    const script: Script = { reply: (times: number) => (times === 1 ? busy : 'all') };
    const { seen, missing, reports } = await play([script], 2, { perSource: 1 });
    expect(seen[0]!.asks).toEqual([[0, 0], [1, 0.2], [0, 3]]); // biome-ignore format: one line
    expect(missing).toEqual([]);
    expect(reports[0]).toMatchObject({ state: 'good', failures: 0 });
  });

  it('may get a chunk later is asked again, ever less often, until nothing came for a while', async () => {
    const lacking: Script = { reply: () => 'absent' };
    const patient = { patienceMs: 40_000 };
    const growing = await play([{ ...lacking, isGrowing: true }], 1, patient);
    expect(growing.ats).toEqual([0, 0.5, 1.5, 3.5, 7.5, 15.5, 23.5, 31.5, 39.5]);
    const { ats, seconds } = await play([lacking], 1, patient);
    expect([ats, seconds < 1]).toEqual([[0], true]);
  });

  it('still gets chunks is waited for, 15 s after the last one', async () => {
    const script: Script = {
      isGrowing: true,
      reply: (_: number, afterMs: number) => (afterMs >= 7500 ? 'all' : 'absent'),
    };
    const late: Script = { isGrowing: true, reply: () => 'absent' };
    const { missing, seconds } = await play([{ ...script, expected: Uint8Array.of(1) }, late], 2);
    expect(missing).toHaveLength(1);
    expect(Math.floor(seconds)).toBe(22);
  });

  it('sends nothing for 10 s is stopped, but not one that sends a little', async () => {
    const stuck: Script = { reply: (times: number) => (times === 1 ? 'silence' : 'all') };
    const { ats, missing, reports } = await play([stuck]);
    expect(missing).toEqual([]);
    expect(ats).toEqual([0, expect.closeTo(10.6, 0.3)]);
    expect(reports[0]).toMatchObject({ failures: 1, message: 'no data for 10 s' });
    const slow = await play([{ reply: () => 'slowly' }]);
    expect(slow.reports[0]).toMatchObject({ chunks: 1, failures: 0 });
    expect(slow.seconds).toBe(24);
  });

  it('ends early failed; one that sends too much is stopped at once, and not used any more', async () => {
    const early = await play([{ reply: (times) => (times === 1 ? 'half' : 'all') }]);
    expect(early.reports[0]).toMatchObject({ state: 'good', failures: 1, corrupt: 0, chunks: 1 });
    expect(early.sinks).toBe(1);
    const { seen, missing, reports, told } = await play([{ reply: () => 'endless' }], 2);
    expect(reports[0]).toMatchObject({ state: 'demoted', corrupt: 2, failures: 0 });
    expect([seen[0]!.pieces, seen[0]!.asks.length, told]).toEqual([10, 2, ['demoted']]);
    expect(missing).toHaveLength(2);
  });

  it('says which chunks it has is asked that every second, but not if it does not say', async () => {
    const playWith = async (bitsOf: (times: number) => Uint8Array | undefined) => {
      let holds = 0;
      const expected = Uint8Array.of(0);
      const script: Script = {
        reply: () => 'slowly',
        expected,
        holds: async () => bitsOf(++holds),
      };
      const { seen, missing } = await play([script], 2);
      return { ...{ asks: seen[0]!.asks, holds }, missing: missing.length };
    };
    const growing = await playWith((times) => Uint8Array.of(times > 3 ? 2 : 0));
    expect(growing).toMatchObject({ asks: [[1, 3]], missing: 1 });
    // until 15 s after it came
    expect(growing.holds).toBe(43);
    const silent = await playWith(() => undefined);
    expect(silent).toEqual({ asks: [[0, 0], [1, 0]], holds: 1, missing: 0 }); // biome-ignore format: one line
  });
});

describe('at once', () => {
  it('a source is asked for four chunks, all sources for 24', async () => {
    const script: Script = { reply: () => 'slowly' };
    const { seen } = await play([script, script], 20);
    expect(seen.map(({ mostActive }) => mostActive)).toEqual([4, 4]);
    const many = await play(Array(10).fill(script), 60);
    expect(many.seen.reduce((sum, { asks }) => sum + asks.filter(([, at]) => at === 0).length, 0)).toBe(24); // biome-ignore format: one line
  });

  it('a chunk is asked of two sources if the first is slow; the other attempt is stopped without blame', async () => {
    const slow: Script = { reply: () => 'silence', isNear: true };
    const fast: Script = { reply: () => 'all' };
    const { seen, reports, seconds, received, sinks } = await play([slow, fast, fast]);
    expect(seen.map(({ asks }) => asks.length)).toEqual([1, 1, 0]);
    expect(seen[0]!.aborted).toBe(1);
    expect(reports[0]).toMatchObject({ state: 'good', failures: 0, message: '' });
    expect(received).toEqual(['chunk 0']);
    expect(sinks).toBe(1);
    expect(seconds).toBeLessThan(1);
    expect(seen[1]!.asks[0]![1]).toBeGreaterThanOrEqual(0.5);
  });

  it('no chunk is asked of three sources, nor of a second one while the first delivers others', async () => {
    const silent: Script = { reply: () => 'silence' };
    const { seen, missing } = await play([silent, silent, { reply: () => 'all' }], 1, {
      hedgeMs: 5,
    });
    expect(missing).toEqual([]);
    const [firsts, third] = [seen.slice(0, 2).map(({ asks }) => asks[0]![1]), seen[2]!.asks[0]![1]];
    expect(Math.max(...firsts)).toBeLessThan(1);
    expect(third).toBeGreaterThan(10);
    const inTurn = await play([{ reply: () => 'in turn' }, { reply: () => 'all', isSpared: true }], 4); // biome-ignore format: one line
    expect(inTurn.seen.map(({ asks }) => asks.length)).toEqual([4, 0]);
    expect(inTurn.seconds).toBeGreaterThan(1);
  });

  it('chunks that came elsewhere are not asked for, and later ones only when they are wanted', async () => {
    const statusOf = ({ name }: { name: string }) =>
      name === 'chunk 1' ? 'here' : name === 'chunk 2' ? 'later' : 'wanted';
    const { seen, missing } = await play([{ reply: () => 'all' }], 3, { statusOf });
    expect(seen[0]!.asks.map(([chunk]) => chunk)).toEqual([0]);
    expect(missing.map(({ name }) => name)).toEqual(['chunk 2']);
  });

  it('a spared source is used only for what takes the others over two seconds', async () => {
    const spared: Script = { reply: () => 'all', isSpared: true };
    const usual = await play([{ reply: () => 'all' }, spared], 40);
    expect(usual.seen[1]!.asks).toEqual([]);
    const slow = await play([{ reply: () => 'slowly' }, spared], 40, { hedgeMs: 1e9 });
    expect(slow.missing).toEqual([]);
    expect(slow.seen[1]!.asks.length).toBeGreaterThan(30);
    expect(slow.seen[1]!.asks[0]![1]).toBeGreaterThan(2);
  });
});
