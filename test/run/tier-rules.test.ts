/** Runs whose workers train tiers of width: what goes with that, and what is refused before the run is made. */
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/base/errors.ts';
import { settingsOf } from '../../src/run/spec/complete-spec.ts';
import { parseRunSpec } from '../../src/run/spec/read-spec.ts';
import { canonicalSpec, runIdOf } from '../../src/run/spec/run-spec.ts';
import type { Untyped } from '../../src/run/spec/spec-readers.ts';
import { tierRules } from '../../src/run/spec/tier-rules.ts';
import { tieredSpec } from '../support/tiers.ts';

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

describe('a spec with tiers of width', () => {
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
    ['training.owners', { training: { owners: 2 } }],
    ['training.fragments', { training: { fragments: 2 } }],
    ['aggregation.rule', { ...open, aggregation: { rule: 'trimmed-mean', hostile: 1 } }],
    ['aggregation.leastRatePermille', { aggregation: { leastRatePermille: 500 } }],
    ['screening', { screening: true }],
    ['scores', { scores: true }],
    ['rerun.permille', { rerun: { permille: 100, relays: ['wss://relay.example.org'] } }],
    ['places', { places }],
  ];

  it.each(cases)('%s is refused by name, with what to do', (at, change) => {
    const found = refusal(change);
    expect(found?.message).toMatch(new RegExp(`^${at} is .* where tiers is above 0`));
    expect(found?.hint).toContain('or leave --tiers out');
    expect(found?.code).toBe('spec/inconsistent');
  });

  it('every rule but the one on placement, of which checkpoints speak alike, has a case', () => {
    expect(new Set([...cases.map(([at]) => at), 'placement'])).toEqual(
      new Set(tierRules.map(({ at }) => at)),
    );
  });
});
