import fc from 'fast-check';
import { ConfigError } from 'nostrain/base';
import { fields, type Group, precisions, presets, ruleNames } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { beforeNames } from '../../src/run/aggregation.ts';
import { packingNames } from '../../src/run/options.ts';
import {
  completeSettings,
  readSettings,
  type SettingName,
  type Settings,
  settingNames,
  writeSettings,
} from '../../src/run/settings.ts';
import { arithmetics, forecastErrors, scalings } from '../../src/run/spec/model-spec.ts';
import { referenceDefaults } from '../../src/run/spec/presets.ts';

const text = fc.string({ minLength: 1 }).filter((word) => word.trim() !== '');
const whole = (min: number) => fc.integer({ min, max: Number.MAX_SAFE_INTEGER });
const real = (min: number, max: number) =>
  fc.double({ min, max, noNaN: true }).map((value) => (value === 0 ? 0 : value));
const above0 = (max: number) => real(Number.MIN_VALUE, max);
const shard = fc
  .tuple(fc.integer({ min: 1, max: 99_999 }), fc.integer({ min: 1, max: 99_999 }))
  .map(([a, b]) => ({ index: Math.min(a, b), count: Math.max(a, b) }));

const keys = fc.uniqueArray(fc.stringMatching(/^[0-9a-f]{64}$/), { maxLength: 4 });

const arbitraries: { readonly [K in SettingName]: fc.Arbitrary<Settings[K]> } = {
  run: text,
  relay: fc.array(fc.string({ minLength: 1 })),
  peers: keys.map((list) => list.sort()),
  validators: keys.map((list) => list.sort()),
  mergeStart: whole(0),
  mergeTrain: above0(86_400),
  mergeTimeout: above0(3600),
  mergeRetries: fc.integer({ min: 1, max: 16 }),
  mergeTop: fc.integer({ min: 1, max: 64 }),
  mergeCutoff: whole(0),
  profile: fc.constantFrom('nostrain/1', 'nostrain/0'),
  stripe: fc
    .tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 9 }))
    .map(([need, more]) => ({ need, of: Math.min(need + more, 4 * need) })),
  model: fc.constantFrom('char-gpt', 'gpt', 'linear', 'mlp', 'pretrained'),
  base: fc.string().map((word) => word.trim()),
  rank: whole(0),
  alpha: above0(1e6),
  targets: text,
  basePrecision: fc.constantFrom(...precisions),
  width: fc.integer({ min: 1, max: 65_536 }),
  layers: fc.integer({ min: 1, max: 1024 }),
  heads: fc.integer({ min: 1, max: 1024 }),
  context: fc.integer({ min: 2, max: 65_536 }),
  ffn: fc.integer({ min: 1, max: 262_144 }),
  tiers: fc.integer({ min: 0, max: 8 }),
  experts: fc.integer({ min: 0, max: 64 }),
  expertsPerToken: fc.integer({ min: 1, max: 2 }),
  groups: fc.constantFrom([], ['a=0,1'], ['a=0', 'b=1,2']),
  group: fc.constantFrom('', 'code', 'a-1'),
  warmupRounds: fc.nat(100),
  sharedEvery: fc.nat(),
  tier: fc.constantFrom('auto', '0', '1', '8'),
  helperRotation: fc.nat(99),
  helper: fc.boolean(),
  tierStrategy: fc.constantFrom('auto', 'sliced', 'universal'),
  hidden: fc.array(fc.integer({ min: 1, max: 65_536 }), { minLength: 1, maxLength: 16 }),
  horizon: whole(1),
  patch: whole(1),
  forecastError: fc.constantFrom(...forecastErrors),
  scaling: fc.constantFrom(...scalings),
  pixels: whole(1),
  tokens: fc.constantFrom('chars', 'bytes'),
  innerSeconds: real(0, 86_400),
  leastSteps: whole(1),
  shard,
  seed: whole(0),
  rounds: whole(1),
  innerSteps: whole(1),
  batchSize: whole(1),
  optimizer: fc.constantFrom('adamw', 'muon', 'sgd'),
  localLearningRate: above0(1000),
  warmupSteps: whole(0),
  finalShare: real(0, 1),
  weightDecay: real(0, 10),
  clipNorm: real(0, 1e9),
  outerLearningRate: above0(1000),
  momentum: real(0, 1 - Number.EPSILON),
  topk: above0(1),
  packing: fc.constantFrom(...packingNames),
  codec: fc.constantFrom('zlib' as const, 'zstd' as const),
  eventBudget: whole(2048),
  owners: whole(0),
  fragments: whole(1),
  residual: fc.constantFrom(...fields.residual.words),
  weights: fc.constantFrom('examples', 'equal'),
  maxExamples: whole(0),
  normalize: fc.constantFrom(...fields.normalize.words),
  rule: fc.constantFrom(...ruleNames),
  hostile: fc.nat(512),
  before: fc.constantFrom(...beforeNames),
  leastRatePermille: fc.nat(1000),
  sync: fc.oneof(
    fc.constantFrom('timeout', 'quorum', 'async').map((strategy) => ({ strategy })),
    fc
      .integer({ min: 1, max: 999_999 })
      .map((workers) => ({ strategy: 'strict' as const, workers })),
  ),
  roundTimeout: above0(86_400),
  waitFor: whole(0),
  joinTimeout: above0(604_800),
  heartbeatInterval: whole(1),
  maxMissedHeartbeats: whole(1),
  checkpointHistory: whole(1),
  recompute: fc.boolean(),
  precision: fc.constantFrom(...arithmetics),
  accumulate: whole(1),
  evaluate: fc.boolean(),
};

const settings: fc.Arbitrary<Settings> = fc.record(arbitraries);

describe('settings', () => {
  it('come back from a file as they were', () => {
    fc.assert(
      fc.property(settings, (given) => {
        expect(readSettings(writeSettings(given), 'test')).toEqual(given);
        const file = JSON.stringify(writeSettings(given));
        expect(readSettings(JSON.parse(file), 'test')).toEqual(given);
      }),
    );
  });

  it('of every preset come back', () => {
    for (const preset of [...Object.values(presets), referenceDefaults]) {
      expect(readSettings(writeSettings(preset), 'test')).toEqual(preset);
    }
  });

  it('as text, as flags give them, mean the same', () => {
    fc.assert(
      fc.property(settings, (given) => {
        const { relay, errorFeedback, evaluate, recompute, helper, ...rest } = writeSettings(given);
        const typed = Object.entries(rest).map(([name, value]) => [name, String(value)]);
        const read = readSettings(Object.fromEntries(typed), 'test');
        expect({ ...given, ...read }).toEqual(given);
      }),
    );
  });

  it('from anywhere are read or refused as a ConfigError', () => {
    const name = fc.constantFrom(...settingNames, '__proto__', 'toString');
    fc.assert(
      fc.property(fc.dictionary(name, fc.jsonValue()), (values) => {
        try {
          readSettings(values, 'file');
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError);
          expect((error as ConfigError).message).toMatch(/^file: /);
        }
      }),
    );
  });

  it('are complete when every one is there; later layers win', () => {
    const run = { run: 'r', relay: [], model: 'linear' } as const;
    const complete = completeSettings(presets.linear, run, { rounds: 9 });
    expect(Object.keys(complete).sort()).toEqual([...settingNames].sort());
    expect(complete.rounds).toBe(9);
    expect(() => completeSettings(presets.linear, { ...run, rounds: undefined as never })).toThrow(
      'rounds is not set',
    );
  });

  it('have a flag that is named after them, or none', () => {
    for (const name of settingNames) {
      const dashed = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
      const { flag } = (fields as Group)[name]!;
      if (flag !== undefined) expect(flag).toMatch(new RegExp(`^--(no-)?${dashed}( |$)`));
    }
  });
});
