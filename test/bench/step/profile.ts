/** Every node of the gradient of one part of a batch with its fastest run, by ONNX Runtime's own profiler, on one thread. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compileTraining, initialParameters } from 'nostrain/model';
import type { GptSpec, OptimizerSpec } from 'nostrain/run';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { chainCorpus, charGpt } from '../../support/ort-models.ts';

const gpt10m: GptSpec = {
  ...{ architecture: 'gpt', vocabulary: 256, width: 384, layers: 6, heads: 6 },
  ...{ context: 256, ffn: 1536 },
};

/** The models that steps are measured on, and rows of a step. */
export const configs = {
  'char-gpt': { model: charGpt, batch: 32 },
  'gpt-10m': { model: gpt10m, batch: 8 },
} as const;
export type ConfigName = keyof typeof configs;

export const isConfig = (name: string): name is ConfigName => Object.hasOwn(configs, name);

const optimizer: OptimizerSpec = {
  optimizer: 'adamw',
  schedule: { learningRate: 3e-4, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
  ...{ clipNorm: 1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1 },
};

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

export interface ProfiledNode {
  readonly op: string;
  readonly shapes: string;
  micros: number;
}

export async function profileGradient(
  name: ConfigName,
  rows: number,
  runs: number,
): Promise<readonly ProfiledNode[]> {
  const { model } = configs[name];
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
function fastest(events: readonly Event[]): readonly ProfiledNode[] {
  const nodes = new Map<string, ProfiledNode>();
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
