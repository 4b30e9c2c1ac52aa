/** Groups of experts in a run spec and on a command line. */
import { ConfigError } from 'nostrain/base';
import { combineSettings, fields, type PartialSettings, presets, type Untyped } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { assertAgreeable } from '../../src/run/settings-rules.ts';
import { groupedSpec } from '../support/groups.ts';

const cases: readonly (readonly [string, Untyped])[] = [
  ['mixture.experts', { features: ['experts'], mixture: { experts: 0, groups: [] } }],
  ['mixture.groups', { mixture: { groups: ['a=0,1', 'b=1,2,3'] } }],
  ['mixture.groups', { mixture: { groups: ['a=0,1', 'b=2'] } }],
  ['mixture.groups', { mixture: { groups: ['a=0,1', 'b=2,3,4'] } }],
  ['mixture.groups', { mixture: { groups: ['a=0,1', 'a=2,3'] } }],
  ['training.model', { training: { model: 'linear' }, data: { kind: 'made', shards: 1 } }],
  ['tiers', { tiers: 1 }],
  ['training.owners', { training: { owners: 1 } }],
  ['training.fragments', { training: { fragments: 2 } }],
  [
    'aggregation.rule',
    {
      admission: { kind: 'work', bits: 8 },
      tier: 'verified',
      aggregation: { rule: 'trimmed-mean', hostile: 1 },
    },
  ],
  ['aggregation.leastRatePermille', { aggregation: { leastRatePermille: 500 } }],
  ['late', { late: 'defer' }],
  ['rerun.permille', { rerun: { permille: 100, relays: ['wss://a.example'] } }],
];

it.each(cases)('a spec with experts: %s is refused by name', (at, change) => {
  expect(() => groupedSpec([1, 2], change)).toThrow(
    expect.objectContaining({
      code: 'spec/inconsistent',
      message: expect.stringMatching(
        at.startsWith('mixture.')
          ? new RegExp(`^${at} is .*: it must be that`)
          : new RegExp(`^${at} is .* where mixture.experts is above 0`),
      ) as string,
    }),
  );
});

describe('the option groups', () => {
  const read = (value: unknown) => fields.groups.read(value, 'groups');

  it.each<[unknown, readonly string[]]>([
    ['', []],
    ['a=0,1', ['a=0,1']],
    ['a=0,1,b=2,c=3', ['a=0,1', 'b=2', 'c=3']],
    [
      ['a=0,1', 'b=2'],
      ['a=0,1', 'b=2'],
    ],
    // the terminal splits the value of a repeatable option at commas
    [
      ['a=0', '1', 'b=2'],
      ['a=0,1', 'b=2'],
    ],
  ])('reads %j', (value, groups) => expect(read(value)).toEqual(groups));

  it.each([['a'], ['a='], ['1,a=0'], ['a=x'], [5], [{ toString: 1 }], [[['a=0']]], [null]])(
    'refuses %j',
    (value) => expect(() => read(value)).toThrow(ConfigError),
  );
});

describe('experts in a run without a spec', () => {
  const validators = ['0'.repeat(64)];
  const mixture = { experts: 4, groups: ['a=0,1', 'b=2,3'] };
  const merging = { ...mixture, validators, mergeStart: 1, group: 'a' };
  const judge = (asked: PartialSettings) => () =>
    assertAgreeable(
      combineSettings(presets['char-gpt'], { run: 'run', relay: [], model: 'char-gpt', ...asked }),
    );

  it('go with validators that merge, or without groups', () => {
    expect(judge(merging)).not.toThrow();
    expect(judge({ experts: 4, owners: 0 })).not.toThrow();
  });

  it.each<[string, PartialSettings, string]>([
    ['groups that no spec assigns', { ...mixture, owners: 0 }, 'flag/groups'],
    ['an unknown group', { ...merging, group: 'c' }, 'flag/group'],
    ['no group', { ...merging, group: '' }, 'flag/group'],
    ['overlapping groups', { ...merging, groups: ['a=0,1', 'b=1,2,3'] }, 'flag/group'],
    ['an expert without a group', { ...merging, groups: ['a=0,1', 'b=2'] }, 'flag/group'],
    ['no beginning', { ...merging, mergeStart: 0 }, 'flag/validators'],
    ['owned chunks', { ...merging, owners: 2 }, 'flag/validators'],
    ['tiers', { experts: 4, tiers: 2 }, 'flag/experts'],
  ])('do not go with %s', (_, asked, code) => {
    expect(judge(asked)).toThrow(expect.objectContaining({ code }));
  });
});
