/** Where the processor's time and the memory go, sampled by V8's profilers: by room of the program, and the functions that take most. */
import type { HeapProfiler } from 'node:inspector';
import { Session } from 'node:inspector/promises';

export interface Parts {
  /** Seconds by folder. */
  readonly byPart: Readonly<Record<string, number>>;
  /** Seconds by function, the largest first. */
  readonly byFunction: readonly (readonly [string, number])[];
  /** Bytes that were in use when `weigh` was called last, by who allocated them. */
  readonly bytesByPart: Readonly<Record<string, number>>;
  readonly bytesByFunction: readonly (readonly [string, number])[];
}

const INTERVAL_US = 2000;
const HEAP_INTERVAL = 65_536;
const SHOWN = 40;

/** The room of a file: `src/network/transport`, `relay`, a package, or what V8 does itself. */
function partOf(url: string, name: string): string {
  if (url === '') return name === '(garbage collector)' ? 'garbage collection' : name;
  const at = url.match(/(?:^|\/)(src\/[^/]+(?:\/[^/.]+(?=\/))?|relay|kinds|test)\//);
  if (url.includes('node_modules')) return url.match(/node_modules\/(@[^/]+\/[^/]+|[^/]+)/)![1]!;
  return at?.[1] ?? 'node';
}

/** Sums by room and by function. */
class Sums {
  readonly byPart = new Map<string, number>();
  readonly byFunction = new Map<string, number>();

  add(
    { url, functionName, lineNumber }: HeapProfiler.SamplingHeapProfileNode['callFrame'],
    own: number,
  ): void {
    const part = partOf(url, functionName);
    const file = url.split('/').slice(-2).join('/');
    const name = `${functionName} ${file}:${lineNumber + 1}`;
    this.byPart.set(part, (this.byPart.get(part) ?? 0) + own);
    this.byFunction.set(name, (this.byFunction.get(name) ?? 0) + own);
  }
}

function weighed(nodes: readonly HeapProfiler.SamplingHeapProfileNode[], sums = new Sums()): Sums {
  for (const { callFrame, selfSize, children } of nodes) {
    sums.add(callFrame, selfSize);
    weighed(children, sums);
  }
  return sums;
}

const sorted = (map: ReadonlyMap<string, number>) => [...map].sort((a, b) => b[1] - a[1]);

/** Begins to sample; `stop` says where the time went. */
export async function profileParts(): Promise<{ weigh(): void; stop(): Promise<Parts> }> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: INTERVAL_US });
  await session.post('Profiler.start');
  await session.post('HeapProfiler.startSampling', { samplingInterval: HEAP_INTERVAL });
  let heap = new Sums();
  return {
    weigh() {
      void session.post('HeapProfiler.getSamplingProfile').then(({ profile }) => {
        heap = weighed([profile.head]);
      });
    },
    async stop() {
      const { profile } = await session.post('Profiler.stop');
      session.disconnect();
      const seconds = new Map<number, number>();
      const { samples = [], timeDeltas = [] } = profile;
      for (const [i, id] of samples.entries()) {
        seconds.set(id, (seconds.get(id) ?? 0) + (timeDeltas[i] ?? 0) / 1e6);
      }
      const time = new Sums();
      for (const { id, callFrame } of profile.nodes) time.add(callFrame, seconds.get(id) ?? 0);
      return {
        byPart: Object.fromEntries(sorted(time.byPart)),
        byFunction: sorted(time.byFunction).slice(0, SHOWN),
        bytesByPart: Object.fromEntries(sorted(heap.byPart)),
        bytesByFunction: sorted(heap.byFunction).slice(0, SHOWN),
      };
    },
  };
}
