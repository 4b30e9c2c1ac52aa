import { adaptedSettings, combineSettings, type PartialSettings, presets } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { describeAdaptation } from '../../src/run/spec/adaptation.ts';

const strict = (workers: number) => ({ sync: { strategy: 'strict', workers } }) as const;

const requests: readonly PartialSettings[] = [
  ...[{}, strict(1), strict(8), { tiers: 2 }, { profile: 'nostrain/0' }, { rule: 'krum' }],
  ...[{ rule: 'mean' }, { rule: 'trimmed-mean', ...strict(8) }, { eventBudget: 16_384 }],
  ...[{ optimizer: 'adamw' }, { packing: 'int8' }, { owners: 1 }, { fragments: 8 }],
  ...[
    { width: 384, layers: 6, ffn: 1536 },
    { eventBudget: 9000, owners: 1, momentum: 0.9 },
  ],
] as const;

describe.each(['char-gpt', 'gpt', 'linear', 'pretrained', 'vit'] as const)('%s', (model) => {
  it.each(requests)('with %j says all that was changed, and nothing else', (request) => {
    const preset = presets[model];
    const requested = { run: 'r', relay: [], model, ...request };
    const settings = combineSettings(preset, requested);
    const changed = Object.entries(settings).filter(
      ([name, value]) =>
        !(name in requested) && value !== Object.entries(preset).find(([key]) => key === name)?.[1],
    );
    const adapted = adaptedSettings(preset, requested);
    expect(Object.assign({}, ...adapted.map((each) => each.changed))).toEqual(
      Object.fromEntries(changed),
    );
  });
});

it('names the settings that cause the change, the new values and the reason', () => {
  const words = (requested: PartialSettings) =>
    adaptedSettings(presets.gpt, requested).map(describeAdaptation);
  expect(words({ optimizer: 'adamw', owners: 2, eventBudget: 16_384 })).toEqual([]);
  expect(words({ width: 384, layers: 6, ffn: 1536 })).toEqual([
    '10,616,832 parameters → fragments 2: one event has too few bits for all values of a larger model',
  ]);
  expect(words({ rule: 'krum', hostile: 1 })).toEqual([
    expect.stringContaining('→ owners 0, eventBudget 1000000000, outerLearningRate 1, momentum 0'),
  ]);
  expect(words({ ...strict(1) })).toEqual([
    expect.stringContaining('sync strict:1 → owners 0, residual feedback'),
  ]);
});
