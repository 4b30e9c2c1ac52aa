/**
 * How fast a published model is fine-tuned: time per step of rank-8 adapters on queries and values of SmolLM2-135M-Instruct, batch
 * 2 x 256 tokens, peak memory, and the time to read the GGUF file, beside PyTorch with PEFT and transformers, in turns.
 *
 *   npm run bench:finetune -- [--rounds 3] [--steps 5] [--threads 1 --threads 2] [--no-torch] [--recompute]
 *
 * `--shape smollm2-360m|qwen3-0.6b` measures that shape with drawn weights instead, ours alone. The peer is the interpreter
 * NOSTRAIN_TORCH, with torch, transformers, peft and gguf.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { deriveKey } from 'nostrain/base';
import {
  countParameters,
  initialParameters,
  loraModel,
  modelOf,
  readModelConfig,
} from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import { openLocalModel } from 'nostrain/node/parts';
import type { DecoderSpec, OptimizerSpec } from 'nostrain/run';
import { initialTensor } from '../../src/model/parameters.ts';
import { readWeights } from '../support/read-weights.ts';
import { needSmolLM2 } from '../support/smollm2.ts';

const [BATCH, CONTEXT] = [2, 256];
/** Steps before this one are warm-up: memory is asked for. */
const WARM = 2;
const adapter = { rank: 8, alpha: 16, targets: 'qv', train: 'both' } as const;

const optimizer: OptimizerSpec = {
  optimizer: 'adamw',
  schedule: { learningRate: 2e-3, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
  ...{ clipNorm: 1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0 },
};

/** What their config.json files say. */
const shapes: Readonly<Record<string, object>> = {
  'smollm2-360m': {
    ...{ model_type: 'llama', hidden_size: 960, intermediate_size: 2560, num_hidden_layers: 32 },
    ...{ num_attention_heads: 15, num_key_value_heads: 5, vocab_size: 49152, rope_theta: 100000 },
    ...{ max_position_embeddings: 8192, tie_word_embeddings: true, rms_norm_eps: 1e-5 },
  },
  'qwen3-0.6b': {
    ...{ model_type: 'qwen3', hidden_size: 1024, intermediate_size: 3072, num_hidden_layers: 28 },
    ...{ num_attention_heads: 16, num_key_value_heads: 8, head_dim: 128, vocab_size: 151936 },
    ...{ max_position_embeddings: 40960, tie_word_embeddings: true, rms_norm_eps: 1e-6 },
    ...{ rope_theta: 1000000 },
  },
};

interface Measured {
  readonly ms_per_step: readonly number[];
  /** Processor time of all threads, in milliseconds a step. */
  readonly cpu_ms_per_step: number;
  readonly first_step_ms: number;
  readonly import_seconds: number;
  readonly peak_rss_mb: number;
  readonly parameters: number;
}

interface Options {
  readonly rounds: number;
  readonly steps: number;
  readonly shape: string | undefined;
  readonly recompute: boolean;
}

type Frozen = Readonly<Record<string, Float32Array>>;

async function openBase(shape: string | undefined): Promise<{ spec: DecoderSpec; frozen: Frozen }> {
  if (shape === undefined) {
    const base = await openLocalModel(needSmolLM2(), { context: CONTEXT });
    return { spec: base.spec, frozen: Object.fromEntries(await readWeights(base)) };
  }
  const config = shapes[shape];
  if (!config) throw new Error(`no shape ${shape}: ${Object.keys(shapes).join(', ')}`);
  const spec = readModelConfig(config as Record<string, unknown>, { context: CONTEXT });
  const tensors = modelOf(spec).tensors;
  // one draw for all, for it is not the numbers that take time
  const drawn = initialTensor({ name: 'x', shape: [65_536], start: { deviation: 0.02 } }, 1);
  const fill = ({ shape: dims, start }: (typeof tensors)[number]) => {
    const values = new Float32Array(dims.reduce((product, dim) => product * dim, 1));
    if (start === 'ones') return values.fill(1);
    for (let at = 0; at < values.length; at += drawn.length) {
      values.set(drawn.subarray(0, values.length - at), at);
    }
    return values;
  };
  return { spec, frozen: Object.fromEntries(tensors.map((tensor) => [tensor.name, fill(tensor)])) };
}

/** One run in this process, so that its peak memory is its own. */
async function measureOurs(
  threads: number,
  { steps, shape, recompute }: Options,
): Promise<Measured> {
  const started = performance.now();
  let base: Awaited<ReturnType<typeof openBase>> | undefined = await openBase(shape);
  const importSeconds = (performance.now() - started) / 1000;
  const { spec } = base;
  const model = loraModel(spec, adapter);
  const tokens = Int32Array.from({ length: 20_000 }, (_, i) => (i * 7919) % spec.vocabulary);
  const trainer = await createTrainer({
    ...{ model, optimizer, batch: BATCH, device: 'cpu', threads, recompute },
    data: { kind: 'tokens', shard: tokens, validation: tokens.subarray(0, 1000) },
    frozen: async () => {
      const frozen = base?.frozen ?? {};
      base = undefined;
      return frozen;
    },
  });
  const times: number[] = [];
  let params = initialParameters(model, 1);
  let moments: readonly Float32Array[] = [];
  let before = process.cpuUsage();
  for (let step = 0; step < WARM + steps; step++) {
    if (step === WARM) before = process.cpuUsage();
    const begun = performance.now();
    const task = {
      params,
      moments,
      round: 0,
      steps: 1,
      firstStep: step,
      batchKey: deriveKey('bench'),
    };
    const trained = await trainer.train(task, () => undefined, new AbortController().signal);
    ({ params, moments } = trained);
    times.push(performance.now() - begun);
  }
  const { user, system } = process.cpuUsage(before);
  await trainer.close();
  return {
    ms_per_step: times.slice(WARM),
    cpu_ms_per_step: (user + system) / 1000 / steps,
    first_step_ms: times[0]!,
    import_seconds: importSeconds,
    peak_rss_mb: process.resourceUsage().maxRSS / 1024,
    parameters: countParameters(model),
  };
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

function json(command: string, args: readonly string[], threads: number): Measured {
  const env = { ...process.env, OMP_NUM_THREADS: String(threads), PYTHONDONTWRITEBYTECODE: '1' };
  const { stdout, stderr, status } = spawnSync(command, args, { encoding: 'utf8', env });
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout.trim().split('\n').at(-1)!) as Measured;
}

/** Our own run in a process of its own. */
function measureApart(threads: number, { steps, shape, recompute }: Options): Measured {
  const script = fileURLToPath(import.meta.url);
  const flags = ['--one', '--threads', String(threads), '--steps', String(steps)];
  if (shape !== undefined) flags.push('--shape', shape);
  if (recompute) flags.push('--recompute');
  const node = ['--import', 'tsx', '--conditions=nostrain:source', script, ...flags];
  return json(process.execPath, node, threads);
}

function measurePeer(python: string, threads: number, steps: number): Measured {
  const script = fileURLToPath(new URL('./torch/finetune.py', import.meta.url));
  const numbers = ['--threads', String(threads), '--steps', String(steps)];
  return json(python, [script, needSmolLM2(), ...numbers], threads);
}

/** One line of what was measured; gives the median time of a step. */
function print(who: string, runs: readonly Measured[]): number {
  const all = runs.flatMap(({ ms_per_step }) => ms_per_step);
  const ms = median(all);
  const most = (pick: (run: Measured) => number) => Math.max(...runs.map(pick)).toFixed(0);
  const least = (pick: (run: Measured) => number) => Math.min(...runs.map(pick)).toFixed(1);
  const perSecond = Math.round((1000 * BATCH * CONTEXT) / ms);
  console.log(
    `  ${who.padEnd(8)} ${ms.toFixed(0)} ms/step median (fastest ${Math.min(...all).toFixed(0)}; the first ` +
      `${most((run) => run.first_step_ms)}), ${perSecond} tokens/s, peak RSS ${most((run) => run.peak_rss_mb)} MB, ` +
      `import ${least((run) => run.import_seconds)} s`,
  );
  return ms;
}

function compare(threads: number, options: Options, python: string | undefined): void {
  const [ours, theirs]: [Measured[], Measured[]] = [[], []];
  for (let round = 0; round < options.rounds; round++) {
    ours.push(measureApart(threads, options));
    if (python !== undefined) theirs.push(measurePeer(python, threads, options.steps));
  }
  const what = options.shape ?? 'SmolLM2-135M-Instruct';
  const adapted = `${ours[0]!.parameters} parameters of adapters`;
  console.log(`\n${what}, ${adapted}, batch ${BATCH} x ${CONTEXT}, ${threads} threads`);
  const mine = print('ours', ours);
  if (theirs.length > 0)
    console.log(`  ours / PyTorch: ${(mine / print('PyTorch', theirs)).toFixed(2)}`);
}

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    steps: { type: 'string', default: '5' },
    threads: { type: 'string', multiple: true, default: ['1', '2'] },
    shape: { type: 'string' },
    recompute: { type: 'boolean', default: false },
    'no-torch': { type: 'boolean', default: false },
    /** Measures in this process and prints one line of JSON. */
    one: { type: 'boolean', default: false },
  },
});
const { shape, recompute } = values;
const options = { rounds: Number(values.rounds), steps: Number(values.steps), shape, recompute };
if (values.one) {
  console.log(JSON.stringify(await measureOurs(Number(values.threads[0]), options)));
} else {
  const python = process.env.NOSTRAIN_TORCH;
  const isAlone = values['no-torch'] || shape !== undefined;
  if (!isAlone && python === undefined) console.log('no PyTorch: set NOSTRAIN_TORCH to its python');
  for (const threads of values.threads) {
    compare(Number(threads), options, isAlone ? undefined : python);
  }
}
