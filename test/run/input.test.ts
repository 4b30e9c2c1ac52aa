/** The section `input` of a spec: what of series or pictures a model reads. */

import { ConfigError } from 'nostrain/base';
import { layoutOfRun } from 'nostrain/model';
import {
  canonicalSpec,
  contradictions,
  parseRunSpec,
  presets,
  readSpec,
  runIdOf,
  settingsOf,
  sharedNames,
  type Untyped,
  writeSettings,
} from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { sampleDocument, sampleSpec } from '../support/run-spec.ts';

const series = {
  form: 'series',
  ...{ channels: 2, horizon: 6, patch: 4, forecastError: 'quantile', scaling: 'window' },
} as const;
const images = { form: 'images', channels: 3, classes: 5, pixels: 8, patch: 4 } as const;

const trainingOf = (model: 'forecaster' | 'vit', change: Untyped = {}) =>
  Object.fromEntries(
    Object.entries(writeSettings({ ...presets[model], model, ...change })).filter(([name]) =>
      sharedNames.some((each) => each === name),
    ),
  );

const caps = { limits: { payloadBytes: 100_000, weightCap: 960 } };
const ofSeries = (change: Untyped = {}) =>
  sampleDocument({ training: trainingOf('forecaster'), input: series, ...caps, ...change });
const ofImages = (change: Untyped = {}) =>
  sampleDocument({ training: trainingOf('vit'), input: images, ...caps, ...change });

describe('the input of a run', () => {
  it('is a feature of its own, and lays the parameters out without any data', () => {
    for (const [document, count] of [
      [ofSeries(), 2 * 3 * 6],
      [ofImages(), 5],
    ] as const) {
      const spec = readSpec(document);
      expect(spec.features).toEqual(['input']);
      expect(runIdOf(parseRunSpec(canonicalSpec(spec)))).toBe(runIdOf(spec));
      const head = layoutOfRun(spec).slots.find(({ name }) => name === 'head.bias');
      expect(head!.size).toBe(count);
    }
  });

  it('changes the id of the run with every member, and leaves those of other runs alone', () => {
    const ids = [
      ofSeries(),
      ofSeries({ input: { ...series, channels: 3 } }),
      ofSeries({ input: { ...series, horizon: 7 } }),
      ofSeries({ input: { ...series, patch: 8 } }),
      ofSeries({ input: { ...series, forecastError: 'squared' } }),
      ofSeries({ input: { ...series, scaling: 'training' } }),
      ofImages(),
      ofImages({ input: { ...images, classes: 6 } }),
      ofImages({ input: { ...images, channels: 1 } }),
      ofImages({ input: { ...images, pixels: 16 } }),
    ].map((document) => runIdOf(readSpec(document)));
    expect(new Set(ids).size).toBe(ids.length);
    expect(canonicalSpec(sampleSpec())).not.toContain('input');
  });

  it('gives workers its settings, and tells who asks for others', () => {
    const spec = readSpec(ofSeries());
    const settings = settingsOf(spec, { relay: [], shard: { index: 1, count: 2 } });
    expect(settings).toMatchObject({ horizon: 6, patch: 4, forecastError: 'quantile' });
    expect(contradictions(spec, { horizon: 6 })).toEqual([]);
    expect(contradictions(spec, { horizon: 12 })).toMatchObject([{ name: 'horizon' }]);
  });

  it.each([
    ['another form', ofSeries({ input: { ...series, form: 'sound' } }), /input\.form is "sound"/],
    ['no channels', ofSeries({ input: { ...series, channels: 0 } }), /input\.channels is 0/],
    ['one class', ofImages({ input: { ...images, classes: 1 } }), /input\.classes is 1/],
    ['huge pictures', ofImages({ input: { ...images, pixels: 1e5 } }), /input\.pixels/],
    ['members of others', ofImages({ input: { ...images, horizon: 3 } }), /horizon is unknown/],
    ['no input', ofSeries({ input: null }), /input is .*: it must be that it is there exactly/],
    ['an input beside rows', sampleDocument({ input: images }), /input is .*: it must be that/],
    ['the input of others', ofSeries({ input: images }), /it must be that it is there exactly/],
    [
      'patches that do not fit',
      ofSeries({ input: { ...series, patch: 5 } }),
      /is a multiple of it/,
    ],
    ['pixels that do not fit', ofImages({ input: { ...images, patch: 3 } }), /is a multiple of it/],
    [
      'heads that do not fit',
      ofImages({ training: trainingOf('vit', { heads: 3 }) }),
      /training\.width is 64/,
    ],
    ['own data', ofSeries({ data: { kind: 'own' } }), /evaluation is null.*own data/],
  ])('refuses %s by path', (_, document, words) => {
    expect(() => readSpec(document)).toThrow(ConfigError);
    expect(() => readSpec(document)).toThrow(words);
  });
});
