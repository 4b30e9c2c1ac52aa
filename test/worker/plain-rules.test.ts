/**
 * T-02: the rules of certified runs in plain runs: impossible combinations are refused as in a spec, and one hostile
 * worker has no effect.
 */

import { systemClock } from 'nostrain/base';
import { createRelay, type Relay } from 'nostrain/relay';
import { combineSettings, type PartialSettings, presets, settingsFingerprint } from 'nostrain/run';
import type { Plan, Trainer } from 'nostrain/worker';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { differencesOf } from '../../src/run/settings-fingerprint.ts';
import { assertAgreeable } from '../../src/run/settings-rules.ts';
import { arithmeticTrainer, keyOf, smallLayout, startMember } from '../support/swarm.ts';

const settingsOf = (asked: PartialSettings) =>
  combineSettings(presets['char-gpt'], { run: 'run', relay: [], model: 'char-gpt', ...asked });

describe('T-02: a rule of a plain run', () => {
  it('sets what its contributions need, and the number of hostile ones if workers are counted', () => {
    const peers = [0, 1, 2, 3, 4, 5, 6, 7].map(keyOf);
    const asked = settingsOf({ rule: 'trimmed-mean', before: 'nnm', peers });
    expect(asked).toMatchObject({ hostile: 2, packing: 'trellis', owners: 0, fragments: 1 });
    expect(settingsOf({ rule: 'krum', sync: { strategy: 'strict', workers: 5 } }).hostile).toBe(1);
    expect(() => assertAgreeable(asked)).not.toThrow();
    expect(() => assertAgreeable(settingsOf({ waitFor: 2 }))).not.toThrow();
  });

  it.each([
    ['no number of hostile rows', { rule: 'krum' }, '--set hostile', /above 0/],
    ['hostile rows of a mean', { hostile: 1 }, '--set hostile', /is 0 for mean/],
    ['a step in front of a mean', { before: 'nnm' }, '--set before', /a mean of means/],
    [
      'owned chunks for whole rows',
      { rule: 'krum', hostile: 1, owners: 2 },
      '--set owners',
      /whole rows/,
    ],
    [
      'too few owners',
      { rule: 'trimmed-mean', hostile: 1, owners: 2, packing: 'int8' },
      '--set owners',
      /may be most/,
    ],
    [
      'senders',
      { rule: 'trimmed-mean', hostile: 1, normalize: 'senders' },
      '--set normalize',
      /no mean/,
    ],
    [
      'async rounds',
      { rule: 'trimmed-mean', hostile: 1, sync: { strategy: 'async' } },
      '--sync',
      /other rounds/,
    ],
    ['tiers', { rule: 'trimmed-mean', hostile: 1, tiers: 2 }, '--tiers', /cannot be compared/],
    [
      'the Python reference',
      { rule: 'trimmed-mean', hostile: 1, profile: 'nostrain/0' },
      '--set profile',
      /takes means/,
    ],
  ] as const)('does not go with %s', (_, asked, flag, why) => {
    const refusal = (): void => assertAgreeable(settingsOf(asked as PartialSettings));
    expect(refusal).toThrow(why);
    expect(refusal).toThrow(flag);
  });

  it('is part of the settings fingerprint: a worker with another rule is reported', () => {
    const [plain, trimmed] = [settingsOf({}), settingsOf({ rule: 'trimmed-mean', hostile: 1 })];
    const fingerprints = [settingsFingerprint(plain), settingsFingerprint(trimmed)] as const;
    expect(fingerprints[0].settings).not.toBe(fingerprints[1].settings);
    expect(differencesOf(...fingerprints)).toContainEqual({
      ...{ name: 'rule', flag: '--set rule', ours: 'clipped-mean', theirs: 'trimmed-mean' },
    });
    // a run without a rule keeps its fingerprint
    expect(fingerprints[0].nonDefault.some((pair) => pair.startsWith('rule='))).toBe(false);
  });
});

describe('T-02: five workers, one of them hostile', { timeout: 60_000 }, () => {
  let relay: Relay;
  beforeAll(async () => {
    relay = await createRelay();
  });
  afterAll(() => relay.close());

  /** Trains a fifth of the way to the common target, with a small offset. */
  const towards = (index: number): Trainer => ({
    ...arithmeticTrainer(index, smallLayout, { clock: systemClock, trainMs: 0 }),
    async train({ params: from, round, steps }) {
      const stray = (i: number): number => 0.02 * Math.sin(i + 7 * index + 3 * round);
      const params = Float32Array.from(from, (value, i) => value + (1 - value) / 5 + stray(i));
      const losses = new Float32Array(steps).fill(1);
      return { params, moments: [], losses, examples: 8, seconds: 0 };
    },
  });

  /** Sends the opposite, five times as large. */
  const opposing = (trainer: Trainer): Trainer => ({
    ...trainer,
    async train(task, onProgress, signal) {
      const trained = await trainer.train(task, onProgress, signal);
      const params = task.params.map((value, i) => value - 5 * (trained.params[i]! - value));
      return { ...trained, params };
    },
  });

  async function play(run: string, aggregation: Plan['aggregation'], hostile: boolean) {
    const members = [0, 1, 2, 3, 4].map((index) => {
      const honest = towards(index);
      return startMember({
        ...{ index, relays: [relay.url], packing: 'int8' },
        trainer: hostile && index === 4 ? opposing(honest) : honest,
        plan: {
          ...{ run, rounds: 4, aggregation, weights: 'equal', weightCap: 1 },
          ...{ sync: { strategy: 'strict', workers: 5 }, waitFor: 5 },
        },
      });
    });
    const states = await Promise.all(members.map(({ finished }) => finished));
    const [first, ...others] = states.map(({ params }) => params.values);
    // all end in the same bits
    for (const other of others) expect([...other]).toEqual([...first!]);
    return first!;
  }

  const apart = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
    Math.sqrt(Array.from(a).reduce((sum, value, i) => sum + (value - b[i]!) ** 2, 0));

  it('end near the honest result under rules that tolerate one hostile worker, and far from it under the mean', {
    timeout: 120_000,
  }, async () => {
    const usual = { before: 'nothing', leastRatePermille: 1000 } as const;
    const mean = { rule: 'clipped-mean', hostile: 0, ...usual } as const;
    const best = await play('honest', mean, false);
    const clipped = apart(await play('turned', mean, true), best);
    for (const rule of ['trimmed-mean', 'coordinate-median', 'geometric-median'] as const) {
      const found = await play(rule, { rule, hostile: 1, ...usual }, true);
      expect(apart(found, best)).toBeLessThan(clipped);
    }
    // krum uses one contribution of five: the others return to the residual
    await play('krum', { rule: 'krum', hostile: 1, ...usual }, true);
  });
});
