import { combineSettings, type PartialSettings, presets, type Settings } from 'nostrain/run';
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

  it('send a trellis code, the larger GPT in halves, and everything where single contributions matter', () => {
    const whole = { owners: 4, fragments: 1, packing: 'trellis', residual: 'none' };
    const plain = { outerLearningRate: 1, momentum: 0 };
    const sent = (more: PartialSettings, model: Settings['model'] = 'gpt') =>
      combineSettings(presets[model], { ...asked, ...strict(3), model, ...more });
    const large = { width: 384, layers: 6, ffn: 1536 };
    for (const choice of [{ innerSteps: 100 }, { optimizer: 'adamw' }] as const)
      expect(sent(choice)).toMatchObject({ ...whole, momentum: 0.5 });
    expect(sent({ width: 64, layers: 2, ffn: 256 })).toMatchObject(whole);
    expect(sent(large)).toMatchObject({ ...whole, fragments: 2, momentum: 0.5 });
    expect(sent({ ...large, eventBudget: 500_000 })).toMatchObject(whole);
    for (const model of ['pretrained', 'forecaster', 'vit'] as const)
      expect(sent({}, model)).toMatchObject({ ...whole, ...plain });
    expect(sent({ ...strict(1) })).toMatchObject({ packing: 'int8', ...plain });
    expect(sent({ tiers: 2 })).toMatchObject({ packing: 'int8', owners: 0, ...plain });
    const budget = 1_000_000_000;
    expect(sent({ rule: 'krum' })).toMatchObject({ ...whole, owners: 0, eventBudget: budget });
    expect(sent({ packing: 'trellis' }, 'mlp')).toMatchObject({ owners: 0, residual: 'none' });
    expect(sent({ profile: 'nostrain/0' })).toMatchObject({ residual: 'feedback', ...plain });
  });

  it('are those asked for, whatever would be chosen', () => {
    const own = { packing: 'trellis', owners: 2 } as const;
    expect(combineSettings(presets.gpt, { ...asked, ...strict(1), ...own })).toMatchObject(own);
  });
});
