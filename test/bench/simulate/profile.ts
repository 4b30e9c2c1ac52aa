/** Where the processor's time goes, sampled by V8's profiler: by room of the program, and the functions that take most. */
import { Session } from 'node:inspector/promises';

export interface Parts {
  /** Seconds by folder. */
  readonly byPart: Readonly<Record<string, number>>;
  /** Seconds by function, the largest first. */
  readonly byFunction: readonly (readonly [string, number])[];
}

const INTERVAL_US = 2000;
const SHOWN = 40;

/** The room of a file: `src/network/transport`, `relay`, a package, or what V8 does itself. */
function partOf(url: string, name: string): string {
  if (url === '') return name === '(garbage collector)' ? 'garbage collection' : name;
  const at = url.match(/(?:^|\/)(src\/[^/]+(?:\/[^/.]+(?=\/))?|relay|kinds|test)\//);
  if (url.includes('node_modules')) return url.match(/node_modules\/(@[^/]+\/[^/]+|[^/]+)/)![1]!;
  return at?.[1] ?? 'node';
}

/** Begins to sample; `stop` says where the time went. */
export async function profileParts(): Promise<{ stop(): Promise<Parts> }> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: INTERVAL_US });
  await session.post('Profiler.start');
  return {
    async stop() {
      const { profile } = await session.post('Profiler.stop');
      session.disconnect();
      const seconds = new Map<number, number>();
      const { samples = [], timeDeltas = [] } = profile;
      for (const [i, id] of samples.entries()) {
        seconds.set(id, (seconds.get(id) ?? 0) + (timeDeltas[i] ?? 0) / 1e6);
      }
      const byPart = new Map<string, number>();
      const byFunction = new Map<string, number>();
      for (const { id, callFrame } of profile.nodes) {
        const own = seconds.get(id) ?? 0;
        const part = partOf(callFrame.url, callFrame.functionName);
        const file = callFrame.url.split('/').slice(-2).join('/');
        const name = `${callFrame.functionName} ${file}:${callFrame.lineNumber + 1}`;
        byPart.set(part, (byPart.get(part) ?? 0) + own);
        byFunction.set(name, (byFunction.get(name) ?? 0) + own);
      }
      const sorted = (map: ReadonlyMap<string, number>) => [...map].sort((a, b) => b[1] - a[1]);
      return {
        byPart: Object.fromEntries(sorted(byPart)),
        byFunction: sorted(byFunction).slice(0, SHOWN),
      };
    },
  };
}
