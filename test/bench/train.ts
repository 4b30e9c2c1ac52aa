/**
 * How fast training is: milliseconds per step, tokens per second, peak memory and the delay of the main thread's event
 * loop, beside the time of the matrix products alone and beside PyTorch on the same model, in turns.
 *
 *   npm run bench:train -- [--rounds 3] [--steps 30] [--threads <physical cores>] [--config char-gpt] [--python python3]
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { deriveKey } from '../../src/base/rng.ts';
import { createGraph } from '../../src/model/graph/builder.ts';
import { lower } from '../../src/model/graph/lower.ts';
import { gemm } from '../../src/model/graph/verbs.ts';
import { encodeModel } from '../../src/model/onnx/encode.ts';
import { initialParameters } from '../../src/model/parameters.ts';
import { presets } from '../../src/model/presets.ts';
import { createTrainer } from '../../src/node/trainer.ts';
import { physicalCores } from '../../src/node/trainer-cores.ts';
import type { AdamWSpec, GptSpec } from '../../src/run/model-spec.ts';
import { chainCorpus } from '../support/ort-models.ts';

const configs = {
  'char-gpt': { model: presets['char-gpt'], batch: 32 },
  'char-gpt-10m': { model: presets['char-gpt-10m'], batch: 8 },
} as const;
type ConfigName = keyof typeof configs;

const optimizer: AdamWSpec = {
  optimizer: 'adamw',
  schedule: { learningRate: 3e-4, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
  clipNorm: 1,
  beta1: 0.9,
  beta2: 0.99,
  epsilon: 1e-8,
  weightDecay: 0.01,
};

interface Measured {
  readonly ms_per_step: readonly number[];
  readonly peak_rss_mb: number;
  readonly event_loop_p99_ms?: number;
}

/** Steps before this one are warm-up. */
const WARM = 5;

/** One run in this process, so that its peak memory is its own. */
async function measureOurs(name: ConfigName, steps: number, threads: number): Promise<Measured> {
  const { model, batch } = configs[name];
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
  let done = 0;
  const report = (progress: { step: number; tokensPerSecond: number }) => {
    const count = progress.step - done;
    done = progress.step;
    const ms = (1000 * batch * model.context) / progress.tokensPerSecond;
    if (done > WARM) times.push(...new Array<number>(Math.min(count, done - WARM)).fill(ms));
  };
  await trainer.train(task, report, new AbortController().signal);
  delay.disable();
  await trainer.close();
  return {
    ms_per_step: times,
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
    encodeModel(lower(graph, 'gemm', { portable: false })),
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

/** The last line of JSON a child prints. */
function child(command: string, args: readonly string[]): Measured | undefined {
  const { stdout, status } = spawnSync(command, args, { encoding: 'utf8' });
  const line = stdout?.trim().split('\n').at(-1);
  if (status !== 0 || !line?.startsWith('{')) return undefined;
  const measured: Measured = JSON.parse(line);
  return measured;
}

const torchScript = fileURLToPath(new URL('./torch/train.py', import.meta.url));

function hasTorch(python: string): boolean {
  return existsSync(torchScript) && spawnSync(python, ['-c', 'import torch']).status === 0;
}

async function compare(name: ConfigName, options: Options, floorRate: number): Promise<void> {
  const { model, batch } = configs[name];
  const { rounds, steps, threads, python } = options;
  const common = ['--config', name, '--steps', String(steps), '--threads', String(threads)];
  const self = fileURLToPath(import.meta.url);
  const ourArgs = ['--import', 'tsx', '--conditions=nostrain:source', self, '--one', ...common];
  const torch = hasTorch(python);
  const runs: Record<'ours' | 'torch', Measured[]> = { ours: [], torch: [] };
  for (let round = 0; round < rounds; round++) {
    const ours = child(process.execPath, ourArgs);
    if (ours) runs.ours.push(ours);
    const theirs = torch ? child(python, [torchScript, ...common]) : undefined;
    if (theirs) runs.torch.push(theirs);
  }
  const tokens = batch * model.context;
  console.log(`\n${name}: batch ${batch} x ${model.context} tokens, ${threads} threads`);
  const medians = new Map<string, number>();
  for (const [who, measured] of Object.entries(runs)) {
    if (measured.length === 0) continue;
    const ms = median(measured.flatMap(({ ms_per_step }) => ms_per_step));
    const perRun = measured.map(({ ms_per_step }) => median(ms_per_step).toFixed(1)).join(', ');
    const rss = Math.max(...measured.map(({ peak_rss_mb }) => peak_rss_mb));
    medians.set(who, ms);
    console.log(
      `  ${who.padEnd(6)} ${ms.toFixed(1)} ms/step median (runs: ${perRun}), ` +
        `${Math.round((1000 * tokens) / ms)} tokens/s, peak RSS ${rss.toFixed(0)} MB`,
    );
  }
  const delays = runs.ours.map(({ event_loop_p99_ms }) => event_loop_p99_ms ?? Number.NaN);
  console.log(`  main thread's event loop: p99 delay ${Math.max(...delays).toFixed(1)} ms`);
  const floor = (1000 * productsPerStep(model, batch)) / floorRate;
  console.log(
    `  matrix products alone: ${floor.toFixed(1)} ms/step at ${(floorRate / 1e9).toFixed(0)} GFLOP/s`,
  );
  const [ours, theirs] = [medians.get('ours'), medians.get('torch')];
  if (ours && theirs) console.log(`  ours / torch: ${(ours / theirs).toFixed(2)}`);
  else console.log(`  no PyTorch under ${python}: ours alone`);
}

interface Options {
  readonly rounds: number;
  readonly steps: number;
  readonly threads: number;
  readonly python: string;
}

const isConfig = (name: string): name is ConfigName => name in configs;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    steps: { type: 'string', default: '30' },
    threads: { type: 'string', default: String(physicalCores()) },
    config: { type: 'string', multiple: true, default: Object.keys(configs) },
    python: { type: 'string', default: 'python3' },
    /** Measures in this process and prints one line of JSON. */
    one: { type: 'boolean', default: false },
  },
});
const options: Options = {
  rounds: Number(values.rounds),
  steps: Number(values.steps),
  threads: Number(values.threads),
  python: values.python,
};
const names = values.config.filter(isConfig);
if (values.one) {
  console.log(JSON.stringify(await measureOurs(names[0]!, options.steps, options.threads)));
} else {
  const rate = await gemmRate(options.threads);
  for (const name of names) await compare(name, options, rate);
}
