import { describe, expect, it } from 'vitest';
import type { PartialSettings } from '../../src/run/settings.ts';
import { combineSettings, longPhases, presets } from '../../src/run/spec/presets.ts';
import { assertAgreeable } from '../../src/terminal/flags.ts';

const asked = { run: 'r', relay: ['ws://127.0.0.1:1'], model: 'char-gpt' } as const;
const strict = (workers: number) => ({ sync: { strategy: 'strict', workers } }) as const;

describe('settings of a run', () => {
  it('send a part each among several workers, everything alone and on the wire of the reference', () => {
    const char = presets['char-gpt'];
    expect(combineSettings(char, { ...asked, ...strict(3) })).toMatchObject({
      optimizer: 'muon',
      packing: 'auto',
      owners: 2,
      fragments: 2,
      residual: 'owned',
    });
    expect(combineSettings(char, { ...asked, ...strict(1) })).toMatchObject({
      packing: 'int8',
      owners: 0,
    });
    const reference = { ...asked, ...strict(3), profile: 'nostrain/0' } as const;
    expect(combineSettings(char, reference)).toMatchObject({
      optimizer: 'adamw',
      residual: 'feedback',
      owners: 0,
      fragments: 1,
    });
  });

  it('send the whole model from one owner each after long inner phases', () => {
    const usual = { owners: 2, fragments: 2, packing: 'auto', outerLearningRate: 1, momentum: 0 };
    const sent = (more: PartialSettings, model: 'gpt' | 'pretrained' = 'gpt') =>
      combineSettings(presets[model], { ...asked, ...strict(3), model, ...more });
    expect(longPhases.settings).toMatchObject({ owners: 1, fragments: 1, packing: 'scaled' });
    expect(sent({ innerSteps: 50 })).toMatchObject({ ...longPhases.settings, residual: 'owned' });
    expect(sent({ innerSteps: 49 })).toMatchObject(usual);
    for (const choice of [{ owners: 2 }, { packing: 'auto' }, { momentum: 0 }] as const)
      expect(sent({ innerSteps: 100, ...choice })).toMatchObject(usual);
    expect(sent({ innerSteps: 100, optimizer: 'adamw' })).toMatchObject(usual);
    expect(sent({ innerSteps: 100, ...strict(1) })).toMatchObject({ packing: 'int8', momentum: 0 });
    expect(sent({ innerSteps: 100, tiers: 2 })).toMatchObject({ owners: 0, momentum: 0 });
    expect(sent({ innerSteps: 100, rule: 'krum' })).toMatchObject({ owners: 0, momentum: 0 });
    expect(sent({ innerSteps: 100 }, 'pretrained')).toMatchObject({ packing: 'auto', momentum: 0 });
  });

  it('are those asked for, whatever would be chosen', () => {
    const own = { packing: 'ternary', owners: 2 } as const;
    expect(combineSettings(presets.gpt, { ...asked, ...strict(1), ...own })).toMatchObject(own);
  });
});

describe('matrices of adapters that are trained in turn', () => {
  const inTurn = { ...asked, model: 'pretrained', rank: 4, adapterTrain: 'alternate' } as const;
  const settings = (more: PartialSettings) =>
    combineSettings(presets.pretrained, { ...inTurn, ...strict(2), ...more });
  it.each([
    ['rounds that overlap', { overlap: true }, '--overlap'],
    ['async workers', { sync: { strategy: 'async' } }, 'async workers'],
    ['the wire of the reference', { profile: 'nostrain/0' }, 'the wire of nostrain/0'],
  ] as const)('do not go with %s', (_, more, which) => {
    expect(() => assertAgreeable(settings({}))).not.toThrow();
    expect(() => assertAgreeable(settings(more))).toThrow(
      `--adapter-train alternate does not go with ${which}`,
    );
  });
});
