/**
 * Where a step goes: the gradient of one replica's part of a batch, by ONNX Runtime's own profiler, one thread. Every node counts with its
 * fastest run, so that the sum says what a quiet machine takes even while others use it.
 *
 *   npm run bench:step-ops -- [--config char-gpt] [--rows 16] [--runs 24] [--shapes 20]
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { initialParameters } from '../../src/model/parameters.ts';
import { compileTraining } from '../../src/model/training-program.ts';
import type { GptSpec, OptimizerSpec } from '../../src/run/model-spec.ts';
import { chainCorpus, charGpt } from '../support/ort-models.ts';

const gpt10m: GptSpec = {
  ...{ architecture: 'gpt', vocabulary: 256, width: 384, layers: 6, heads: 6 },
  ...{ context: 256, ffn: 1536 },
};
const specs: Readonly<Record<string, GptSpec>> = { 'char-gpt': charGpt, 'gpt-10m': gpt10m };

const optimizer: OptimizerSpec = {
  optimizer: 'adamw',
  schedule: { learningRate: 3e-4, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
  ...{ clipNorm: 1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1 },
};

const { values: flags } = parseArgs({
  options: {
    config: { type: 'string', default: 'char-gpt' },
    rows: { type: 'string', default: '16' },
    runs: { type: 'string', default: '24' },
    shapes: { type: 'string', default: '20' },
  },
});

/** One event of the profiler. */
interface Event {
  readonly cat: string;
  readonly name: string;
  readonly dur: number;
  readonly args: {
    readonly node_index: string;
    readonly op_name: string;
    readonly input_type_shape: readonly Readonly<Record<string, readonly number[]>>[];
  };
}

interface Node {
  readonly op: string;
  readonly shapes: string;
  micros: number;
}

const spec = specs[flags.config];
if (!spec) throw new Error(`unknown: ${flags.config}`);
const nodes = await profile(spec, Number(flags.rows), Number(flags.runs));
const all = nodes.reduce((sum, { micros }) => sum + micros, 0);
console.log(
  `${flags.config}, ${flags.rows} rows: ${(all / 1000).toFixed(1)} ms, ${nodes.length} nodes`,
);
print(({ op }) => op, Number.POSITIVE_INFINITY);
print(({ op, shapes }) => `${op} ${shapes}`, Number(flags.shapes));

async function profile(model: GptSpec, rows: number, runs: number): Promise<readonly Node[]> {
  const folder = mkdtempSync(join(tmpdir(), 'nostrain-step-'));
  const session = await InferenceSession.create(
    compileTraining(model, optimizer, rows).gradient(),
    {
      ...{ intraOpNumThreads: 1, executionMode: 'sequential', graphOptimizationLevel: 'disabled' },
      ...{ enableMemPattern: false, enableProfiling: true, profileFilePrefix: join(folder, 'run') },
    },
  );
  const corpus = chainCorpus(100_000, model.vocabulary);
  const offsets = Int32Array.from({ length: rows }, (_, i) => 131 * i);
  const feeds = {
    params: new Tensor('float32', Float32Array.from(initialParameters(model, 1))),
    corpus: new Tensor('uint8', corpus as Uint8Array),
    rows: new Tensor('int32', offsets),
  };
  for (let i = 0; i < runs; i++) await session.run(feeds);
  session.endProfiling();
  const written = readFileSync(join(folder, readdirSync(folder)[0]!), 'utf8');
  rmSync(folder, { recursive: true });
  return fastest(JSON.parse(written) as readonly Event[]);
}

/** Each node with its fastest run. */
function fastest(events: readonly Event[]): readonly Node[] {
  const nodes = new Map<string, Node>();
  for (const { cat, name, dur, args } of events) {
    if (cat !== 'Node' || !name.endsWith('_kernel_time')) continue;
    const known = nodes.get(args.node_index);
    if (known) known.micros = Math.min(known.micros, dur);
    else {
      const shapes = args.input_type_shape.map((one) => `[${Object.values(one).join()}]`);
      nodes.set(args.node_index, { op: args.op_name, shapes: shapes.join(' '), micros: dur });
    }
  }
  return [...nodes.values()];
}

/** Sums by a name, largest first. */
function print(nameOf: (node: Node) => string, most: number): void {
  const sums = new Map<string, { micros: number; count: number }>();
  for (const node of nodes) {
    const sum = sums.get(nameOf(node)) ?? { micros: 0, count: 0 };
    sums.set(nameOf(node), { micros: sum.micros + node.micros, count: sum.count + 1 });
  }
  const rows = [...sums].sort(([, a], [, b]) => b.micros - a.micros).slice(0, most);
  for (const [name, { micros, count }] of rows) {
    const ms = (micros / 1000).toFixed(2).padStart(8);
    console.log(`${ms} ms ${String(count).padStart(4)} × ${name.slice(0, 90)}`);
  }
}
