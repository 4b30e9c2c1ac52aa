/** Certified runs with other rules than the mean: played, replayed, and with too few contributions. */

import { replayRun } from 'nostrain/certified';
import { genesisOf, startOf } from 'nostrain/certified/parts';
import { describe, expect, it } from 'vitest';
import { stepModel } from '../../src/certified/decisions/outcomes.ts';
import { certifiedSpec, generateRun } from '../support/certified-run.ts';
import { signerOf } from '../support/signers.ts';
import { dense } from '../support/vectors.ts';

const verified = (aggregation: Record<string, unknown>) =>
  certifiedSpec({
    tier: 'verified',
    admission: { kind: 'list', keys: [signerOf(9).publicKey] },
    aggregation,
  });

describe('a certified run with a rule', () => {
  it.each([
    { rule: 'trimmed-mean', hostile: 1 },
    { rule: 'geometric-median', hostile: 1, before: 'nnm' },
    { rule: 'centered-clip', hostile: 1, leastRatePermille: 200 },
  ])('T-22: $rule moves the model in every round, and a replay finds the same', async (rule) => {
    const spec = verified(rule);
    const { rounds, events, state } = generateRun([{}, {}, {}], spec);
    expect(new Set(rounds.map(({ modelRoot }) => modelRoot)).size).toBe(3);
    expect(state.taken?.rate).toBeGreaterThanOrEqual('leastRatePermille' in rule ? 0.2 : 1);
    const report = await replayRun({ events, beacons: [] }, { spec });
    expect(report).toMatchObject({ ok: true, rounds: 3 });
  });

  it.each([
    { name: 'identical', signs: [1, 1, 1, 1], places: [0, 0, 0, 0], rate: 1 },
    { name: 'orthogonal in pairs', signs: [1, 1, 1, 1], places: [0, 0, 1, 1], rate: 0.5 },
    { name: 'three against one', signs: [1, 1, 1, -1], places: [0, 0, 0, 0], rate: 0.25 },
  ])('T-22: rows that are $name take the outer step at $rate of its rate', (drawn) => {
    const spec = certifiedSpec({
      aggregation: { leastRatePermille: 250 },
      training: { outerLearningRate: 0.8, momentum: 0.5 },
    });
    const state = genesisOf(spec, startOf(spec));
    const { values } = state.params;
    const sum = new Float64Array(values.length);
    const rows = drawn.signs.map((sign, i) => {
      const row = new Float64Array(values.length);
      row[drawn.places[i]!] = 0.01 * sign;
      row.forEach((value, k) => {
        sum[k]! += value;
      });
      const said = { eventId: `${i}`, worker: `${i}`, round: 0, base: '', steps: 1, createdAt: 0 };
      const sizes = { examples: 8, payloadBytes: 1, eventBytes: 1 };
      return { late: false, contribution: { ...said, ...sizes, delta: dense(row) } };
    });
    const { model, taken } = stepModel(state, rows, () => 1);
    expect(taken!.rate).toBeCloseTo(drawn.rate, 12);
    const step = 0.8 * drawn.rate * (1 + 0.5);
    values.forEach((value, k) => {
      expect(model.params.values[k]).toBeCloseTo(value - (step * sum[k]!) / 4, 6);
    });
  });

  it('with fewer contributions than its rule needs the model does not change, but the round is final', () => {
    const { state, rounds } = generateRun([{}], verified({ rule: 'krum', hostile: 1 }));
    // Krum with one hostile contribution needs five, and there are four founders
    expect(state.taken?.moved).toHaveLength(0);
    expect(state.taken?.unused.size).toBe(4);
    expect(rounds).toHaveLength(1);
  });
});

describe('a certified run that admits by work', () => {
  it('has no valid outcome that lists the join of a key without work', () => {
    const spec = certifiedSpec({ tier: 'verified', admission: { kind: 'work', bits: 12 } });
    expect(generateRun([{}, {}], spec).rounds).toHaveLength(2);
    expect(() => generateRun([{}, { joins: [5] }], spec)).toThrow(/join-without-work/);
  });
});
