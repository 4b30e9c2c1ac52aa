/** Some workers of a run in a process of their own; `certainty.ts` starts it with a task and gets what each of them saw. */
import { philox, unit } from 'nostrain/base';
import { modelLayout } from 'nostrain/model';
import type { OpenSocket } from 'nostrain/network';
import { openSocket } from 'nostrain/node';
import type { GptSpec, RunSpec } from 'nostrain/run';
import type { Layout } from 'nostrain/tensor';
import type { Trainer, WorkerEvent } from 'nostrain/worker';
import { startCertified } from '../../support/certified-swarm.ts';
import { startMember } from '../../support/swarm.ts';

export interface GroupTask {
  readonly indexes: readonly number[];
  readonly workers: number;
  readonly relay: string;
  readonly trainMs: number;
  /** What both kinds of rounds have in common; only certified ones use the rest of it. */
  readonly spec: RunSpec;
  readonly isCertified: boolean;
}

export interface Seen {
  /** One root, or digest, per round. */
  readonly roots: readonly string[];
  /** Wall time of each round. */
  readonly seconds: readonly number[];
  readonly accepted: readonly number[];
  readonly bytesSent: number;
  readonly bytesReceived: number;
}

const model: GptSpec = {
  ...{ architecture: 'gpt', vocabulary: 95, context: 128, layers: 4, heads: 4, width: 128 },
  ffn: 512,
};
const layout = modelLayout(model);

process.once('message', (task: GroupTask) => {
  void play(task).then((seen) => process.send!(seen, undefined, {}, () => process.exit()));
});

async function play(task: GroupTask): Promise<readonly Seen[]> {
  const step = Float32Array.from(
    { length: layout.size },
    (_, i) => (unit(philox([1, 2], i, 0, 0, 0)[0]) - 0.5) / 100,
  );
  return Promise.all(task.indexes.map((index) => playOne(index, step, task)));
}

async function playOne(index: number, step: Float32Array, task: GroupTask): Promise<Seen> {
  const { relay, spec, workers, trainMs } = task;
  const counted = countingSocket();
  const common = {
    ...{ index, relays: [relay], layout, openSocket: counted.open },
    trainer: standIn(index, layout, step, trainMs),
  };
  const { owners, fragments, packing, residual, rounds } = spec.training;
  const member = task.isCertified
    ? startCertified({ ...common, spec, plan: { owners, fragments } })
    : startMember({
        ...{ ...common, packing },
        plan: {
          ...{ rounds, owners, fragments, residual, weights: 'equal', weightCap: 1 },
          sync: { strategy: 'strict', workers },
          ...{ waitFor: workers, joinTimeoutMs: 600_000, roundTimeoutMs: 600_000 },
        },
      });
  await member.finished;
  const played = member.events.filter(
    (event): event is Extract<WorkerEvent, { type: 'round' }> => event.type === 'round',
  );
  return {
    roots: played.map(({ digest }) => digest),
    seconds: played.map(({ seconds }) => seconds),
    accepted: played.map(({ accepted }) => accepted.length),
    bytesSent: counted.sent(),
    bytesReceived: counted.received(),
  };
}

/** Sleeps as long as training would take, then moves the parameters by a step that is drawn once, another one in every round. */
const standIn = (index: number, layout: Layout, step: Float32Array, trainMs: number): Trainer => ({
  device: { device: 'cpu', threads: 1 },
  layout,
  async train(task, _onProgress, signal) {
    const startedMs = performance.now();
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(resolve, trainMs);
      signal.addEventListener('abort', () => {
        clearTimeout(timer);
        reject(signal.reason);
      });
    });
    const shift = index * 7919 + task.round * 104_729;
    const params = task.params.map((value, i) => value + step[(i + shift) % step.length]!);
    const losses = new Float32Array(task.steps).fill(1);
    const seconds = (performance.now() - startedMs) / 1000;
    return { params, moments: [], losses, examples: 8, seconds };
  },
  evaluate: async () => 1,
  sample: async () => new Uint8Array(),
  close: async () => undefined,
});

interface Counted {
  readonly open: OpenSocket;
  sent(): number;
  received(): number;
}

function countingSocket(): Counted {
  let [sent, received] = [0, 0];
  const open: OpenSocket = (url) => {
    const inner = openSocket(url);
    return new Proxy(inner, {
      get(target, name) {
        if (name !== 'send') return Reflect.get(target, name);
        return (text: string) => {
          sent += Buffer.byteLength(text);
          target.send(text);
        };
      },
      set(target, name, value) {
        if (name !== 'onmessage' || value === undefined) return Reflect.set(target, name, value);
        target.onmessage = (text, bytes) => {
          received += bytes;
          value(text, bytes);
        };
        return true;
      },
    });
  };
  return { open, sent: () => sent, received: () => received };
}
