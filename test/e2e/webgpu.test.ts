/** Training on WebGPU, on a GPU in software: beside the CPU, and in a run with workers on CPUs. Training may differ there, rounds may not. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writePlay } from 'nostrain/model';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterEach, beforeAll, expect, it } from 'vitest';
import { describeWith } from '../support/needs.ts';
import { adamwSpec, muonSpec, tinyGpt, tinyGpt2, tinyLlama } from '../support/ort-models.ts';
import { type Program, startProgram, temporaryFolder } from '../support/processes.ts';
import { askOnGpu, swiftShader, swiftShaderMissing } from '../support/webgpu/swift-shader.ts';
import type { Apart, Ask } from '../support/webgpu/train-beside-cpu.ts';

/** Drivers compile a shader for each op first, which takes most of the time. */
const PATIENCE_MS = 600_000;

const adapter = { rank: 2, alpha: 4, targets: 'all-linear', train: 'both' } as const;
const gpt = { ...tinyGpt, vocabulary: 30, context: 8, width: 8, layers: 1 };
const wide = { width: 32, headSize: 8, ffn: 32 } as const;
const llama = { ...tinyLlama, ...wide, layers: 1, context: 8 };
const gpt2 = { ...tinyGpt2, ...wide, heads: 4, layers: 1, context: 8 };
const mlp = { architecture: 'mlp', features: 4, hidden: [8, 8] } as const;

const patches = { width: 16, layers: 1, heads: 2, ffn: 16 } as const;
const forecaster = {
  architecture: 'forecaster',
  ...{ channels: 2, context: 16, horizon: 4, patch: 4, ...patches },
  error: 'quantile',
  scaling: 'window',
} as const;
const vit = {
  architecture: 'vit',
  ...{ pixels: 8, channels: 3, classes: 4, patch: 4, ...patches },
} as const;

const asks: Readonly<Record<string, Ask>> = {
  'a GPT by Muon': { model: gpt, optimizer: muonSpec },
  'a GPT by AdamW, whose tokens do not all count': {
    ...{ model: gpt, optimizer: adamwSpec, masked: true },
  },
  'adapters of a Llama': { model: llama, adapter, optimizer: muonSpec },
  'adapters of a Llama held in 4 bits, layers recomputed, in micro-batches': {
    ...{ model: llama, adapter, precision: 'q4', optimizer: adamwSpec },
    ...{ recompute: true, accumulate: 2 },
  },
  'adapters of a GPT-2 held in 8 bits': {
    ...{ model: gpt2, adapter, precision: 'q8', optimizer: adamwSpec },
  },
  'an MLP': { model: mlp, optimizer: adamwSpec },
  'a forecaster of quantiles': { model: forecaster, optimizer: muonSpec },
  'a forecaster of squares': {
    ...{ model: { ...forecaster, error: 'squared', scaling: 'training' }, optimizer: adamwSpec },
  },
  'a vision transformer': { model: vit, optimizer: muonSpec },
};

describeWith(swiftShaderMissing)(
  'N-23: a GPU in software learns as the CPU does, in 20 steps',
  () => {
    let apart: readonly Apart[] = [];
    beforeAll(async () => {
      apart = await askOnGpu('train-beside-cpu.ts', Object.values(asks));
    }, PATIENCE_MS);

    it.each(Object.keys(asks).map((name, i) => ({ name, i })))('$name', ({ i }) => {
      const { losses, loss, validation, params } = apart[i]!;
      expect(losses[1]).toBeLessThan(losses[0]);
      expect(loss).toBeLessThan(1e-4);
      expect(validation).toBeLessThan(1e-4);
      // of the way that training went
      expect(params).toBeLessThan(1e-3);
    });
  },
);

describeWith(swiftShaderMissing)('every op and its derivative', () => {
  it(
    'has kernels of WebGPU, but for numbers of 64 bits',
    async () => {
      const refused = await askOnGpu<readonly string[]>('open-every-op.ts', null);
      expect(refused).toEqual(['argMax', 'cast', 'gather, a scalar index']);
    },
    PATIENCE_MS,
  );
});

const programs: Program[] = [];
let relay: Relay | undefined;
afterEach(async () => {
  for (const { child } of programs.splice(0)) child.kill('SIGKILL');
  await relay?.close();
});

describeWith(swiftShaderMissing)('half precision on a GPU without it', () => {
  it(
    'is refused when training starts, with what to do',
    async () => {
      relay = await createRelay();
      const args = [
        ...['run-training', '--model', 'mlp', '--run', 'half', '--dir', temporaryFolder()],
        ...[
          '--relay',
          relay.url,
          '--rounds',
          '1',
          '--sync',
          'strict:1',
          '--device',
          'webgpu',
          '--precision',
          'f16',
        ],
      ];
      const { exit, output } = startProgram(args, undefined, undefined, swiftShader());
      expect(await exit).not.toBe(0);
      expect(output.stderr).toContain('webgpu does not work here: it does not support f16: ');
      expect(output.stderr).toContain('leave --precision out');
    },
    PATIENCE_MS,
  );
});

describeWith(swiftShaderMissing)('N-23: a run of one worker on a GPU and three on CPUs', () => {
  it(
    'has the same bits after every round',
    async () => {
      relay = await createRelay();
      const { url } = relay;
      const corpus = join(temporaryFolder(), 'play.txt');
      writeFileSync(corpus, writePlay({ minimumBytes: 20_000 }));
      const workers = ['webgpu', 'cpu', 'cpu', 'cpu'].map((device, i) => {
        const args = [
          ...['run-training', '--model', 'gpt', '--run', 'mixed', '--relay', url],
          ...['--corpus', corpus, '--dir', temporaryFolder(), '--shard', `${i + 1}/4`],
          ...[
            '--set',
            'width=16',
            '--set',
            'layers=1',
            '--set',
            'heads=2',
            '--context',
            '16',
            '--set',
            'ffn=32',
          ],
          ...['--rounds', '3', '--inner-steps', '4', '--batch-size', '4', '--no-evaluate'],
          ...['--sync', 'strict:4', '--report', 'ndjson', '--device', device, '--threads', '1'],
        ];
        const program = startProgram(
          args,
          undefined,
          undefined,
          device === 'webgpu' ? swiftShader() : {},
        );
        programs.push(program);
        return program;
      });
      await Promise.all(workers.map((worker) => worker.event(({ type }) => type === 'done')));
      const digests = workers.map(({ events }) =>
        events.flatMap((event) => (event.type === 'round' ? [event.digest] : [])),
      );
      expect(digests[0]).toHaveLength(3);
      expect(new Set(digests[0]).size).toBe(3);
      for (const other of digests) expect(other).toEqual(digests[0]);
      const [onGpu] = workers;
      const hello = onGpu!.events.find(({ type }) => type === 'hello');
      expect(hello).toMatchObject({ device: 'webgpu' });
    },
    PATIENCE_MS,
  );
});
