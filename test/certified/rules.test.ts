/** Certified runs with other rules than the mean: played, replayed, and with too few contributions. */

import { replayRun } from 'nostrain/certified';
import { describe, expect, it } from 'vitest';
import { certifiedSpec, generateRun } from '../support/certified-run.ts';
import { signerOf } from '../support/signers.ts';

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
