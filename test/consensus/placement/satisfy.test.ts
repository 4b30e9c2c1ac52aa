import type { Holder, PlacementPolicy } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { place } from '../../../src/consensus/placement/place.ts';
import { holderOf, idOf, policyOf } from './support.ts';

const tried = (policy: PlacementPolicy, holders: readonly Holder[]) =>
  place(policy, holders, { id: idOf('x'), count: 1, name: 'chunk' });
const inRegions = (...regions: readonly string[]) =>
  regions.map((region, i) => holderOf(`h${i}`, { region, tier: i % 2 === 0 ? 'known' : 'open' }));

describe('a rule that cannot be satisfied', () => {
  const twoRegions = inRegions('asia', 'asia', 'europe', 'europe', 'europe');

  it('R-11: names the rule, what it needs, what there is and the nearest relaxation, and places nothing', () => {
    const made = tried(
      policyOf({ replicas: 4, minDistinct: { regions: 3, tiers: 1 } }),
      twoRegions,
    );
    expect(made).toMatchObject({
      ok: false,
      unsatisfied: {
        rule: 'objects.chunk.min_distinct.regions',
        needed: 3,
        available: 2,
        relaxation: [{ rule: 'objects.chunk.min_distinct.regions', from: '3', to: '2' }],
      },
    });
    expect(made).not.toHaveProperty('holders');
  });

  it('R-11: with degrade-with-alert it places by the relaxation, and says that it does', () => {
    const policy = policyOf(
      { replicas: 4, minDistinct: { regions: 3, tiers: 1 } },
      { onUnsatisfiable: 'degrade-with-alert' },
    );
    const made = tried(policy, twoRegions);
    expect(made).toMatchObject({
      ok: true,
      rule: { replicas: 4, minDistinct: { regions: 2 } },
      alert: { rule: 'objects.chunk.min_distinct.regions', needed: 3, available: 2 },
    });
    expect(made.ok && made.holders[0]).toHaveLength(4);
  });

  it('lowers replicas where there are too few holders', () => {
    const made = tried(policyOf({ replicas: 7 }), twoRegions);
    expect(made).toMatchObject({
      unsatisfied: {
        rule: 'objects.chunk.replicas',
        needed: 7,
        available: 5,
        relaxation: [{ rule: 'objects.chunk.replicas', from: '7', to: '5' }],
      },
    });
  });

  it('sees that regions and tiers do not come together in so few replicas', () => {
    // holders in other regions have the same tier
    const holders = [
      holderOf('a', { region: 'asia', tier: 'known' }),
      holderOf('b', { region: 'europe', tier: 'known' }),
      holderOf('c', { region: 'europe', tier: 'open' }),
      holderOf('d', { region: 'europe', tier: 'anchored' }),
    ];
    const policy = policyOf({ replicas: 3, minDistinct: { regions: 2, tiers: 3 } });
    expect(tried(policy, holders)).toMatchObject({ ok: true });
    const fewer = policyOf({ replicas: 2, minDistinct: { regions: 2, tiers: 2 } });
    expect(tried(fewer, holders.slice(1))).toMatchObject({ ok: false });
    const three = policyOf({ replicas: 3, minDistinct: { regions: 3, tiers: 3 } });
    const crossed = [...holders, holderOf('e', { region: 'africa', tier: 'known' })];
    expect(tried(three, crossed)).toMatchObject({
      unsatisfied: { rule: 'objects.chunk.min_distinct', needed: 4, available: 3 },
    });
  });

  it('keeps regions rather than trust tiers if lowering either would do', () => {
    const holders = [
      ...['asia', 'africa', 'europe'].map((region) => holderOf(region, { region, tier: 'known' })),
      ...['open', 'anchored'].map((tier) => holderOf(tier, { region: 'europe', tier })),
    ];
    const three = policyOf({ replicas: 3, minDistinct: { regions: 3, tiers: 3 } });
    const relaxation = [{ rule: 'objects.chunk.min_distinct.tiers', from: '3', to: '2' }];
    expect(tried(three, holders)).toMatchObject({ ok: false, unsatisfied: { relaxation } });
    const lone = tried(
      policyOf(
        { replicas: 3, minDistinct: { regions: 2, tiers: 2 } },
        { onUnsatisfiable: 'degrade-with-alert' },
      ),
      holders.slice(0, 1),
    );
    expect(lone).toMatchObject({
      rule: { replicas: 1, minDistinct: { regions: 1, tiers: 1 } },
      alert: { rule: 'objects.chunk.min_distinct.regions', needed: 2, available: 1 },
    });
  });

  it('reports no relaxation if there are no holders', () => {
    expect(tried(policyOf({}), [])).toMatchObject({
      ok: false,
      unsatisfied: { needed: 1, available: 0, relaxation: [] },
    });
  });
});

describe('what is said and what is attested', () => {
  const attestor = idOf('attestor');
  const policy = (more: Partial<PlacementPolicy> = {}) =>
    policyOf({ replicas: 1, attested: ['region'] }, { attestors: [attestor], ...more });
  const said = holderOf('said', { region: 'asia' });
  const vouched = holderOf('vouched', { attested: { region: attestor } });
  const other = holderOf('other', { attested: { region: idOf('a stranger') } });

  it('R-13: a rule may require attested regions: unattested holders, and those attested by other keys, are excluded with the reason', () => {
    const made = tried(policy(), [said, vouched, other]);
    expect(made).toMatchObject({ ok: true, holders: [[vouched.key]] });
    const reason = 'its region is self-reported, not attested';
    expect(made.excluded).toHaveLength(2);
    expect(made.excluded).toContainEqual({ key: said.key, reason });
    expect(made.excluded).toContainEqual({ key: other.key, reason });
  });

  it('R-13: if no holder is attested, the relaxation names the requirement, and no policy degrades to it by itself', () => {
    for (const onUnsatisfiable of ['fail', 'degrade-with-alert'] as const) {
      expect(tried(policy({ onUnsatisfiable }), [said, other])).toMatchObject({
        ok: false,
        unsatisfied: {
          relaxation: [{ rule: 'objects.chunk.attested', from: '["region"]', to: '[]' }],
        },
      });
    }
  });
});

describe('requirements on a holder that none meets', () => {
  const attestor = idOf('attestor');
  const rule = {
    ...{ replicas: 1, attested: ['region', 'tier'] as const },
    only: { regions: ['asia'], tiers: ['known'] },
  };
  const attested = ['objects.chunk.attested', '["region", "tier"]'];
  const regions = ['objects.chunk.only.regions', '["asia"]', '[]'];
  const tiers = ['objects.chunk.only.tiers', '["known"]', '[]'];
  const one = { attested: { region: attestor, tier: attestor } };

  const cases: readonly (readonly [string, Partial<Holder>, readonly (readonly string[])[]])[] = [
    ['attestations', { region: 'asia' }, [[...attested, '[]']]],
    [
      'one attestation',
      { region: 'asia', attested: { tier: attestor } },
      [[...attested, '["tier"]']],
    ],
    [
      'the other',
      { region: 'asia', attested: { region: attestor } },
      [[...attested, '["region"]']],
    ],
    ['regions', one, [regions]],
    ['tiers', { ...one, region: 'asia', tier: 'open' }, [tiers]],
    ['all of them', { tier: 'open' }, [[...attested, '[]'], regions, tiers]],
  ];

  it.each(cases)('as few as possible are dropped: %s', (_, said, relaxation) => {
    const policy = policyOf(rule, { attestors: [attestor], onUnsatisfiable: 'degrade-with-alert' });
    expect(tried(policy, [holderOf('h', said)])).toMatchObject({
      ok: false,
      unsatisfied: {
        ...{ rule: 'objects.chunk.min_distinct.regions', needed: 1, available: 0 },
        relaxation: relaxation.map(([rule, from, to]) => ({ rule, from, to })),
        relaxed: undefined,
      },
    });
  });

  it('are dropped before numbers are lowered', () => {
    const policy = policyOf({ ...rule, replicas: 3 }, { attestors: [attestor] });
    expect(tried(policy, [holderOf('h', one)])).toMatchObject({
      unsatisfied: {
        relaxation: [
          { rule: 'objects.chunk.replicas', from: '3', to: '1' },
          { rule: 'objects.chunk.only.regions' },
        ],
      },
    });
  });
});

describe('members that are not drawn', () => {
  it.each([
    ['no capacity', holderOf('h', { capacity: 0 }), 'it has no capacity left'],
    ['weight 0', holderOf('h', { weight: 0 }), 'its weight is 0'],
    ['another class', holderOf('h', { classes: ['result'] }), 'it takes no objects of class chunk'],
    [
      'an unknown region',
      holderOf('h', { region: 'atlantis' }),
      'the policy knows no region atlantis',
    ],
    ['an unknown tier', holderOf('h', { tier: 'best' }), 'the policy knows no tier best'],
    ['a region of others', holderOf('h', { region: 'asia' }), 'its region is asia'],
    ['a tier of others', holderOf('h', { tier: 'open' }), 'its tier is open'],
  ])('%s', (_, holder, reason) => {
    const only = { regions: ['europe'], tiers: ['known'] };
    const names = { regions: ['asia', 'europe'], tiers: ['known', 'open'] };
    const made = tried(policyOf({ replicas: 1, only }, names), [holder, holderOf('good')]);
    expect(made).toMatchObject({ ok: true, excluded: [{ key: holder.key, reason }] });
  });
});
