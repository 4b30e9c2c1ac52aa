import { parse } from 'smol-toml';
import { describe, expect, it } from 'vitest';
import { readPlacement } from '../../src/run/placement-policy.ts';
import { idOf } from '../consensus/placement/support.ts';

const key = idOf('holder');
const good = `
on_unsatisfiable = "degrade-with-alert"
regions = ["asia", "europe"]
tiers = ["known", "open"]
attestors = ["${idOf('attestor')}"]
max_over_share = 20

[objects.checkpoint]
replicas = 3
min_distinct = { regions = 2 }
attested = ["region"]
only = { tiers = ["known"] }

[[holders]]
key = "${key}"
region = "asia"
tier = "known"
weight = 4
classes = ["checkpoint"]
`;
const read = (toml: string) => readPlacement(parse(toml));

describe('a placement document', () => {
  it('is read from TOML', () => {
    expect(read(good)).toEqual({
      ok: true,
      value: {
        policy: {
          onUnsatisfiable: 'degrade-with-alert',
          regions: ['asia', 'europe'],
          tiers: ['known', 'open'],
          attestors: [idOf('attestor')],
          maxOverShare: 20,
          objects: {
            checkpoint: {
              replicas: 3,
              minDistinct: { regions: 2, tiers: 1 },
              attested: ['region'],
              only: { regions: [], tiers: ['known'] },
            },
          },
        },
        holders: [
          {
            key,
            region: 'asia',
            tier: 'known',
            weight: 4,
            classes: ['checkpoint'],
            attestations: [],
          },
        ],
      },
    });
  });

  it('may list holders alone', () => {
    const only = readPlacement({ holders: [{ key, region: 'asia', tier: 'known' }] });
    expect(only).toMatchObject({
      ok: true,
      value: { policy: undefined, holders: [{ weight: 1 }] },
    });
  });

  it.each([
    ['replicas', 'replica', 'objects.checkpoint.replica is unknown; the nearest is "replicas"'],
    [
      'min_distinct',
      'min_distnct',
      'objects.checkpoint.min_distnct is unknown; the nearest is "min_distinct"',
    ],
    [
      'regions = 2',
      'region = 2',
      'objects.checkpoint.min_distinct.region is unknown; the nearest is "regions"',
    ],
    [
      'on_unsatisfiable',
      'on_unsatisfied',
      'on_unsatisfied is unknown; the nearest is "on_unsatisfiable"',
    ],
    ['weight', 'wieght', 'holders[1].wieght is unknown; the nearest is "weight"'],
    [
      'region = "asia"',
      'region = "aisa"',
      'holders[1].region has "aisa", which is not known; the nearest is "asia"',
    ],
    [
      '"region"',
      '"regoin"',
      'objects.checkpoint.attested has "regoin", which is not known; the nearest is "region"',
    ],
    [
      'degrade-with-alert',
      'degrade',
      'on_unsatisfiable is "degrade", not one of fail, degrade-with-alert',
    ],
    [
      'replicas = 3',
      'replicas = 0',
      'objects.checkpoint.replicas is "0", not a whole number from 1 to 32',
    ],
    [
      'replicas = 3',
      'replicas = 2.5',
      'objects.checkpoint.replicas is "2.5", not a whole number from 1 to 32',
    ],
    ['replicas = 3', '', 'objects.checkpoint.replicas is missing'],
    [
      'regions = 2',
      'regions = 4',
      'objects.checkpoint.min_distinct.regions is 4, more than 3 replicas can be in',
    ],
    [
      'regions = 2',
      'regions = 3',
      'objects.checkpoint.min_distinct.regions is 3, but only 2 are named',
    ],
    [
      'weight = 4',
      'weight = -1',
      'holders[1].weight is "-1", not a whole number from 0 to 1000000',
    ],
    [key, 'me', 'holders[1].key has "me", which is not a public key'],
    ['region = "asia"\n', '', 'holders[1].region is missing'],
  ])('with %s as %s is refused: %s', (from, to, message) => {
    expect(good).toContain(from);
    expect(read(good.replace(from, to))).toMatchObject({ ok: false, issue: { message } });
  });

  it.each([[null], [[]], ['text'], [{ objects: [] }], [{ objects: {} }], [{ objects: { x: 1 } }]])(
    'is refused where it is %j',
    (document) => {
      expect(readPlacement(document)).toMatchObject({ ok: false });
    },
  );

  it('lists nobody twice', () => {
    const row = { key, region: 'asia', tier: 'known' };
    expect(readPlacement({ holders: [row, row] })).toMatchObject({
      issue: { message: 'holders[2].key is there twice' },
    });
  });
});
