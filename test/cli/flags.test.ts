import { describe, expect, it } from 'vitest';
import { combineSettings } from '../../src/cli/flags.ts';
import { presets } from '../../src/run/presets.ts';

const asked = { run: 'r', relay: ['ws://127.0.0.1:1'], model: 'char-gpt' } as const;
const strict = (workers: number) => ({ sync: { strategy: 'strict', workers } }) as const;

describe('settings of a run', () => {
  it('send a part each among several workers, everything alone and on the wire of the reference', () => {
    const char = presets['char-gpt'];
    expect(combineSettings(char, { ...asked, ...strict(3) })).toMatchObject({
      packing: 'auto',
      owners: 1,
      residual: 'owned',
    });
    expect(combineSettings(char, { ...asked, ...strict(1) })).toMatchObject({
      packing: 'int8',
      owners: 0,
    });
    const reference = { ...asked, ...strict(3), profile: 'nostrain/0' } as const;
    expect(combineSettings(char, reference)).toMatchObject({ packing: 'nstr', owners: 0 });
  });

  it('send fragments trained by muon in many rounds, unless how to send is asked for', () => {
    const many = { ...asked, ...strict(4), rounds: 20 };
    const char = presets['char-gpt'];
    const fragments = { optimizer: 'muon', fragments: 4, owners: 0 };
    expect(combineSettings(char, many)).toMatchObject(fragments);
    expect(combineSettings(char, { ...many, rounds: 5 })).toMatchObject({ fragments: 1 });
    expect(combineSettings(char, { ...many, owners: 2 })).toMatchObject({
      optimizer: 'adamw',
      fragments: 1,
      owners: 2,
    });
    const linear = { ...many, model: 'linear' } as const;
    expect(combineSettings(presets.linear, linear)).toMatchObject({ fragments: 1 });
  });

  it('are those asked for, whatever would be chosen', () => {
    const own = { packing: 'ternary', owners: 2 } as const;
    expect(combineSettings(presets.gpt, { ...asked, ...strict(1), ...own })).toMatchObject(own);
  });
});
