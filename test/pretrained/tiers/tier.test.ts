/** What a manifest of tiers may say, and which tier a config declares. */

import { describe, expect, it } from 'vitest';
import { familyPath, readManifest, tierOf, widthAt } from '../../../src/pretrained/tiers/tier.ts';

describe('a manifest', () => {
  const hash = 'ab'.repeat(32);
  const manifest = (files: readonly string[], more = {}) => ({
    ...{ schema_version: 1, matformer_base_intermediate_size: 40, common_files: [] },
    tiers: [{ tier: 1, intermediate_size: 20, files }],
    sha256: Object.fromEntries(files.map((file) => [file, hash])),
    ...more,
  });

  it.each([
    ...['../../secret', '../other/config.json', '/etc/passwd', 'C:/model/config.json', 'C:\\x'],
    ...[
      '\\\\server\\share',
      '//server/share',
      '..',
      '../model-tier1',
      'a/../../b',
      './config.json',
      '',
    ],
    ...['../model-tier1/../../x', 'a//b', '.hidden', '../.-tier1/x', 'x'.repeat(501)],
  ])('E-03: does not lead to %j', (path) => {
    expect(() => readManifest(manifest([path]))).toThrow(
      expect.objectContaining({ code: 'tiers/InvalidManifestPath' }),
    );
  });

  it('E-03: may name files of its folder and of tiers beside it', () => {
    expect(familyPath('config.json')).toEqual({ folder: '', file: 'config.json' });
    expect(familyPath('../a.b-1-tier2/sub/x.py')).toEqual({
      folder: '../a.b-1-tier2',
      file: 'sub/x.py',
    });
  });

  it('E-03: of another version, without a hash, of a wrong width or with tiers twice is refused', () => {
    const good = manifest(['config.json']);
    expect(readManifest(good).tiers).toEqual([{ tier: 1, width: 20, files: ['config.json'] }]);
    expect(() => readManifest({ ...good, schema_version: 2 })).toThrow(
      expect.objectContaining({ code: 'tiers/UnsupportedManifestVersion' }),
    );
    for (const bad of [
      { sha256: {} },
      { sha256: { 'config.json': 'ab' } },
      { tiers: [...good.tiers, ...good.tiers] },
      { tiers: [{ tier: 1, intermediate_size: 30, files: [] }] },
      { tiers: [{ tier: -1, files: [] }] },
      { tiers: 'all' },
      { tiers: [{ tier: 1, files: [3] }] },
      { matformer_base_intermediate_size: 0 },
    ]) {
      expect(() => readManifest({ ...good, ...bad })).toThrow(
        expect.objectContaining({ code: 'tiers/manifest' }),
      );
    }
    expect(() => readManifest([])).toThrow(expect.objectContaining({ code: 'tiers/manifest' }));
  });
});

describe('a config', () => {
  it('E-06: a tier is read from its key, or from the widths', () => {
    const config = { model_type: 'llama', intermediate_size: 40 };
    const of = (more: object) => tierOf({ ...config, ...more }, 'it');
    expect(of({})).toEqual({ tier: 0, base: 40 });
    expect(of({ matformer_tier: 2 })).toEqual({ tier: 2, base: 160 });
    expect(of({ matformer_base_intermediate_size: 80 })).toEqual({ tier: 1, base: 80 });
    for (const bad of [
      { matformer_base_intermediate_size: 100 },
      { matformer_tier: 1, matformer_base_intermediate_size: 40 },
      { matformer_tier: 'one' },
      { intermediate_size: undefined },
      { matformer_tier: 17 },
      { model_type: 'gpt2' },
    ]) {
      expect(() => of(bad)).toThrow(expect.objectContaining({ code: 'tiers/config' }));
    }
  });

  it('has a width for each tier up to 16, if it divides', () => {
    expect([widthAt(65_536, 16, 'it'), widthAt(40, 3, 'it')]).toEqual([1, 5]);
    for (const [base, tier] of [
      [40, 4],
      [2 ** 17, 17],
    ] as const) {
      // biome-ignore format: one line
      expect(() => widthAt(base, tier, 'it')).toThrow(
        expect.objectContaining({ code: 'tiers/width', data: { what: 'it', width: base, divisor: 2 ** tier } }),
      );
    }
  });
});
