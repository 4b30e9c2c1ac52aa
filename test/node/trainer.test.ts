import { deriveKey, sha256Hex, TrainingError } from 'nostrain/base';
import {
  type CustomModel,
  compileTraining,
  drawRows,
  initialParameters,
  sizeOf,
} from 'nostrain/model';
import { createTrainer, type TrainerSetup } from 'nostrain/node';
import type { EngineTrainer } from 'nostrain/node/parts';
import { completeSettings, type GptSpec, type OptimizerSpec, presets } from 'nostrain/run';
import type { TrainTask } from 'nostrain/worker';
import { afterAll, describe, expect, test } from 'vitest';
import {
  crossEntropy,
  flatten,
  gather,
  gemm,
  mul,
  reshape,
  square,
  sub,
} from '../../src/model/graph/verbs.ts';
import { probeDevices } from '../../src/node/engine/device.ts';
import { adamwSpec, chainCorpus, constantRate, muonSpec, smallGpt } from '../support/ort-models.ts';
import { load } from '../support/ort-run.ts';

const corpus = chainCorpus(4000, smallGpt.vocabulary);
const setup: TrainerSetup = {
  model: smallGpt,
  optimizer: adamwSpec,
  batch: 8,
  data: { kind: 'tokens', shard: corpus.subarray(0, 3000), validation: corpus.subarray(3000) },
  device: 'cpu',
  threads: 1,
};

const trainers: EngineTrainer[] = [];
async function start(changes: Partial<TrainerSetup> = {}): Promise<EngineTrainer> {
  const trainer = await createTrainer({ ...setup, ...changes });
  trainers.push(trainer);
  return trainer;
}
afterAll(async () => {
  await Promise.all(trainers.map((trainer) => trainer.close()));
});

const task = (changes: Partial<TrainTask> = {}): TrainTask => ({
  params: initialParameters(smallGpt, 1),
  moments: [],
  round: 0,
  steps: 6,
  firstStep: 0,
  batchKey: deriveKey('test', 'worker'),
  ...changes,
});

const tiny = completeSettings(presets.mlp, { model: 'mlp', run: 'probe', relay: [] });

const quiet = () => {};
const never = new AbortController().signal;
const digest = (values: Float32Array) => sha256Hex(new Uint8Array(values.slice().buffer));

describe('a char model', async () => {
  const trainer = await start();
  const trained = await trainer.train(task(), quiet, never);

  test('learns, and reports every step once', async () => {
    const steps: number[] = [];
    const again = await trainer.train(task(), ({ step }) => steps.push(step), never);
    expect(steps[0]).toBe(1); // a first short call, so that progress shows soon
    expect(steps[steps.length - 1]).toBe(6);
    expect(trained.losses).toHaveLength(6);
    expect(trained.losses[5]).toBeLessThan(trained.losses[0]!);
    expect(trained.examples).toBe(48);
    expect(digest(again.params)).toBe(digest(trained.params));
  });

  test.each([1, 2])(
    'measures rows that a key draws between calls of an inner phase, which learns the same bits (%i threads)',
    async (threads) => {
      const other = await start({ threads });
      const params = initialParameters(smallGpt, 1);
      const draw = { key: deriveKey('rows'), rows: 13 };
      const alone = await other.measure!(params, 'validation', draw);
      expect(alone).toHaveLength(13);
      const training = other.train(task(), quiet, never);
      const between = await Promise.all([
        other.measure!(params, 'validation', draw),
        other.measure!(trained.params, 'validation', draw),
      ]);
      expect(digest((await training).params)).toBe(digest(trained.params));
      expect(between[0]).toEqual(alone);
      const mean = (losses: Float32Array) => losses.reduce((sum, loss) => sum + loss, 0) / 13;
      expect(mean(between[1])).toBeLessThan(mean(alone));
      const elsewhere = { ...draw, key: deriveKey('other rows') };
      expect(await other.measure!(params, 'validation', elsewhere)).not.toEqual(alone);
    },
  );

  test('gives the same bits with two threads', async () => {
    const other = await (await start({ threads: 2 })).train(task(), quiet, never);
    expect(digest(other.params)).toBe(digest(trained.params));
    expect(other.moments.map(digest)).toEqual(trained.moments.map(digest));
  });

  test('carries moments and how many steps they have seen', async () => {
    const { params, moments } = trained;
    expect(moments.map(({ length }) => length)).toEqual([params.length, params.length, 1]);
    expect(moments).toHaveLength(trainer.momentSlots);
    const next = await trainer.train(
      task({ params, moments, round: 1, firstStep: 6, steps: 2 }),
      quiet,
      never,
    );
    expect(next.moments[2]![0]).toBe(8);
    await expect(
      trainer.train(task({ moments: moments.slice(1) }), quiet, never),
    ).rejects.toMatchObject({ code: 'training/moments' });
  });

  test('evaluates whole windows, the last partial batch included', async () => {
    const { params } = trained;
    const loss = await trainer.evaluate(params, 'validation');
    expect(loss).toBeLessThan(await trainer.evaluate(task().params, 'validation'));
    expect(await trainer.evaluate(params, 'validation')).toBe(loss);
    // 31 windows fit: three batches of 8 and one of 7; one by one they have the same mean
    const single = await (await start({ batch: 1 })).evaluate(params, 'validation');
    expect(Math.abs(single - loss)).toBeLessThan(1e-6);
    expect(await trainer.evaluate(params, 'shard', { batches: 1 })).not.toBe(loss);
  });

  test('samples text after a prompt', async () => {
    const request = { prompt: Uint8Array.of(4, 1), length: 40, temperature: 0.7, seed: 3 };
    const tokens = await trainer.sample(trained.params, request);
    expect(tokens).toHaveLength(42);
    expect([...tokens.subarray(0, 2)]).toEqual([4, 1]);
    expect(await trainer.sample(trained.params, request)).toEqual(tokens);
  });

  test('learns the same from ids of 32 bits', async () => {
    const vocabulary = 3000;
    const model = { ...smallGpt, vocabulary, width: 8, heads: 2, ffn: 16 };
    const far = Int32Array.from(corpus, (token) => vocabulary - 1 - token);
    const wide = await start({
      model,
      data: { kind: 'tokens', shard: far.subarray(0, 3000), validation: far.subarray(3000) },
    });
    const params = initialParameters(model, 1);
    const { losses, params: after } = await wide.train(task({ params }), quiet, never);
    expect(losses[0]).toBeCloseTo(Math.log(vocabulary), 1);
    expect(losses[5]).toBeLessThan(losses[0]! - 0.05);
    const request = { prompt: far.subarray(0, 2), length: 3, temperature: 0, seed: 3 };
    const tokens = await wide.sample(after, request);
    expect(tokens).toBeInstanceOf(Int32Array);
    expect([...tokens.subarray(0, 2)]).toEqual([...far.subarray(0, 2)]);
  });

  test('takes the same steps in micro-batches with recomputed layers', async () => {
    const small = await start({ recompute: true, accumulate: 4 });
    const { losses } = await small.train(task(), quiet, never);
    losses.forEach((loss, i) => {
      expect(Math.abs(loss - trained.losses[i]!)).toBeLessThan(1e-4);
    });
    await expect(start({ accumulate: 3 })).rejects.toMatchObject({ code: 'training/accumulate' });
  });

  test('stops between calls when aborted, and continues afterwards', async () => {
    const controller = new AbortController();
    const reason = new Error('enough');
    const long = trainer.train(
      task({ steps: 100_000 }),
      () => controller.abort(reason),
      controller.signal,
    );
    await expect(long).rejects.toBe(reason);
    const again = await trainer.train(task(), quiet, never);
    expect(digest(again.params)).toBe(digest(trained.params));
  });

  test('names the step at which a loss stops being finite', async () => {
    const schedule = constantRate(1e30);
    const wild = await start({ optimizer: { optimizer: 'sgd', clipNorm: 0, schedule } });
    const failed = wild.train(task({ firstStep: 10 }), quiet, never);
    await expect(failed).rejects.toThrow(TrainingError);
    await expect(failed).rejects.toMatchObject({ code: 'training/not-finite' });
    await expect(failed).rejects.toThrow(/step 1[0-2]/);
  });
});

const inParts = 'a batch in parts: the same bits on 1 and 3 threads, the steps of one whole graph';
test.each([adamwSpec, muonSpec])(`$optimizer, ${inParts}`, async (optimizer) => {
  const model: GptSpec = { ...smallGpt, width: 32, layers: 1, context: 64 };
  const params = initialParameters(model, 1);
  const [one, three] = await Promise.all(
    [1, 3].map(async (threads) => {
      const trainer = await start({ model, optimizer, batch: 32, threads });
      const trained = await trainer.train(task({ params, steps: 4 }), quiet, never);
      return { ...trained, loss: await trainer.evaluate(trained.params, 'validation') };
    }),
  );
  expect(three!.losses).toEqual(one!.losses);
  expect(three!.loss).toBe(one!.loss);
  expect(digest(three!.params)).toBe(digest(one!.params));
  expect(three!.moments.map(digest)).toEqual(one!.moments.map(digest));

  const whole = await wholeBatch(model, optimizer, params, 4);
  one!.losses.forEach((loss, i) => {
    expect(Math.abs(loss - whole.losses[i]!)).toBeLessThan(1e-5);
  });
  const moved = Math.hypot(...one!.params.map((value, i) => value - params[i]!));
  const apart = Math.hypot(...one!.params.map((value, i) => value - whole.params[i]!));
  expect(apart / moved).toBeLessThan(1e-2);
});

test('a gradient that is combined in several blocks is clipped by the norm of all of them', async () => {
  const [vocabulary, width, context] = [30, 32, 64];
  const model: CustomModel = {
    architecture: 'own',
    data: { kind: 'tokens', vocabulary, context },
    tensors: [
      { name: 'head', shape: [width, vocabulary], start: { deviation: 0.5 } },
      { name: 'table', shape: [36_000, width], start: { deviation: 0.5 } },
    ],
    // the ids lie apart in the table, so that its gradient has numbers in every block
    predict: (weights, inputs) =>
      gemm(gather(weights('table'), mul(flatten(inputs), 1200)), weights('head')),
    losses: (weights, { inputs, targets }) =>
      reshape(crossEntropy(model.predict(weights, inputs), flatten(targets)), inputs.shape),
  };
  const params = initialParameters(model, 1);
  const optimizer: OptimizerSpec = {
    ...{ optimizer: 'sgd', clipNorm: 0.1, schedule: constantRate(0.1) },
  };
  const [one, three] = await Promise.all(
    [1, 3].map(async (threads) => {
      const trainer = await start({ model, optimizer, batch: 32, threads });
      return trainer.train(task({ params, steps: 1 }), quiet, never);
    }),
  );
  expect(digest(three!.params)).toBe(digest(one!.params));
  const squares = one!.params.reduce((sum, value, i) => sum + (value - params[i]!) ** 2, 0);
  expect(Math.sqrt(squares)).toBeCloseTo(0.01, 4);
});

/** The same steps by the Loop graph, run directly. */
async function wholeBatch(
  model: GptSpec,
  optimizer: OptimizerSpec,
  params: Float32Array,
  steps: number,
) {
  const program = compileTraining(model, optimizer, 32);
  const run = await load(program.loop());
  const shard = corpus.subarray(0, 3000);
  const vector = (elements: ArrayLike<number>) =>
    ({ dtype: 'f32', shape: [elements.length], elements }) as const;
  const rates = Array.from({ length: steps }, (_, i) => program.optimizer.rates(i, i)).flat();
  const rows = drawRows({
    key: task().batchKey,
    round: 0,
    firstStep: 0,
    steps,
    batch: 32,
    bound: shard.length - model.context,
  });
  const results = await run({
    steps: { dtype: 'i64', shape: [], elements: [steps] },
    params: vector(params),
    first: vector(new Float32Array(params.length)),
    second: vector(new Float32Array(params.length)),
    rates: { dtype: 'f32', shape: [steps, program.optimizer.rateCount], elements: rates },
    rows: { dtype: 'i32', shape: [steps, 32], elements: rows },
    corpus: { dtype: 'u8', shape: [shard.length], elements: shard },
  });
  return { losses: results.losses!, params: results['params.next']! };
}

test('a linear model finds the line its data lie on', async () => {
  const inputs = Float32Array.from({ length: 64 }, (_, i) => ((i * 37) % 64) / 32 - 1);
  const trainer = await start({
    model: { architecture: 'linear', features: 1 },
    optimizer: { optimizer: 'sgd', clipNorm: 0, schedule: constantRate(0.1) },
    data: { kind: 'regression', features: 1, inputs, targets: inputs.map((x) => 3 * x - 0.5) },
  });
  const start0 = new Float32Array(trainer.layout.size);
  const { params } = await trainer.train(task({ params: start0, steps: 400 }), quiet, never);
  expect(params[0]).toBeCloseTo(-0.5, 3); // linear.bias
  expect(params[1]).toBeCloseTo(3, 3); // linear.weight
  expect(await trainer.evaluate(params, 'shard')).toBeLessThan(1e-6);
  await expect(trainer.evaluate(params, 'validation')).rejects.toThrow(/too short/);
});

describe('a head on a frozen table', () => {
  const [vocabulary, width] = [30, 12];
  const predict: CustomModel['predict'] = (weights, inputs) => {
    const rows = flatten(gather(weights('table'), inputs));
    return gemm(reshape(rows, [sizeOf(inputs.shape), width]), weights('head'));
  };
  const model: CustomModel = {
    architecture: 'own',
    data: { kind: 'tokens', vocabulary, context: 32 },
    tensors: [{ name: 'head', shape: [width, vocabulary], start: 'zeros' }],
    frozen: [{ name: 'table', shape: [vocabulary, width] }],
    predict,
    losses: (weights, { inputs, targets }) =>
      reshape(crossEntropy(predict(weights, inputs), flatten(targets)), inputs.shape),
  };
  const frozen = async () => ({
    table: Float32Array.from({ length: vocabulary * width }, (_, i) => Math.sin(i * i)),
  });
  const own = { model, frozen, batch: 64, optimizer: { ...adamwSpec, weightDecay: 0 } };
  const params = new Float32Array(width * vocabulary);

  test('learns, with the same bits on one thread and in replicas', async () => {
    const [one, two] = [await start({ ...own, threads: 1 }), await start({ ...own, threads: 2 })];
    const first = await one.train(task({ params, steps: 20 }), quiet, never);
    expect(first.losses[0]).toBeCloseTo(Math.log(vocabulary), 4);
    expect(first.losses[19]).toBeLessThan(first.losses[0]! - 0.1);
    const second = await two.train(task({ params, steps: 20 }), quiet, never);
    expect(digest(second.params)).toBe(digest(first.params));
    expect(await two.evaluate(first.params, 'validation')).toBeLessThan(Math.log(vocabulary));
    const request = { prompt: Uint8Array.of(1), length: 2, temperature: 0, seed: 1 };
    expect(await one.sample(first.params, request)).toHaveLength(3);
  });

  test('needs that table', async () => {
    const refused = { code: 'training/frozen' };
    const { frozen: _, ...without } = own;
    await expect(start(without)).rejects.toMatchObject(refused);
    const short = async () => ({ table: new Float32Array(5) });
    await expect(start({ ...own, frozen: short })).rejects.toMatchObject(refused);
  });
});

test('data that does not fit the model is refused', async () => {
  const shard = corpus.subarray(0, 32);
  const data = { kind: 'tokens', shard, validation: shard } as const;
  await expect(createTrainer({ ...setup, data })).rejects.toThrow(/33/);
  await expect(createTrainer({ ...setup, model: { ...smallGpt, vocabulary: 20 } })).rejects.toThrow(
    /vocabulary of 20/,
  );
  await expect(
    createTrainer({ ...setup, model: { architecture: 'linear', features: 2 } }),
  ).rejects.toThrow(/2 features/);
});

describe('half precision', () => {
  test.each(['f16', 'bf16'] as const)(
    'in %s learns as f32 does, and says so',
    async (precision) => {
      const exact = await start();
      const half = await start({ precision });
      expect(half.device).toMatchObject({ device: 'cpu', half: precision });
      expect(exact.device.half).toBeUndefined();
      const [a, b] = [
        await exact.train(task(), quiet, never),
        await half.train(task(), quiet, never),
      ];
      expect(b.losses.at(-1)).not.toBe(a.losses.at(-1));
      expect(Math.abs(b.losses.at(-1)! - a.losses.at(-1)!)).toBeLessThan(5e-3);
      // moments are the optimizer's alone: the scale of the loss is nobody's business
      expect(b.moments.map(({ length }) => length)).toEqual(a.moments.map(({ length }) => length));
      const on = [b.params, 'validation', { batches: 2 }] as const;
      expect(await half.evaluate(...on)).toBe(await exact.evaluate(...on));
    },
  );

  test('is the same bits for any number of threads', async () => {
    const bits = async (threads: number) => {
      const trainer = await start({ precision: 'f16', threads });
      return digest((await trainer.train(task(), quiet, never)).params);
    };
    expect(await bits(2)).toBe(await bits(1));
  });

  test('keeps what it found out about the scale for the next phase', async () => {
    // a loss so steep that its gradient fits no f16 at first
    const model: CustomModel = {
      architecture: 'own',
      data: { kind: 'rows', features: 2 },
      tensors: [{ name: 'w', shape: [2, 1], start: 'zeros', abreast: 1 }],
      predict: (weights, inputs) => gemm(inputs, weights('w')),
      losses: (weights, { inputs, targets }) =>
        mul(square(sub(flatten(gemm(inputs, weights('w'))), targets)), 1e4),
    };
    const rows = { inputs: Float32Array.of(1, 0.5, 0.25, 1), targets: Float32Array.of(1, -1) };
    const data = { kind: 'regression', features: 2, ...rows, validation: rows } as const;
    const trainer = await start({ model, data, batch: 2, precision: 'f16' });
    const first = task({ params: new Float32Array(2), steps: 30 });
    const { params, losses } = await trainer.train(first, quiet, never);
    const idle = losses.findIndex((loss) => loss !== losses[0]);
    expect(idle).toBeGreaterThan(3);
    const next = task({ params, round: 1, steps: 3 });
    expect(new Set((await trainer.train(next, quiet, never)).losses).size).toBe(3);
  });

  test('is refused where a device lacks it, and not taken on the CPU unasked', {
    timeout: 120_000,
  }, async () => {
    const { works } = (await probeDevices(tiny)).find(({ device }) => device === 'cuda')!;
    if (!works) {
      await expect(createTrainer({ ...setup, device: 'auto', precision: 'f16' })).rejects.toThrow(
        /^no device for f16: cuda does not work here/,
      );
    }
    await expect(
      createTrainer({ ...setup, device: 'webgpu', precision: 'bf16' }),
    ).rejects.toMatchObject({ code: 'training/precision' });
  });
});

test('devices are found out by training on them', { timeout: 180_000 }, async () => {
  const reports = await probeDevices(tiny);
  expect(reports.map(({ device }) => device)).toEqual(['cpu', 'cuda', 'webgpu']);
  expect(reports[0]).toMatchObject({ works: true });
  for (const { device, works } of reports) {
    if (works) continue;
    await expect(createTrainer({ ...setup, device })).rejects.toMatchObject({
      code: 'training/no-device',
      hint: expect.stringContaining('cpu device'),
    });
  }
  const automatic = await start({ device: 'auto' });
  const cuda = reports.some(({ device, works }) => device === 'cuda' && works);
  expect(automatic.device.device).toBe(cuda ? 'cuda' : 'cpu');
  if (!cuda) expect(automatic.device.notice ?? 'no GPU, so CPU').toMatch(/CPU/);
});
