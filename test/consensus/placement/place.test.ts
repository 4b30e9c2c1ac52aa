import fc from 'fast-check';
import type { Holder, PlacementPolicy } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { type Placement, place } from '../../../src/consensus/placement/place.ts';
import { holderOf, idOf, policyOf } from './support.ts';

const regions = ['africa', 'america', 'asia', 'europe', 'oceania'];
const tiers = ['anchored', 'known', 'open'];
const fleet = (count: number, name: string): readonly Holder[] =>
  Array.from({ length: count }, (_, i) =>
    holderOf(`${name}${i}`, {
      weight: 1 + (i % 4),
      region: regions[Math.floor(i / 4) % 5]!,
      tier: tiers[Math.floor(i / 8) % 3]!,
    }),
  );

function placed(policy: PlacementPolicy, holders: readonly Holder[], name: string, count = 1) {
  const made: Placement = place(policy, holders, { id: idOf(name), count, name: 'chunk' });
  if (!made.ok) throw new Error(`${made.unsatisfied.rule} is not satisfied`);
  return made;
}

const loadsOf = (objects: readonly (readonly string[])[]): ReadonlyMap<string, number> => {
  const loads = new Map<string, number>();
  for (const key of objects.flat()) loads.set(key, (loads.get(key) ?? 0) + 1);
  return loads;
};

const distinctPolicy = policyOf({ replicas: 5, minDistinct: { regions: 3, tiers: 2 } });

describe('placement', () => {
  it('R-10: five replicas in three regions and two tiers, for any object and the same for any order of holders', () => {
    const holders = fleet(40, 'h');
    const byKey = new Map(holders.map((each) => [each.key, each]));
    for (let i = 0; i < 50; i++) {
      const [keys = []] = placed(distinctPolicy, holders, `object ${i}`).holders;
      const found = keys.map((key) => byKey.get(key)!);
      expect(new Set(keys).size).toBe(5);
      expect(new Set(found.map(({ region }) => region)).size).toBeGreaterThanOrEqual(3);
      expect(new Set(found.map(({ tier }) => tier)).size).toBeGreaterThanOrEqual(2);
      const reordered = [...holders.slice(i % 40), ...holders.slice(0, i % 40)].reverse();
      expect(placed(distinctPolicy, reordered, `object ${i}`).holders).toEqual([keys]);
    }
  });

  it('R-10: an object is drawn to the same holders on every machine', () => {
    const keys = placed(distinctPolicy, fleet(40, 'h'), 'golden', 9).holders.map((each) =>
      each.map((key) => key.slice(0, 4)).join(' '),
    );
    expect(keys).toMatchInlineSnapshot(`
      [
        "9bf7 878c e619 2e42 1d88",
        "f998 db87 33d0 2ce7 91bc",
        "2ce7 0d36 e619 866f a420",
        "9f09 ae39 97fb c139 f254",
        "e619 97fb 866f de8f 973b",
        "acea 973b 4b6a 91bc 33d0",
        "9bf7 e76d 4b6a b552 97fb",
        "7967 1d88 74f7 f254 33d0",
        "9bf7 d0cc f254 ae39 fa37",
      ]
    `);
  });

  it('R-12: of 10,000 objects no holder keeps 15 % more than its share, and a leaving one moves at most 1.3 times its own', {
    timeout: 180_000,
  }, () => {
    const holders = fleet(200, 'node ');
    const before = placed(distinctPolicy, holders, 'many', 10_000).holders;
    const loads = loadsOf(before);
    const share = ({ weight }: Holder) => (5 * 10_000 * weight) / 500;
    for (const each of holders) {
      expect((loads.get(each.key) ?? 0) / share(each)).toBeLessThanOrEqual(1.15);
      expect((loads.get(each.key) ?? 0) / share(each)).toBeGreaterThan(0.6);
    }
    const gone = holders[3]!;
    const after = placed(
      distinctPolicy,
      holders.filter((each) => each !== gone),
      'many',
      10_000,
    ).holders;
    expect(movesOf(before, after)).toBeLessThanOrEqual(1.3 * share(gone));
  });

  it('R-12: the same over many seeds, fleets and leavers', { timeout: 120_000 }, () => {
    for (let seed = 0; seed < 8; seed++) {
      const holders = fleet(40, `fleet ${seed} `);
      const before = placed(distinctPolicy, holders, `list ${seed}`, 800).holders;
      const loads = loadsOf(before);
      const share = ({ weight }: Holder) => (5 * 800 * weight) / 100;
      for (const each of holders) {
        expect(loads.get(each.key) ?? 0).toBeLessThanOrEqual(Math.ceil(1.15 * share(each)));
      }
      const gone = holders[(7 * seed) % 40]!;
      const left = holders.filter((each) => each !== gone);
      const after = placed(distinctPolicy, left, `list ${seed}`, 800).holders;
      expect(movesOf(before, after)).toBeLessThanOrEqual(1.3 * share(gone));
    }
  });

  it('gives more to the heavy, in proportion', () => {
    const policy = policyOf({ replicas: 1 }, { maxOverShare: 1000 });
    const holders = fleet(20, 'w');
    const loads = loadsOf(placed(policy, holders, 'weights', 8000).holders);
    for (const weight of [1, 2, 3, 4]) {
      const own = holders.filter((each) => each.weight === weight);
      const total = own.reduce((sum, { key }) => sum + (loads.get(key) ?? 0), 0);
      expect(total / ((8000 * 5 * weight) / 50)).toBeCloseTo(1, 1);
    }
  });

  it('gives a holder with more weight than there are objects all of them, and the rest to the others', () => {
    const holders = [holderOf('huge', { weight: 1000 }), holderOf('a'), holderOf('b')];
    const { holders: objects } = placed(policyOf({ replicas: 2 }), holders, 'x', 100);
    const loads = loadsOf(objects);
    expect(loads.get(idOf('huge'))).toBe(100);
    expect(loads.get(idOf('a'))).toBeGreaterThan(40);
  });

  it('gives no holder more than its share and the margin, nor more than its capacity', () => {
    const many = (count: number, maxOverShare: number, holders: readonly Holder[], replicas = 1) =>
      loadsOf(
        placed(policyOf({ replicas }, { maxOverShare }), holders, `${maxOverShare}`, count).holders,
      );
    const ten = Array.from({ length: 10 }, (_, i) => holderOf(`h${i}`));
    expect(new Set(many(100, 0, ten).values())).toEqual(new Set([10]));
    for (const load of many(100, 20, ten).values()) expect(load).toBeLessThanOrEqual(12);
    expect(Math.max(...many(100, 20, ten).values())).toBe(12);
    // a share is rounded up, and is one object at least
    for (const load of many(105, 0, ten).values()) expect(load).toBeLessThanOrEqual(11);
    expect(many(4, 0, ten).size).toBe(4);
    const weighted = [1, 2, 3, 4].map((weight) => holderOf(`w${weight}`, { weight }));
    const loads = many(100, 0, weighted);
    expect(weighted.map(({ key }) => loads.get(key))).toEqual([10, 20, 30, 40]);
    const small = [holderOf('small', { capacity: 3 }), ...ten.slice(0, 4)];
    expect(many(100, 40, small).get(idOf('small'))).toBe(3);
    // two heavy holders take all objects, and the others divide what is left
    const heavy = [
      holderOf('x', { weight: 90 }),
      holderOf('y', { weight: 50 }),
      ...ten.slice(0, 2),
    ];
    const divided = many(50, 0, heavy, 3);
    expect(['x', 'y', 'h0', 'h1'].map((name) => divided.get(idOf(name)))).toEqual([50, 50, 25, 25]);
  });

  it('exceeds a share before a capacity, and a capacity only if the rule needs that holder', () => {
    const small = holderOf('small', { capacity: 3 });
    const big = [0, 1, 2, 3].map((i) => holderOf(`big${i}`));
    for (const maxOverShare of [0, 5, 15]) {
      const policy = policyOf({ replicas: 1 }, { maxOverShare });
      const loads = loadsOf(placed(policy, [small, ...big], 'x', 100).holders);
      expect(loads.get(small.key)).toBe(3);
      for (const { key } of big) expect(loads.get(key)).toBeGreaterThanOrEqual(20);
    }
    const twoRegions = policyOf({ replicas: 2, minDistinct: { regions: 2, tiers: 1 } });
    const asia = [
      holderOf('small', { capacity: 3, region: 'asia' }),
      holderOf('large', { region: 'asia' }),
    ];
    expect(loadsOf(placed(twoRegions, [...asia, ...big], 'x', 50).holders).get(small.key)).toBe(3);
    const alone = placed(twoRegions, [asia[0]!, ...big], 'x', 50).holders;
    expect(loadsOf(alone).get(small.key)).toBe(50);
    expect(alone.every((keys) => keys.length === 2)).toBe(true);
  });

  it('has no class that the policy does not name', () => {
    for (const name of ['result', 'toString'])
      expect(() => place(distinctPolicy, fleet(9, 'h'), { id: idOf('x'), count: 1, name })).toThrow(
        RangeError,
      );
  });

  it('finds holders for every rule that can be had, also where only one choice is left', () => {
    const many = fc.array(
      fc.record({ region: fc.constantFrom(...regions), tier: fc.constantFrom(...tiers) }),
      { minLength: 1, maxLength: 12 },
    );
    const rule = fc.record({
      replicas: fc.integer({ min: 1, max: 8 }),
      regions: fc.integer({ min: 1, max: 5 }),
      tiers: fc.integer({ min: 1, max: 3 }),
    });
    fc.assert(
      fc.property(many, rule, fc.nat(), (rows, { replicas, regions, tiers }, seed) => {
        const holders = rows.map((row, i) => holderOf(`${seed}/${i}`, row));
        const policy = policyOf({ replicas, minDistinct: { regions, tiers } });
        const made = place(policy, holders, { id: idOf(`${seed}`), count: 9, name: 'chunk' });
        expect(made.ok).toBe(canBeHad(rows, replicas, regions, tiers));
        if (!made.ok) return;
        for (const keys of made.holders) {
          const found = keys.map((key) => holders.find((each) => each.key === key)!);
          expect(new Set(keys).size).toBe(replicas);
          expect(new Set(found.map((each) => each.region)).size).toBeGreaterThanOrEqual(regions);
          expect(new Set(found.map((each) => each.tier)).size).toBeGreaterThanOrEqual(tiers);
        }
      }),
      { numRuns: 300, seed: 1 },
    );
  });
});

const movesOf = (before: readonly (readonly string[])[], after: readonly (readonly string[])[]) =>
  after.reduce((sum, keys, i) => sum + keys.filter((key) => !before[i]!.includes(key)).length, 0);

/** The same by exhaustive search. */
function canBeHad(
  rows: readonly { readonly region: string; readonly tier: string }[],
  replicas: number,
  regions: number,
  tiers: number,
): boolean {
  for (let bits = 0; bits < 2 ** rows.length; bits++) {
    const chosen = rows.filter((_, i) => (bits >> i) & 1);
    if (chosen.length !== replicas) continue;
    const isWide = new Set(chosen.map(({ region }) => region)).size >= regions;
    if (isWide && new Set(chosen.map(({ tier }) => tier)).size >= tiers) return true;
  }
  return false;
}
