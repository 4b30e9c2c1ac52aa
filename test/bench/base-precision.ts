/**
 * What a frozen base costs in f32, f16, 8 and 4 bits: bytes it takes, most memory of the process, time to open, time of a step and loss
 * before training. Each precision runs in a process of its own. A low-rank adapter of rank 8 on queries and values is trained.
 *
 *   npm run bench:base-precision -- --base MODEL.gguf --corpus tinyshakespeare.txt
 *   npm run bench:base-precision -- --shape smollm2-360m      (or qwen3-0.6b, smollm2-135m; random weights)
 *     [--precision f32 --precision q4] [--steps 5] [--batch 2] [--context 256] [--threads <physical cores>]
 *     [--recompute] [--accumulate 1] [--json]
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { deriveKey, philox } from 'nostrain/base';
import { type FrozenTensor, initialParameters, loraModel, readModelConfig } from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import { type FrozenNumbers, openLocalModel, physicalCores } from 'nostrain/node/parts';
import { type AdamWSpec, type DecoderSpec, type Precision, precisions } from 'nostrain/run';
import { partsOf } from '../../src/model/precision.ts';
import { readFinite } from '../../src/pretrained/weights.ts';

const smollm2 = {
  ...{ model_type: 'llama', vocab_size: 49_152, rope_theta: 100_000, rms_norm_eps: 1e-5 },
  ...{ tie_word_embeddings: true, max_position_embeddings: 8192 },
};

/** As the published `config.json` files have them. */
const shapes: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  'smollm2-135m': {
    ...smollm2,
    ...{ hidden_size: 576, intermediate_size: 1536, num_hidden_layers: 30 },
    ...{ num_attention_heads: 9, num_key_value_heads: 3 },
  },
  'smollm2-360m': {
    ...smollm2,
    ...{ hidden_size: 960, intermediate_size: 2560, num_hidden_layers: 32 },
    ...{ num_attention_heads: 15, num_key_value_heads: 5 },
  },
  'qwen3-0.6b': {
    ...{ model_type: 'qwen3', vocab_size: 151_936, rope_theta: 1_000_000, rms_norm_eps: 1e-6 },
    ...{ tie_word_embeddings: true, max_position_embeddings: 40_960, attention_bias: false },
    ...{ hidden_size: 1024, intermediate_size: 3072, num_hidden_layers: 28, head_dim: 128 },
    ...{ num_attention_heads: 16, num_key_value_heads: 8 },
  },
};

const adamw: AdamWSpec = {
  optimizer: 'adamw',
  schedule: { learningRate: 1e-3, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
  ...{ clipNorm: 1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0 },
};

const { values: options } = parseArgs({
  options: {
    base: { type: 'string' },
    shape: { type: 'string' },
    corpus: { type: 'string' },
    precision: { type: 'string', multiple: true, default: [...precisions] },
    steps: { type: 'string', default: '5' },
    batch: { type: 'string', default: '2' },
    context: { type: 'string', default: '256' },
    threads: { type: 'string', default: String(physicalCores()) },
    accumulate: { type: 'string', default: '1' },
    recompute: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    only: { type: 'boolean', default: false },
  },
});
const [steps, batch, context] = [options.steps, options.batch, options.context].map(Number);

interface Base {
  readonly spec: DecoderSpec;
  readonly frozen: () => Promise<Readonly<Record<string, FrozenNumbers>>>;
  readonly tokens: Int32Array;
}

/** A published model and a text in its tokens. */
async function openBase(path: string): Promise<Base> {
  const { spec, tensors, tokenizer } = await openLocalModel(path, { context: context! });
  const text = readFileSync(options.corpus ?? 'tinyshakespeare.txt', 'utf8');
  return {
    spec,
    frozen: async () =>
      Object.fromEntries(
        [...tensors].map(([name, tensor]) => [name, () => readFinite(name, tensor)]),
      ),
    tokens: Int32Array.from(tokenizer.encode(text).tokens),
  };
}

/** A shape with random weights, and random tokens. */
function drawBase(name: string): Base {
  const config = shapes[name];
  if (!config) throw new Error(`known shapes: ${Object.keys(shapes).join(', ')}`);
  const spec = readModelConfig(config, { context: context! });
  const { frozen = [] } = loraModel(spec, { rank: 8, alpha: 16, targets: 'qv' });
  const draw = ({ shape, name: of }: FrozenTensor) => {
    const values = new Float32Array(shape.reduce((size, dim) => size * dim, 1));
    if (shape.length === 1) return values.fill(1);
    const key = deriveKey('bench', of);
    // one block of draws, over and over: what is measured does not depend on the numbers
    const block = Float32Array.from(
      { length: 4099 },
      (_, i) => philox(key, i, 0, 0, 0)[0] / 2 ** 32,
    );
    for (let i = 0; i < values.length; i++) values[i] = 0.05 * (block[i % block.length]! - 0.5);
    return values;
  };
  return {
    spec,
    frozen: async () =>
      Object.fromEntries(frozen.map((tensor) => [tensor.name, async () => draw(tensor)])),
    tokens: Int32Array.from({ length: 20_000 }, (_, i) => (i * 7919) % spec.vocabulary),
  };
}

/** Most memory of this process so far, MiB. */
const peakMemory = (): number => {
  const status = readFileSync('/proc/self/status', 'utf8');
  return Number(/VmHWM:\s+(\d+)/.exec(status)![1]) / 1024;
};
const memoryNow = (): number => process.memoryUsage().rss / 2 ** 20;

/** Returns the CPU seconds of all threads of this process so far. */
const cpuSeconds = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

const WIDTH = { f16: 2, f32: 4, f64: 8, i64: 8, i32: 4, i8: 1, u8: 1, bool: 1 };

async function measure(precision: Precision) {
  const { spec, frozen, tokens } =
    options.base === undefined
      ? drawBase(options.shape ?? 'smollm2-135m')
      : await openBase(options.base);
  const adapter = { rank: 8, alpha: 16, targets: 'qv' } as const;
  const model = loraModel(spec, adapter, precision);
  const baseBytes = model
    .frozen!.flatMap((tensor) => partsOf(tensor))
    .reduce((sum, { dtype, shape }) => sum + WIDTH[dtype] * shape.reduce((a, b) => a * b, 1), 0);
  const cut = Math.floor(0.9 * tokens.length);
  const before = memoryNow();
  const start = performance.now();
  const startCpu = cpuSeconds();
  const trainer = await createTrainer({
    ...{
      model,
      frozen,
      optimizer: adamw,
      batch: batch!,
      device: 'cpu',
      threads: Number(options.threads),
    },
    data: { kind: 'tokens', shard: tokens.subarray(0, cut), validation: tokens.subarray(cut) },
    ...{ recompute: options.recompute, accumulate: Number(options.accumulate) },
  });
  const opened = performance.now() - start;
  const openCpuSeconds = cpuSeconds() - startCpu;
  const [memoryOpen, peakOpen] = [memoryNow(), peakMemory()];
  const params = initialParameters(model, 1);
  const seconds: number[] = [];
  const cpu: number[] = [];
  let state = { params, moments: [] as readonly Float32Array[] };
  for (let step = 0; step < steps!; step++) {
    const task = { ...state, round: step, steps: 1, firstStep: step, batchKey: deriveKey('bench') };
    const used = cpuSeconds();
    const trained = await trainer.train(task, () => {}, new AbortController().signal);
    seconds.push(trained.seconds);
    cpu.push(cpuSeconds() - used);
    state = trained as typeof state;
  }
  const [memoryTraining, peak] = [memoryNow(), peakMemory()];
  // 8 windows over the last tenth
  const loss = await trainer.evaluate(params, 'validation', { batches: 8 / batch! });
  await trainer.close();
  const sorted = [...seconds].sort((a, b) => a - b);
  return {
    precision,
    baseMiB: baseBytes / 2 ** 20,
    loss,
    stepSeconds: sorted[Math.floor(sorted.length / 2)]!,
    fastestStep: sorted[0]!,
    // of all threads: what other programs do to a shared machine hardly shows in it
    stepCpuSeconds: Math.min(...cpu),
    openSeconds: opened / 1000,
    openCpuSeconds,
    before,
    memoryOpen,
    peakOpen,
    memoryTraining,
    peak,
  };
}

if (options.only) {
  console.log(JSON.stringify(await measure(options.precision[0] as Precision)));
} else {
  const rows = options.precision.map((precision) => {
    const own = process.argv
      .slice(2)
      .filter((arg, i, all) => arg !== '--precision' && all[i - 1] !== '--precision');
    const args = [...process.execArgv, fileURLToPath(import.meta.url), ...own];
    const child = spawnSync(process.execPath, [...args, '--only', '--precision', precision], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    if (child.status !== 0)
      throw new Error(`${precision} ended with ${child.status ?? child.signal}`);
    const row = JSON.parse(child.stdout) as Awaited<ReturnType<typeof measure>>;
    console.error(JSON.stringify(row));
    return row;
  });
  if (options.json) console.log(JSON.stringify(rows, null, 2));
  else {
    for (const row of rows) {
      const mib = (value: number) => `${Math.round(value)} MiB`;
      console.log(
        `${row.precision}: base ${mib(row.baseMiB)}, peak ${mib(row.peak)} (${mib(row.before)} before the base),`,
        `step ${row.stepSeconds.toFixed(2)} s (${row.stepCpuSeconds.toFixed(2)} s of CPU), opened in ${row.openSeconds.toFixed(1)} s (${row.openCpuSeconds.toFixed(1)} s of CPU), loss before ${row.loss.toFixed(4)}`,
      );
    }
  }
}
