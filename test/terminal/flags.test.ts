import { describe, expect, it } from 'vitest';
import { combineSettings, presets } from '../../src/run/spec/presets.ts';

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

  it('are those asked for, whatever would be chosen', () => {
    const own = { packing: 'ternary', owners: 2 } as const;
    expect(combineSettings(presets.gpt, { ...asked, ...strict(1), ...own })).toMatchObject(own);
  });
});
