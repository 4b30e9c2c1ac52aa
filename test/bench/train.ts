/**
 * How fast training is: milliseconds per step, tokens per second, peak memory and the delay of the main thread's event
 * loop, beside the time of the matrix products alone and beside PyTorch on the same model, in turns.
 *
 *   npm run bench:train -- [--rounds 3] [--steps 30] [--threads <physical cores>] [--config char-gpt] [--no-torch]
 *     [--optimizer adamw --optimizer muon]
 *
 * PyTorch comes from test/bench/torch/peer.ts, which says how it is installed.
 */
import { spawnSync } from 'node:child_process';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { deriveKey } from 'nostrain/base';
import { createGraph, encodeModel, initialParameters, lower } from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import { physicalCores } from 'nostrain/node/parts';
import type { GptSpec, OptimizerSpec } from 'nostrain/run';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { gemm } from '../../src/model/graph/verbs.ts';
import { chainCorpus } from '../support/ort-models.ts';
import { type ConfigName, configs, isConfig } from './step/profile.ts';
import { type TorchReport, timeTorch } from './torch/peer.ts';

const shared = {
  schedule: { learningRate: 3e-4, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
  clipNorm: 1,
  beta1: 0.9,
  beta2: 0.99,
  epsilon: 1e-8,
  weightDecay: 0.1,
};

/** The first one asked for is held against PyTorch's AdamW. */
const optimizers = {
  adamw: { optimizer: 'adamw', ...shared },
  muon: { optimizer: 'muon', ...shared, momentum: 0.9, stepSize: 1.5 },
} satisfies Record<string, OptimizerSpec>;
type OptimizerName = keyof typeof optimizers;

interface Measured {
  readonly ms_per_step: readonly number[];
  /** Processor time of all threads, in milliseconds a step. */
  readonly cpu_ms_per_step: number;
  /** When how many steps were done, the warm-up among them; in milliseconds since 1970. */
  readonly done_at: readonly (readonly [ms: number, steps: number])[];
  readonly peak_rss_mb: number;
  readonly event_loop_p99_ms: number;
}

/** Steps before this one are warm-up. */
const WARM = 5;

/** One run in this process, so that its peak memory is its own. */
async function measureOurs(
  name: ConfigName,
  by: OptimizerName,
  { steps, threads }: Options,
): Promise<Measured> {
  const { model, batch } = configs[name];
  const optimizer = optimizers[by];
  const corpus = chainCorpus(1_000_000, model.vocabulary);
  const data = { kind: 'tokens', shard: corpus, validation: corpus.subarray(0, 10_000) } as const;
  const trainer = await createTrainer({ model, optimizer, batch, data, device: 'cpu', threads });
  const task = {
    params: initialParameters(model, 1),
    moments: [],
    round: 0,
    steps: steps + WARM,
    firstStep: 0,
    batchKey: deriveKey('bench'),
  };
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const times: number[] = [];
  const doneAt: [number, number][] = [];
  let [done, before, spent] = [0, process.cpuUsage(), 0];
  const report = (progress: { step: number; tokensPerSecond: number }) => {
    const count = progress.step - done;
    done = progress.step;
    const ms = (1000 * batch * model.context) / progress.tokensPerSecond;
    if (done - count >= WARM) {
      times.push(...new Array<number>(count).fill(ms));
      const { user, system } = process.cpuUsage(before);
      spent = (user + system) / 1000;
    } else before = process.cpuUsage();
    doneAt.push([performance.timeOrigin + performance.now(), done]);
  };
  await trainer.train(task, report, new AbortController().signal);
  delay.disable();
  await trainer.close();
  return {
    ms_per_step: times,
    cpu_ms_per_step: spent / times.length,
    done_at: doneAt,
    peak_rss_mb: process.resourceUsage().maxRSS / 1024,
    event_loop_p99_ms: delay.percentile(99) / 1e6,
  };
}

/** Best rate of one large matrix product, in floating-point operations per second. */
async function gemmRate(threads: number): Promise<number> {
  const [m, k, n] = [4096, 512, 512];
  const graph = createGraph();
  const a = graph.input('a', { dtype: 'f32', shape: [m, k] });
  const b = graph.input('b', { dtype: 'f32', shape: [k, n] });
  graph.output('c', gemm(a, b));
  const session = await InferenceSession.create(
    encodeModel(lower(graph, 'gemm', { target: 'cpu' })),
    {
      intraOpNumThreads: threads,
    },
  );
  const feeds = {
    a: new Tensor('float32', new Float32Array(m * k).fill(0.5), [m, k]),
    b: new Tensor('float32', new Float32Array(k * n).fill(0.5), [k, n]),
  };
  let best = Infinity;
  for (let i = 0; i < 40; i++) {
    const start = performance.now();
    await session.run(feeds);
    best = Math.min(best, performance.now() - start);
  }
  return (2 * m * k * n) / (best / 1000);
}

/** Operations in the matrix products of one step, forward and backward. */
function productsPerStep(
  { width, layers, ffn, vocabulary, context }: GptSpec,
  batch: number,
): number {
  const weights = layers * (4 * width * width + 2 * width * ffn) + width * vocabulary;
  const attention = 2 * layers * context * width;
  return 6 * batch * context * (weights + attention);
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

/** Our own run in a process of its own. */
function measureApart(name: ConfigName, by: OptimizerName, { steps, threads }: Options): Measured {
  const script = fileURLToPath(import.meta.url);
  const numbers = ['--steps', String(steps), '--threads', String(threads)];
  const flags = ['--one', '--config', name, '--optimizer', by, ...numbers];
  const node = ['--import', 'tsx', '--conditions=nostrain:source', script, ...flags];
  const { stdout, stderr, status } = spawnSync(process.execPath, node, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout) as Measured;
}

async function compare(name: ConfigName, options: Options): Promise<void> {
  const { model, batch } = configs[name];
  const { rounds, steps, threads } = options;
  const ours = options.optimizers.map((by) => ({ by, runs: [] as Measured[] }));
  const theirs: TorchReport[] = [];
  const rates: number[] = [];
  for (let round = 0; round < rounds; round++) {
    rates.push(await gemmRate(threads));
    for (const { by, runs } of ours) runs.push(measureApart(name, by, options));
    if (options.torch) theirs.push(await timeTorch({ config: name, steps, threads }));
  }
  console.log(`\n${name}: batch ${batch} x ${model.context} tokens, ${threads} threads`);
  const tokens = batch * model.context;
  const [mine] = ours.map(({ by, runs }) => print(`ours, ${by}`, tokens, runs));
  const delays = ours.flatMap(({ runs }) => runs).map(({ event_loop_p99_ms }) => event_loop_p99_ms);
  console.log(`  main thread's event loop: p99 delay ${Math.max(...delays).toFixed(1)} ms`);
  const rate = Math.max(...rates);
  const floor = (1000 * productsPerStep(model, batch)) / rate;
  const speed = `${(rate / 1e9).toFixed(0)} GFLOP/s`;
  console.log(`  matrix products alone: ${floor.toFixed(1)} ms/step at ${speed}`);
  if (!options.torch) return;
  const peer = print('torch', tokens, theirs);
  console.log(`  ours / torch ${theirs[0]?.torch}: ${(mine! / peer).toFixed(2)}`);
}

type Timed = Pick<Measured, 'ms_per_step' | 'peak_rss_mb'>;

/** One line of what was measured; gives the median. */
function print(who: string, tokens: number, runs: readonly Timed[]): number {
  const all = runs.flatMap(({ ms_per_step }) => ms_per_step);
  const ms = median(all);
  const perRun = runs.map(({ ms_per_step }) => median(ms_per_step).toFixed(1)).join(', ');
  const rss = Math.max(...runs.map(({ peak_rss_mb }) => peak_rss_mb)).toFixed(0);
  const perSecond = Math.round((1000 * tokens) / ms);
  console.log(
    `  ${who.padEnd(11)} ${ms.toFixed(1)} ms/step median (runs: ${perRun}; fastest ` +
      `${Math.min(...all).toFixed(1)}), ${perSecond} tokens/s, peak RSS ${rss} MB`,
  );
  return ms;
}

interface Options {
  readonly rounds: number;
  readonly steps: number;
  readonly threads: number;
  readonly torch: boolean;
  readonly optimizers: readonly OptimizerName[];
}

const isOptimizer = (name: string): name is OptimizerName => name in optimizers;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    steps: { type: 'string', default: '30' },
    threads: { type: 'string', default: String(physicalCores()) },
    config: { type: 'string', multiple: true, default: Object.keys(configs) },
    'no-torch': { type: 'boolean', default: false },
    optimizer: { type: 'string', multiple: true, default: ['adamw'] },
    /** Measures in this process and prints one line of JSON. */
    one: { type: 'boolean', default: false },
  },
});
const options: Options = {
  rounds: Number(values.rounds),
  steps: Number(values.steps),
  threads: Number(values.threads),
  torch: !values['no-torch'],
  optimizers: values.optimizer.filter(isOptimizer),
};
const names = values.config.filter(isConfig);
if (values.one) {
  console.log(JSON.stringify(await measureOurs(names[0]!, options.optimizers[0]!, options)));
} else {
  for (const name of names) await compare(name, options);
}
