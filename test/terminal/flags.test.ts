import { combineSettings, inHalves, type PartialSettings, presets } from 'nostrain/run';
import { describe, expect, it } from 'vitest';

const asked = { run: 'r', relay: ['ws://127.0.0.1:1'], model: 'char-gpt' } as const;
const strict = (workers: number) => ({ sync: { strategy: 'strict', workers } }) as const;

describe('settings of a run', () => {
  it('send a part each among several workers, everything alone and on the wire of the reference', () => {
    const char = presets['char-gpt'];
    expect(combineSettings(char, { ...asked, ...strict(3) })).toMatchObject({
      optimizer: 'muon',
      packing: 'trellis',
      owners: 4,
      fragments: 1,
      residual: 'none',
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

  it('send a small GPT rotated, with all of its settings or none', () => {
    const rotated = {
      owners: 4,
      fragments: 1,
      packing: 'trellis',
      residual: 'none',
      momentum: 0.5,
    };
    const plain = { outerLearningRate: 1, momentum: 0 };
    const sent = (more: PartialSettings, model: 'gpt' | 'pretrained' = 'gpt') =>
      combineSettings(presets[model], { ...asked, ...strict(3), model, ...more });
    expect(inHalves).toMatchObject({ owners: 2, fragments: 2, packing: 'auto', ...plain });
    for (const innerSteps of [25, 100]) expect(sent({ innerSteps })).toMatchObject(rotated);
    expect(sent({ width: 64, layers: 2, ffn: 256 })).toMatchObject(rotated);
    expect(sent({ width: 384, layers: 6, ffn: 1536 })).toMatchObject(inHalves);
    for (const choice of [{ owners: 2 }, { packing: 'auto' }, { momentum: 0 }] as const)
      expect(sent(choice)).toMatchObject(inHalves);
    for (const choice of [{ optimizer: 'adamw' }, { eventBudget: 16_384 }] as const)
      expect(sent(choice)).toMatchObject(inHalves);
    expect(sent({ ...strict(1) })).toMatchObject({ packing: 'int8', ...plain });
    expect(sent({ tiers: 2 })).toMatchObject({ packing: 'int8', owners: 0, ...plain });
    expect(sent({ rule: 'krum' })).toMatchObject({ packing: 'int4', owners: 0, ...plain });
    expect(sent({ profile: 'nostrain/0' })).toMatchObject({
      owners: 0,
      residual: 'feedback',
      ...plain,
    });
    expect(sent({}, 'pretrained')).toMatchObject({ packing: 'auto', momentum: 0 });
  });

  it('are those asked for, whatever would be chosen', () => {
    const own = { packing: 'ternary', owners: 2 } as const;
    expect(combineSettings(presets.gpt, { ...asked, ...strict(1), ...own })).toMatchObject(own);
  });
});
