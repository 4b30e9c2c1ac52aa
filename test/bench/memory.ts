/**
 * The memory of three real workers in one process, on the system's clock and with training that only waits, over a relay in another:
 * `npm run bench:memory -- ws://127.0.0.1:7777 [rounds] [milliseconds of training]`.
 */
import { certifiedSpec, startCertified } from '../support/certified-swarm.ts';
import { takeSnapshot, type Weights } from './simulate/weights.ts';

const [url, rounds = '240', trainMs = '1300'] = process.argv.slice(2);
if (url === undefined) throw new Error('name a relay');
const weighed = [20, 60, 100, 180, 240];
const startedMs = Date.now();
const snapshots: { round: number; seconds: number; heapBytes: number; weigh(): Weights }[] = [];

function record(round: number): void {
  if (!weighed.includes(round)) return;
  globalThis.gc?.();
  const { heapUsed: heapBytes } = process.memoryUsage();
  const seconds = (Date.now() - startedMs) / 1000;
  snapshots.push({ round, seconds, heapBytes, weigh: takeSnapshot() });
}

const spec = certifiedSpec({
  ...{ founders: [0, 1, 2], rounds: Number(rounds) },
  timing: { graceMinMs: 5000, graceMaxMs: 20_000, viewMs: 10_000 },
});
const members = [0, 1, 2].map((index) =>
  startCertified({
    ...{ index, relays: [url], spec, trainMs: Number(trainMs) },
    journal: { load: async () => undefined, save: async () => undefined },
    onEvent: (event) => index === 0 && event.type === 'round' && record(event.index + 1),
  }),
);
const ends = await Promise.all(members.map(({ finished }) => finished));
for (const { weigh, ...seen } of snapshots) {
  const { code, workers } = weigh();
  console.log(JSON.stringify({ ...seen, code, workers }));
}
console.log(JSON.stringify({ roots: new Set(ends.map(({ head }) => head.modelRoot)).size }));
