/**
 * What certainty costs: the same run with certified rounds and without, in turns, over one relay of ours on loopback. Workers
 * send stand-in updates of the size of the char-gpt's after a pause as long as training (`--train` seconds), for no machine
 * trains 64 models at once; packing, checking, averaging, the outer step, signatures and roots are the real ones.
 *
 *   npm run bench:certainty -- [--workers 4 --workers 16 --workers 64] [--train 60] [--rounds 4] [--processes 2]
 */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createRelay } from 'nostrain/relay';
import { certifiedSpec } from '../support/certified-swarm.ts';
import type { GroupTask, Seen } from './certainty/group.ts';

const { values } = parseArgs({
  options: {
    workers: { type: 'string', multiple: true, default: ['4', '16', '64'] },
    train: { type: 'string', default: '60' },
    rounds: { type: 'string', default: '4' },
    processes: { type: 'string', default: '2' },
  },
});
const trainMs = Number(values.train) * 1000;
const rounds = Number(values.rounds);

for (const count of values.workers.map(Number)) {
  const plain = await measure(count, false);
  const certified = await measure(count, true);
  const more = (certified.seconds / plain.seconds - 1) * 100;
  console.log(JSON.stringify({ workers: count, plain, certified, morePercent: more }));
}
process.exit();

interface Measured {
  /** Of a round after the first, mean over rounds and workers. */
  readonly seconds: number;
  /** Per worker and round, everything that went over its socket. */
  readonly bytesSent: number;
  readonly bytesReceived: number;
}

/** One run of all workers. Throws when they do not end in the same bits, or do not count each other. */
async function measure(count: number, isCertified: boolean): Promise<Measured> {
  const relay = await createRelay({});
  const spec = certifiedSpec({
    ...{ founders: Array.from({ length: count }, (_, i) => i), rounds },
    training: { owners: 2, fragments: 2, packing: 'trellis', residual: 'none' },
    timing: { graceMinMs: trainMs + 10_000, graceMaxMs: 2 * trainMs + 120_000, viewMs: 60_000 },
  });
  const groups = Array.from({ length: Number(values.processes) }, (_, group) =>
    spec.founders.map((_, i) => i).filter((i) => i % Number(values.processes) === group),
  );
  const started = performance.now();
  const tell = setInterval(() => {
    const seconds = Math.round((performance.now() - started) / 1000);
    console.error(`${count} workers, ${isCertified ? 'certified' : 'plain'}: ${seconds} s`);
  }, 10_000);
  const tasks = groups.map((indexes) =>
    inProcess({ indexes, workers: count, relay: relay.url, trainMs, spec, isCertified }),
  );
  const seen = (await Promise.all(tasks)).flat();
  clearInterval(tell);
  await relay.close();
  for (const { roots, accepted } of seen) {
    if (roots.join() !== seen[0]!.roots.join()) throw new Error('workers ended in other bits');
    if (roots.length !== rounds || accepted.some((n) => n !== count)) {
      throw new Error(`rounds with ${accepted.join(', ')} of ${count} contributions`);
    }
  }
  return {
    seconds: mean(seen.flatMap(({ seconds }) => seconds.slice(1))),
    bytesSent: Math.round(mean(seen.map(({ bytesSent }) => bytesSent)) / rounds),
    bytesReceived: Math.round(mean(seen.map(({ bytesReceived }) => bytesReceived)) / rounds),
  };
}

function inProcess(task: GroupTask): Promise<readonly Seen[]> {
  const child = fork(fileURLToPath(new URL('./certainty/group.ts', import.meta.url)));
  child.send(task);
  return new Promise((resolve, reject) => {
    child.once('message', (seen) => resolve(seen as readonly Seen[]));
    child.once('exit', (code) => reject(new Error(`a group of workers ended with ${code}`)));
  });
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
