/** Runs whose workers train MatFormer tiers: what goes with that, and what is refused before the run is made. */

import { ConfigError } from 'nostrain/base';
import { readModelConfig } from 'nostrain/model';
import {
  canonicalSpec,
  parseRunSpec,
  runIdOf,
  settingsOf,
  shapeOf,
  tierRules,
  type Untyped,
} from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { tieredBaseSpec, tieredSpec } from '../support/tiers.ts';
import { tinyConfig } from '../support/tiny-llama.ts';

const refusal = (document: Untyped): ConfigError | undefined => {
  try {
    tieredSpec([0], document);
    return undefined;
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
};

const open = { admission: { kind: 'work', bits: 8 }, tier: 'verified' };
const places = ['https://blobs.example.org'];
const digest = 'ab'.repeat(32);
const parent = {
  ...{ run: digest, author: digest, relays: [], rounds: 1 },
  ...{ outcome: digest, root: digest, first: digest },
};

describe('a spec with tiers', () => {
  it('names the feature, and leaves the settings of a worker to say how many there are', () => {
    const spec = tieredSpec([0]);
    expect(spec.features).toEqual(['widths']);
    expect(runIdOf(parseRunSpec(canonicalSpec(spec)))).toBe(runIdOf(spec));
    expect(settingsOf(spec, { relay: [], tier: '1' })).toMatchObject({ tiers: 2, tier: '1' });
    expect(runIdOf(tieredSpec([0], { tiers: 1 }))).not.toBe(runIdOf(spec));
  });

  const cases: readonly (readonly [string, Untyped])[] = [
    ['training.model', { training: { model: 'linear' }, data: { kind: 'made', shards: 1 } }],
    ['training.ffn', { training: { ffn: 510 } }],
    ['training.fragments', { training: { fragments: 2 } }],
    ['aggregation.rule', { ...open, aggregation: { rule: 'trimmed-mean', hostile: 1 } }],
    ['aggregation.leastRatePermille', { aggregation: { leastRatePermille: 500 } }],
    ['screening', { screening: true }],
    ['scores', { scores: true }],
    ['rerun.permille', { rerun: { permille: 100, relays: ['wss://relay.example.org'] } }],
    ['places', { places }],
    ['parent', { parent }],
  ];

  it.each(cases)('%s is refused by name, with what to do', (at, change) => {
    const found = refusal(change);
    expect(found?.message).toMatch(new RegExp(`^${at} is .* where tiers is above 0`));
    expect(found?.hint).toContain('or leave --tiers out');
    expect(found?.code).toBe('spec/inconsistent');
  });

  const shape = shapeOf(readModelConfig({ ...tinyConfig }, { context: 16 }));
  const adapter = { rank: 4, alpha: 8, targets: 'qv', adapterTrain: 'both' };
  const gpt2 = {
    ...{ model_type: 'gpt2', n_embd: 32, n_layer: 2, n_head: 4, n_positions: 64, vocab_size: 260 },
    activation_function: 'gelu_new',
  };
  const ofBases: readonly (readonly [string, Untyped])[] = [
    ['start.model.ffn', { model: { ...shape, ffn: 46 } }],
    ['start.model.architecture', { model: shapeOf(readModelConfig({ ...gpt2 }, { context: 16 })) }],
  ];

  it.each(ofBases)('of a published model: %s is refused by name, with what to do', (at, start) => {
    expect(tieredBaseSpec([0], 'qv').start!.rings).toHaveLength(3);
    expect(() => tieredBaseSpec([0], 'qv', { start })).toThrow(
      expect.objectContaining({
        message: expect.stringMatching(new RegExp(`^${at} is .* where tiers is above 0`)) as string,
        hint: expect.stringContaining('or leave --tiers out') as string,
      }),
    );
  });

  const HASH = 'cd'.repeat(32);
  const whole = { ...adapter, rank: 0 };

  it.each([
    ['fewer hashes than rings', { rings: [HASH, HASH] }, /^start\.rings is/],
    ['no hashes', { rings: undefined }, /^start\.rings is/],
    [
      'something else than hashes',
      { rings: [HASH, HASH, 'x'] },
      /^start\.rings is .*; it must be a list/,
    ],
    ['too many hashes', { rings: Array(10).fill(HASH) }, /^start\.rings is .*; it must be a list/],
    ['one root of all', { root: HASH, adapter: whole }, /^start\.root is .*; it must be a list/],
    ['fewer roots than rings', { root: [HASH, HASH], adapter: whole }, /^start\.rings is/],
    ['roots of adapters', { root: [HASH, HASH, HASH] }, /^start\.root .* null with adapters/],
  ])('of a published model: with %s it is refused', (_, start, reason) => {
    expect(() => tieredBaseSpec([0], 'qv', { start })).toThrow(reason);
  });

  it('without tiers a base has no hashes of slices', () => {
    expect(() => tieredBaseSpec([0], 'qv', { tiers: 0 })).toThrow(/^start\.rings is/);
  });

  it('every rule but the one on placement, of which checkpoints speak alike, has a case', () => {
    const told = [...cases, ...ofBases].map(([at]) => at);
    expect(new Set([...told, 'start.rings', 'placement'])).toEqual(
      new Set(tierRules.map(({ at }) => at)),
    );
  });
});
