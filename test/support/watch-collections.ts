/** Measures what a program retains, in entries of its Maps and Sets: unlike bytes, the same on every machine. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collection = Map<unknown, unknown> | Set<unknown>;

interface Made {
  readonly ref: WeakRef<Collection>;
  /** The stack of its construction, or the place read from it; undefined if it is not the program's. */
  place: Error | string | undefined;
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Returns where a collection was constructed; undefined for those of relays, the simulator and packages. */
function placeOf({ stack = '' }: Error): string | undefined {
  const frames = stack.split('\n').slice(1);
  const own = frames.filter(
    (frame) => !/new Watched|src\/base\/|test\/support\/watch-collections/.test(frame),
  );
  const place = own[0]?.match(/\/(src\/[^)?]*?):\d+:\d+/)?.[1];
  return place?.includes('node_modules') ? undefined : place;
}

/** Counts the entries of every Map and Set made until `restore`, as long as the program holds it. */
export function watchCollections() {
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
    /** Entries of all collections that are still reachable, by the place of construction. */
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
