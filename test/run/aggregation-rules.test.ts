import { makeSpec } from 'nostrain/certified';
import { ruleForms, ruleNames } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { ruleTrustTiers } from '../../src/run/spec/aggregation-rules.ts';
import { sampleSpec } from '../support/run-spec.ts';
import { signerOf } from '../support/signers.ts';

const me = signerOf(1).publicKey;
const invited = { admission: { kind: 'list', keys: [signerOf(3).publicKey] } };
const made = (typed: Record<string, unknown>) =>
  makeSpec({ me, typed, training: { model: 'linear', rounds: 1 } });

describe('tiers', () => {
  it.each(ruleNames.filter((rule) => ruleTrustTiers[rule] === 'verified'))(
    'T-01: an open run with %s is refused before there is anything to publish',
    async (rule) => {
      await expect(made({ aggregation: { rule } })).rejects.toMatchObject({
        code: 'spec/AggregationRuleTierMismatch',
        data: { rule, required: 'verified', actual: 'open' },
        hint: expect.stringContaining('--tier verified'),
      });
    },
  );

  it.each(ruleNames)('T-01: a verified run may have %s', async (rule) => {
    const { spec } = await made({ ...invited, tier: 'verified', aggregation: { rule } });
    expect(spec).toMatchObject({ tier: 'verified', aggregation: { rule } });
    expect(spec.aggregation.hostile).toBe(ruleForms[rule] === 'mean' ? 0 : 1);
  });

  it.each(['mean', 'clipped-mean'])('T-01: an open run may have %s', async (rule) => {
    const { spec } = await made({ aggregation: { rule } });
    expect(spec).toMatchObject({ tier: 'open', aggregation: { rule } });
  });

  it('T-01: a run is verified by saying who may join: a list, work or stake', async () => {
    const verified = { tier: 'verified' };
    await expect(made(verified)).rejects.toMatchObject({ code: 'spec/TierWithoutAdmission' });
    const work = await made({ ...verified, admission: { kind: 'work', bits: 10 } });
    expect(work.spec.features).toEqual(['admission', 'tier']);
    const stake = { source: 'file', snapshot: 'ab'.repeat(32) };
    const staked = await made({ ...verified, stake, admission: { kind: 'stake', least: '5' } });
    expect(staked.spec.admission).toEqual({ kind: 'stake', least: '5' });
  });

  describe('where a verified run leaves the rule out', () => {
    const keys = [3, 4, 5, 6, 7, 8, 9].map((seed) => signerOf(seed).publicKey);
    const list = { tier: 'verified', admission: { kind: 'list', keys } };
    const gpt = (typed: Record<string, unknown>, training = {}) =>
      makeSpec({
        ...{ me, typed, training: { model: 'char-gpt', rounds: 1, ...training } },
        corpus: async () => ({ sha256: 'ab'.repeat(32), bytes: 100_000 }),
      });

    it('it is what costs least in the lab, with a quarter hostile and whole rows in 2 bits a value', async () => {
      const { spec } = await gpt(list);
      expect(spec.aggregation).toMatchObject({ rule: 'trimmed-mean', before: 'nnm', hostile: 2 });
      expect(spec.training).toMatchObject({ owners: 0, packing: 'trellis', residual: 'none' });
      const work = { tier: 'verified', admission: { kind: 'work', bits: 10 } };
      const three = await gpt({ ...work, aggregation: { hostile: 3 } }, { packing: 'int8' });
      expect(three.spec.aggregation).toMatchObject({ rule: 'trimmed-mean', hostile: 3 });
      expect(three.spec.training).toMatchObject({ owners: 0, packing: 'int8' });
    });

    it('it stays a mean where fewer than five keys are named, stake weighs rows, or nobody is hostile', async () => {
      const few = { ...list, admission: { kind: 'list', keys: keys.slice(0, 3) } };
      const stake = { source: 'file', snapshot: 'ab'.repeat(32) };
      for (const typed of [
        few,
        { ...list, stake, committee: { weights: 'stake' } },
        { ...list, aggregation: { hostile: 0 } },
        { ...list, aggregation: { rule: 'clipped-mean' } },
      ]) {
        const { spec } = await gpt(typed);
        expect(spec.aggregation).toMatchObject({ rule: 'clipped-mean', hostile: 0 });
        expect(spec.training).toMatchObject({ owners: 4, packing: 'trellis' });
      }
    });

    it('what members measure one by one is sent in 2 bits a value, since one of fewer is mostly noise', async () => {
      const budget = async (typed: Record<string, unknown>, training = {}) =>
        (await gpt(typed, training)).spec.training.eventBudget;
      expect(await budget({})).toBe(65_536);
      for (const typed of [{ screening: true }, { scores: true }]) {
        expect(await budget(typed)).toBe(1_000_000_000);
        expect(await budget(typed, { eventBudget: 131_072 })).toBe(131_072);
      }
    });

    it('settings that were asked for and do not go with it are refused, not changed', async () => {
      await expect(gpt(list, { owners: 2 })).rejects.toMatchObject({
        code: 'spec/inconsistent',
        hint: expect.stringContaining('--set rule=clipped-mean'),
      });
    });
  });

  it('a confidential run needs sealed data and machines, and says what is missing', async () => {
    await expect(made({ ...invited, tier: 'confidential' })).rejects.toMatchObject({
      code: 'spec/TierWithoutMachines',
      data: { at: 'sealed.manifest' },
    });
  });

  it('refuses what cannot work with the nearest thing that does', () => {
    const owned = {
      ...invited,
      tier: 'verified',
      aggregation: { rule: 'coordinate-median', hostile: 2 },
      training: { owners: 4 },
    };
    expect(() => sampleSpec(owned)).toThrow(
      expect.objectContaining({
        code: 'spec/inconsistent',
        hint: expect.stringContaining('--set owners=0'),
      }),
    );
    expect(sampleSpec({ ...owned, training: { owners: 5 } }).training.owners).toBe(5);
  });
});
