import { linearTruth } from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import { createLayout } from 'nostrain/tensor';
import type { Trainer } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import { type Adversary, adversaries } from '../../../demos/byzantine/adversaries.ts';
import { type BattlePlan, type Camp, fight } from '../../../demos/byzantine/battle.ts';
import { defencesFor, screenOf } from '../../../demos/byzantine/defences.ts';
import { linearExamples } from '../../../src/model/data/regression.ts';

const adversary = (name: string) => adversaries.find((each) => each.name === name)!;
const defence = (name: string, workers = 7) =>
  defencesFor(workers, 2).find((each) => each.name === name)!;
const plan: BattlePlan = {
  ...{ hostile: 2, rounds: 8, innerSteps: 80, seed: 1 },
  ...{ packing: 'int8', normBound: 1.5, signal: new AbortController().signal },
};

/** Real trainers of the regression that `demo linear` learns. */
async function linearCamp(workers: number): Promise<Camp & { close(): Promise<unknown> }> {
  const { features } = linearExamples({ seed: 1, shard: { index: 1, count: workers } });
  const trainers = await Promise.all(
    Array.from({ length: workers }, (_, i) => {
      const own = linearExamples({ seed: 1, shard: { index: i + 1, count: workers } });
      return createTrainer({
        model: { architecture: 'linear', features },
        optimizer: {
          optimizer: 'sgd',
          schedule: { learningRate: 0.03, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
          clipNorm: 0,
        },
        batch: 4,
        data: {
          ...{ kind: 'regression', features },
          inputs: Float32Array.from(own.inputs),
          targets: Float32Array.from(own.targets),
        },
        ...{ device: 'cpu', threads: 1 },
      });
    }),
  );
  const { layout } = trainers[0]!;
  const truth = layout.slots.flatMap(({ name }) =>
    name.includes('bias') ? [linearTruth.bias] : linearTruth.weights,
  );
  return {
    ...{ trainers, layout, start: new Float32Array(layout.size) },
    poisoned: async () => trainers.slice(-2),
    // the error of the worst parameter
    loss: async (params) => Math.max(...truth.map((value, i) => Math.abs(value - params[i]!))),
    close: () => Promise.all(trainers.map((each) => each.close())),
  };
}

describe('T-03: seven workers, two of which send the opposite, ten times as large', () => {
  it('the mean diverges; trimmed mean, coordinate median, Krum and the others find the parameters', {
    timeout: 120_000,
  }, async () => {
    const camp = await linearCamp(7);
    const flip = adversary('sign-flip');
    const errorWith = async (name: string) =>
      (await fight(camp, plan, { adversary: flip, defence: defence(name) })).loss;
    expect(await errorWith('mean')).toBeGreaterThan(10);
    for (const { name, screens } of defencesFor(7, 2)) {
      if (screens) continue;
      if (name.endsWith('mean') && !name.endsWith('trimmed-mean')) continue;
      expect([name, await errorWith(name)]).toEqual([name, expect.toSatisfy((e) => e <= 0.1)]);
    }
    await camp.close();
  });
});

/** Trainers that learn the same in every round: each another part of one direction. */
function fixedCamp(workers: number, size = 16): Camp {
  const layout = createLayout([{ name: 'w', shape: [size] }]);
  const trainers = Array.from({ length: workers }, (_, worker) => ({
    train: async ({ params }: { readonly params: Float32Array | Float64Array }) => ({
      params: params.map((value, i) => value - (i % workers === worker ? 1 : 0.25)),
      ...{ moments: [], losses: Float32Array.of(1), examples: 1, seconds: 0 },
    }),
  }));
  return {
    ...{ layout, trainers, start: new Float32Array(size) },
    poisoned: async () => trainers.slice(-2),
    loss: async (params) => Float64Array.from(params).reduce((sum, value) => sum + value, 0),
  };
}

describe('a battle', () => {
  const short = { ...plan, rounds: 4, innerSteps: 1 };
  const play = (attack: string, rule: string) =>
    fight(fixedCamp(8), short, { adversary: adversary(attack), defence: defence(rule, 8) });

  it('is the same each time', async () => {
    expect(await play('noise', 'geometric-median')).toEqual(
      await play('noise', 'geometric-median'),
    );
  });

  it('refuses payloads that are none, and goes on without them', async () => {
    const { refused, loss } = await play('format-bomb', 'mean');
    expect(refused).toBeGreaterThan(0);
    expect(loss).toBeLessThan(0);
  });

  it('five strangers next to two founders neither turn the model back nor stop it', async () => {
    const strangers = defencesFor(7, 5);
    expect(strangers.map(({ name }) => name)).toEqual(['founders']);
    const five = { ...short, hostile: 5 };
    const play = (adversary: Adversary) =>
      fight(fixedCamp(7), five, { adversary, defence: strangers[0]! });
    const camp = fixedCamp(7);
    const alone = { ...camp, trainers: camp.trainers.slice(0, 2) };
    const free = await fight(alone, five, { adversary: undefined, defence: strangers[0]! });
    for (const each of adversaries) {
      if (each.poison || each.equivocates) continue;
      expect([each.name, (await play(each)).loss / free.loss]).toEqual([
        each.name,
        expect.toSatisfy((share) => share > 0.75),
      ]);
    }
  });

  it('leaves out what a member finds harmful, where the plain mean would take it', async () => {
    const camp = await linearCamp(7);
    const measure = (trainer: Camp['trainers'][number]) =>
      (trainer as unknown as { measure: Trainer['measure'] }).measure!;
    const trainers = camp.trainers.map((each) => ({ measure: measure(each) }));
    const screen = screenOf({ trainers, hostile: 2, seed: 1 });
    const both = { adversary: adversary('sign-flip'), defence: defence('mean+screening') };
    const { loss } = await fight(camp, { ...plan, rounds: 4 }, { ...both, screen });
    expect(loss).toBeLessThan(0.2);
    await camp.close();
  }, 60_000);

  it('throws out who signs two contributions for one round', async () => {
    const free = await fight(fixedCamp(8), short, {
      ...{ adversary: undefined, defence: defence('mean', 8) },
    });
    const flipped = await play('sign-flip', 'mean');
    const out = await play('equivocation', 'mean');
    expect(free.loss).toBeLessThan(out.loss);
    expect(out.loss).toBeLessThan(flipped.loss);
  });

  it('knows rules that work with so many workers alone', () => {
    const names = (workers: number, hostile: number) =>
      defencesFor(workers, hostile).map(({ name }) => name);
    expect(names(4, 1)).not.toContain('krum');
    expect(names(8, 2)).toContain('multi-krum');
    expect(names(8, 2)).not.toContain('bucketing+geometric-median');
    expect(names(9, 2)).toContain('bucketing+geometric-median');
  });
});
