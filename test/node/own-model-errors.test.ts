import { NostrainError } from 'nostrain/base';
import {
  type CustomModel,
  compileTraining,
  type TrainerData,
  type Value,
  type Weights,
} from 'nostrain/model';
import { createTrainer, type TrainerSetup } from 'nostrain/node';
import { describe, expect, it } from 'vitest';
import * as ops from '../../src/model/graph/verbs.ts';
import { openTrainer } from '../../src/node/engine/trainer.ts';
import { constantRate } from '../support/ort-models.ts';

const sgd = { optimizer: 'sgd', clipNorm: 1, schedule: constantRate(0.1) } as const;

const predict = (weights: Weights, inputs: Value) =>
  ops.reduceSum(ops.mul(inputs, weights('w')), [1]);

const model: CustomModel = {
  architecture: 'own',
  data: { kind: 'rows', features: 2 },
  tensors: [{ name: 'w', shape: [1, 2], start: { deviation: 1 } }],
  predict,
  losses: (weights, { inputs, targets }) => ops.square(ops.sub(predict(weights, inputs), targets)),
};
const data = (rows: number, numbers = 2 * rows): TrainerData & { kind: 'regression' } => ({
  kind: 'regression',
  features: 2,
  inputs: Float32Array.from({ length: numbers }, (_, i) => Math.sin(i)),
  targets: Float32Array.from({ length: rows }, (_, i) => i / 10),
});

const failure = (changes: Partial<TrainerSetup>): Promise<NostrainError> =>
  createTrainer({
    ...{ model, optimizer: sgd, batch: 4, data: data(9), device: 'auto', threads: 1 },
    ...changes,
  }).then(
    async (trainer) => {
      await trainer.close();
      throw new Error('it trains');
    },
    (error: unknown) => {
      expect(error).toBeInstanceOf(NostrainError);
      return error as NostrainError;
    },
  );

/** The model with other losses. */
const losing = (losses: CustomModel['losses']): Partial<TrainerSetup> => ({
  model: { ...model, losses },
});

describe('a model of the user is at fault, not the device', () => {
  it('that asks for a tensor it does not have', async () => {
    const error = await failure(
      losing((weights, { inputs }) => ops.mul(weights('ww'), ops.reduceSum(inputs, [1]))),
    );
    expect(error.code).toBe('model/tensor');
    expect(error.message).toBe('Your model uses weights("ww"), but its tensors are: w.');
  });

  it('whose ops do not fit together', async () => {
    const error = await failure(losing((weights, { inputs }) => ops.gemm(inputs, weights('w'))));
    expect(error.code).toBe('model/graph');
    expect(error.message).toMatch(/^Your model's losses cannot be built: /);
  });

  it('whose losses are one number for all rows', async () => {
    const error = await failure(
      losing((weights, batch) => ops.reduceMean(model.losses(weights, batch))),
    );
    expect(error).toMatchObject({
      code: 'model/losses',
      message:
        "Your model's losses are f32 of the shape []; a batch of 4 rows needs 4 numbers, one per row.",
    });
  });

  it('whose losses are not finite for a row of its data', async () => {
    const targets = data(9).targets.map((target, i) => (i === 2 ? -1e9 : target));
    const error = await failure({
      ...losing((weights, { inputs, targets }) =>
        ops.log(ops.add(ops.mul(ops.square(predict(weights, inputs)), 0), ops.add(targets, 1))),
      ),
      data: { ...data(9), targets },
    });
    expect(error).toMatchObject({
      code: 'model/losses',
      message: "Your model's loss of row 2 is NaN with its initial parameters.",
    });
  });
});

describe('data is at fault, not the device', () => {
  it('where its lengths do not agree', async () => {
    const error = await failure({ data: data(9, 20) });
    expect(error).toMatchObject({
      code: 'training/data',
      message: 'inputs has 20 numbers; 9 targets of 2 features need 18.',
    });
    const other = await failure({ data: { ...data(9), validation: data(3, 5) } });
    expect(other.message).toBe('validation inputs has 5 numbers; 3 targets of 2 features need 6.');
  });

  it('where it has no rows', async () => {
    expect(await failure({ data: data(0) })).toMatchObject({ code: 'training/data' });
  });
});

it.each([
  [true, 'model/engine', /^onnxruntime cannot run your model: /],
  [false, 'training/no-device', /^cpu does not work here: /],
])('what the engine cannot open is a model of the user: %s', async (isUserModel, code, message) => {
  const program = compileTraining(model, sgd, 4);
  const opening = {
    compile: () => ({ ...program, loop: () => Uint8Array.of(1, 2, 3) }),
    data: {},
    frozen: async () => ({}),
    ...{ isUserModel, batch: 4, parts: 1, threads: 1 },
  };
  await expect(openTrainer('cpu', opening)).rejects.toMatchObject({
    code,
    message: expect.stringMatching(message),
  });
});
