import { combineSettings, type PartialSettings, presets } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { differencesOf, settingsFingerprint } from '../../src/run/settings-fingerprint.ts';
import { differenceIn } from '../../src/worker/peers.ts';

const settingsOf = (asked: PartialSettings) =>
  combineSettings(presets[asked.model === 'gpt' ? 'gpt' : 'char-gpt'], {
    ...{ model: 'char-gpt', run: 'winter', relay: [] },
    ...asked,
  });
const of = (asked: PartialSettings = {}) => settingsFingerprint(settingsOf(asked));

describe('what workers must have in common', () => {
  it('names the model and what is not usual, and nothing that a worker may choose', () => {
    const fingerprint = of({
      seed: 2,
      shard: { index: 2, count: 3 },
      sync: { strategy: 'strict', workers: 3 },
      roundTimeout: 9,
    });
    expect(fingerprint.nonDefault).toEqual(['model=char-gpt', 'seed=2']);
    expect(fingerprint.shard).toBe('2/3');
    expect(of({ roundTimeout: 9 }).settings).toBe(of().settings);
    expect(of({ hidden: [8, 8] }).settings).not.toBe(of().settings);
  });

  it('names the flag and both values, also of what only one of them asked for', () => {
    expect(differencesOf(of(), of({ seed: 2 }))).toEqual([
      { name: 'seed', flag: '--seed', ours: '1', theirs: '2' },
    ]);
    expect(differencesOf(of({ innerSteps: 7 }), of())).toEqual([
      { name: 'inner steps', flag: '--inner-steps', ours: '7', theirs: '25' },
    ]);
    expect(differencesOf(of({ model: 'gpt', seed: 3 }), of())).toEqual([
      { name: 'model', flag: '--model', ours: 'gpt', theirs: 'char-gpt' },
    ]);
  });

  it('names the files by which bases differ, as far as heartbeats can', () => {
    const base = (name: string, digit: string) => ({
      files: [{ name, bytes: 9, sha256: digit.repeat(64) }],
      tokenizerSha256: 'f'.repeat(64),
    });
    const tuning = combineSettings(presets.pretrained, {
      ...{ model: 'pretrained', base: 'here', run: 'winter', relay: [] },
    });
    const [one, other] = ['a', 'b'].map((digit) =>
      settingsFingerprint(tuning, base('model.gguf', digit)),
    );
    expect(one!.nonDefault).toEqual([
      `base=${'a'.repeat(32)} model.gguf`,
      `base=${'f'.repeat(32)} the tokenizer`,
      'model=pretrained',
    ]);
    expect(differenceIn(one!, other!, 'e31a5d75')).toBe(
      'Worker e31a5d75 started from another base: model.gguf differs. Neither counts the other; stop one and give both the same --base.',
    );
    const elsewhere = settingsFingerprint({ ...tuning, base: 'there' }, base('model.gguf', 'a'));
    expect(differenceIn(one!, elsewhere, 'e31a5d75')).toBeUndefined();
    expect(settingsFingerprint(tuning, base('modèle.gguf', 'a')).nonDefault.join()).not.toContain(
      'mod\u00e8le',
    );
    expect(settingsFingerprint(tuning, base('modèle.gguf', 'a')).settings).toBe(one!.settings);
  });

  it('says it in words', () => {
    const said = (theirs: PartialSettings, ours: PartialSettings = {}) =>
      differenceIn(of(ours), of(theirs), 'e31a5d75');
    expect(said({})).toBeUndefined();
    expect(said({ seed: 2 })).toBe(
      'Worker e31a5d75 started with another seed (2, yours is 1). Neither counts the other; stop one and use the same --seed.',
    );
    expect(said({ rounds: 4, seed: 2 }, { rounds: 9 })).toBe(
      'Worker e31a5d75 started with other settings: seed 2 (yours is 1), rounds 4 (yours is 9). Neither counts the other; stop one and use the same --seed, --rounds.',
    );
    const first = { shard: { index: 1, count: 3 } };
    expect(said(first, { shard: { index: 2, count: 3 } })).toBeUndefined();
    expect(said(first, first)).toBe(
      'Worker e31a5d75 trains on the same part of the data (--shard 1/3): give each worker a --shard of its own.',
    );
    expect(said(first, { shard: { index: 1, count: 4 } })).toContain(
      '(--shard 1/3, yours is 1/4): use the same N in --shard K/N.',
    );
    const strange = { ...of(), settings: 'f'.repeat(64) };
    expect(differenceIn(of(), strange, 'e31a5d75')).toContain('another version of nostrain');
  });
});
