/** A worker's memory: what it remembers of rounds, events and peers does not grow with the rounds it has played. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { KeyWatch } from '../../src/certified/rounds/journal.ts';
import { simulate } from '../bench/simulate/play.ts';

type Collection = Map<unknown, unknown> | Set<unknown>;

interface Made {
  readonly ref: WeakRef<Collection>;
  /** Its stack says where; undefined for what is none of the program's. */
  place: Error | string | undefined;
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Where a collection of the program is made; undefined for those of relays, of the simulator and of packages. */
function placeOf({ stack = '' }: Error): string | undefined {
  const frames = stack.split('\n').slice(1);
  const own = frames.filter(
    (frame) => !/new Watched|src\/base\/|test\/certified\/memory/.test(frame),
  );
  const place = own[0]?.match(/\/(src\/[^)?]*?):\d+:\d+/)?.[1];
  return place?.includes('node_modules') ? undefined : place;
}

/** Every Map and Set made until `restore`. */
function watchCollections() {
  const [RealMap, RealSet, { stackTraceLimit }] = [Map, Set, Error];
  let made: Made[] = [];
  const note = (one: Collection) => made.push({ ref: new WeakRef(one), place: new Error('made') });
  class WatchedMap<K, V> extends RealMap<K, V> {
    constructor(entries?: Iterable<readonly [K, V]> | null) {
      super(entries);
      note(this);
    }
  }
  class WatchedSet<T> extends RealSet<T> {
    constructor(values?: Iterable<T> | null) {
      super(values);
      note(this);
    }
  }
  Error.stackTraceLimit = 8;
  globalThis.Map = WatchedMap as MapConstructor;
  globalThis.Set = WatchedSet as SetConstructor;
  return {
    /** Entries of all that are still held, by where they are made. */
    sizes(): ReadonlyMap<string, number> {
      collectGarbage();
      made = made.filter(({ ref, place }) => place !== undefined && ref.deref());
      const sums = new RealMap<string, number>();
      for (const one of made) {
        if (one.place instanceof Error) one.place = placeOf(one.place);
        const { place } = one;
        const { size } = one.ref.deref() ?? { size: 0 };
        if (place !== undefined) sums.set(place, (sums.get(place) ?? 0) + size);
      }
      return sums;
    },
    restore() {
      globalThis.Map = RealMap;
      globalThis.Set = RealSet;
      Error.stackTraceLimit = stackTraceLimit;
    },
  };
}

/** The most of each in some of the rounds. */
function mostOf(rounds: readonly ReadonlyMap<string, number>[]): ReadonlyMap<string, number> {
  const most = new Map<string, number>();
  for (const sizes of rounds) {
    for (const [place, size] of sizes) most.set(place, Math.max(size, most.get(place) ?? 0));
  }
  return most;
}

// what grows by the round is more than twice as large
it('holds as many entries after thirty rounds as after twelve', { timeout: 180_000 }, async () => {
  const rounds: ReadonlyMap<string, number>[] = [];
  const watched = watchCollections();
  try {
    const played = await simulate({
      ...{ workers: 2, founders: 1024, relays: 1, copies: 0, rounds: 32, seed: 1, params: 64 },
      ...{ dialects: ['strfry'], limits: {}, loss: 0, deadlineC: 4, churn: 0, document: {} },
      // what is remembered for minutes is that of some rounds
      trainSeconds: [80, 90],
      sharesChecks: false,
      onRound: ({ round }) => round % 2 === 0 && rounds.push(watched.sizes()),
    });
    expect(played.failures).toEqual([]);
  } finally {
    watched.restore();
  }
  const [early, late] = [mostOf(rounds.slice(4, 7)), mostOf(rounds.slice(-3))];
  expect(early.size).toBeGreaterThan(20);
  const grown = [...late].filter(([place, size]) => size > 8 + 1.5 * (early.get(place) ?? 0));
  expect(grown).toEqual([]);
});

it('waits for another use of its key by one promise in all rounds', () => {
  const watch = new KeyWatch('1'.repeat(64), () => undefined);
  expect(watch.conflict).toBe(watch.conflict);
});
