/**
 * Decides whether holders can satisfy a placement rule, and if not, which part fails and which nearest rule can be
 * satisfied. One holder may add both a region and a trust tier, so the smallest number of holders follows from a
 * bipartite matching between the regions and tiers that are still missing.
 */

import type { WorkerId } from '../../run/ids.ts';
import type {
  Attribute,
  Holder,
  PlacementPolicy,
  PlacementRule,
} from '../../run/placement-policy.ts';

/** A holder that may not keep objects of a class, with the reason. */
export interface Exclusion {
  readonly key: WorkerId;
  readonly reason: string;
}

/** A changed number or list of a rule; `rule` is its path in the document. */
export interface RuleChange {
  readonly rule: string;
  readonly from: string;
  readonly to: string;
}

/** Why a rule cannot be satisfied. */
export interface Unsatisfied {
  /** Path in the document of the first part of the rule that cannot be satisfied. */
  readonly rule: string;
  readonly needed: number;
  readonly available: number;
  /** The smallest change that makes the rule satisfiable; empty if no change does. */
  readonly relaxation: readonly RuleChange[];
  /** The rule with that change, if it only lowers numbers; a policy may degrade to it without asking. */
  readonly relaxed: PlacementRule | undefined;
}

/** Returns the holders that may keep objects of a class, and for each other holder the reason why it may not. */
export function eligible(
  holders: readonly Holder[],
  policy: PlacementPolicy,
  name: string,
  rule: PlacementRule,
): { readonly able: readonly Holder[]; readonly excluded: readonly Exclusion[] } {
  const able: Holder[] = [];
  const excluded: Exclusion[] = [];
  for (const holder of [...holders].sort((a, b) => (a.key < b.key ? -1 : 1))) {
    const reason = problemOf(holder, policy, name, rule);
    if (reason === undefined) able.push(holder);
    else excluded.push({ key: holder.key, reason });
  }
  return { able, excluded };
}

function problemOf(
  holder: Holder,
  policy: PlacementPolicy,
  name: string,
  rule: PlacementRule,
): string | undefined {
  const { region, tier, weight, classes, attested, capacity } = holder;
  if (weight === 0) return 'its weight is 0';
  if (capacity === 0) return 'it has no capacity left';
  if (classes.length > 0 && !classes.includes(name)) return `it takes no objects of class ${name}`;
  const isIn = (word: string, list: readonly string[]) => list.length === 0 || list.includes(word);
  if (!isIn(region, policy.regions)) return `the policy knows no region ${region}`;
  if (!isIn(tier, policy.tiers)) return `the policy knows no tier ${tier}`;
  if (!isIn(region, rule.only.regions)) return `its region is ${region}`;
  if (!isIn(tier, rule.only.tiers)) return `its tier is ${tier}`;
  const isVouched = (each: Attribute) => policy.attestors.includes(attested[each] ?? '');
  const claim = rule.attested.find((each) => !isVouched(each));
  return claim === undefined ? undefined : `its ${claim} is self-reported, not attested`;
}

/** Region and trust tier of each holder in a list, as numbers from 0, and how many of each there are. */
export interface HolderAttributes {
  readonly region: readonly number[];
  readonly tier: readonly number[];
  readonly regions: number;
  readonly tiers: number;
}

/** Numbers the regions and trust tiers of holders. */
export function attributesOf(holders: readonly Holder[]): HolderAttributes {
  const numbered = (word: (holder: Holder) => string) => {
    const numbers = new Map<string, number>();
    const of = holders.map((holder) => {
      const name = word(holder);
      const number = numbers.get(name) ?? numbers.size;
      numbers.set(name, number);
      return number;
    });
    return { of, size: numbers.size };
  };
  const [region, tier] = [numbered((each) => each.region), numbered((each) => each.tier)];
  return { region: region.of, tier: tier.of, regions: region.size, tiers: tier.size };
}

type Has = (number: number) => boolean;

/**
 * Reports whether `left` more holders can add the missing regions and tiers. One holder adds both if its region and its
 * tier are both missing.
 */
export function canReachDistinct(
  attributes: HolderAttributes,
  missing: { readonly regions: number; readonly tiers: number },
  left: number,
  hasRegion: Has,
  hasTier: Has,
): boolean {
  const both = missing.regions + missing.tiers - left;
  if (both <= 0) return true;
  if (both > Math.min(missing.regions, missing.tiers)) return false;
  const edges = new Map<number, Set<number>>();
  attributes.region.forEach((region, i) => {
    const tier = attributes.tier[i]!;
    if (hasRegion(region) || hasTier(tier)) return;
    edges.set(region, (edges.get(region) ?? new Set()).add(tier));
  });
  return matching(edges, both) >= both;
}

/** Returns the size of a maximum bipartite matching, or stops at `enough` (augmenting paths). */
function matching(edges: ReadonlyMap<number, ReadonlySet<number>>, enough: number): number {
  const taken = new Map<number, number>();
  const augment = (from: number, seen: Set<number>): boolean => {
    for (const to of edges.get(from) ?? []) {
      if (seen.has(to)) continue;
      seen.add(to);
      const before = taken.get(to);
      if (before !== undefined && !augment(before, seen)) continue;
      taken.set(to, from);
      return true;
    }
    return false;
  };
  for (const from of edges.keys()) {
    augment(from, new Set());
    if (taken.size >= enough) break;
  }
  return taken.size;
}

const hasNone: Has = () => false;

interface Shortage {
  readonly rule: string;
  readonly needed: number;
  readonly available: number;
}

/** Returns the first part of a rule that these holders cannot satisfy; undefined if they satisfy it. */
function shortageOf(attributes: HolderAttributes, rule: PlacementRule): Shortage | undefined {
  const { replicas, minDistinct } = rule;
  const count = attributes.region.length;
  const parts: readonly Shortage[] = [
    { rule: 'min_distinct.regions', needed: minDistinct.regions, available: attributes.regions },
    { rule: 'min_distinct.tiers', needed: minDistinct.tiers, available: attributes.tiers },
    { rule: 'replicas', needed: replicas, available: count },
  ];
  const short = parts.find(({ needed, available }) => needed > available);
  if (short !== undefined || canReachDistinct(attributes, minDistinct, replicas, hasNone, hasNone))
    return short;
  let needed = replicas;
  while (!canReachDistinct(attributes, minDistinct, needed, hasNone, hasNone)) needed++;
  return { rule: 'min_distinct', needed, available: replicas };
}

/**
 * Returns why these holders cannot satisfy the rule of a class, and the nearest rule that they can; undefined if they
 * satisfy it.
 */
export function unsatisfied(
  holders: readonly Holder[],
  policy: PlacementPolicy,
  name: string,
  rule: PlacementRule,
): Unsatisfied | undefined {
  const attributes = attributesOf(eligible(holders, policy, name, rule).able);
  const short = shortageOf(attributes, rule);
  if (short === undefined) return undefined;
  const at = (part: string) => `objects.${name}.${part}`;
  const relaxed = lowered(attributes, rule);
  const wider = relaxed ?? withoutDemands(holders, policy, name, rule);
  return {
    ...short,
    rule: at(short.rule),
    relaxation: wider === undefined ? [] : changes(rule, wider, at),
    relaxed,
  };
}

/**
 * Returns the rule with its numbers lowered by the smallest total that makes it satisfiable. Of equal totals, prefers
 * to keep replicas, then regions, then tiers.
 */
function lowered(attributes: HolderAttributes, rule: PlacementRule): PlacementRule | undefined {
  const { replicas, minDistinct } = rule;
  let best: PlacementRule | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (let fewer = replicas; fewer >= 1; fewer--) {
    for (let regions = Math.min(fewer, minDistinct.regions); regions >= 1; regions--) {
      for (let tiers = Math.min(fewer, minDistinct.tiers); tiers >= 1; tiers--) {
        const steps =
          replicas - fewer + (minDistinct.regions - regions) + (minDistinct.tiers - tiers);
        if (steps >= least) continue;
        const tried = { ...rule, replicas: fewer, minDistinct: { regions, tiers } };
        if (shortageOf(attributes, tried) !== undefined) continue;
        [best, least] = [tried, steps];
      }
    }
  }
  return best;
}

/**
 * For the case that no holder is eligible, so that lower numbers do not help: drops as few requirements on a holder as
 * possible, then lowers the numbers.
 */
function withoutDemands(
  holders: readonly Holder[],
  policy: PlacementPolicy,
  name: string,
  rule: PlacementRule,
): PlacementRule | undefined {
  const drops: readonly ((rule: PlacementRule) => PlacementRule)[] = [
    (each) => ({ ...each, attested: each.attested.filter((claim) => claim !== 'region') }),
    (each) => ({ ...each, attested: each.attested.filter((claim) => claim !== 'tier') }),
    (each) => ({ ...each, only: { ...each.only, tiers: [] } }),
    (each) => ({ ...each, only: { ...each.only, regions: [] } }),
  ];
  const sets = Array.from({ length: 2 ** drops.length }, (_, bits) =>
    drops.filter((_, i) => (bits >> i) & 1),
  ).sort((a, b) => a.length - b.length);
  for (const set of sets) {
    const wider = set.reduce((each, drop) => drop(each), rule);
    const satisfiable = lowered(attributesOf(eligible(holders, policy, name, wider).able), wider);
    if (satisfiable !== undefined) return satisfiable;
  }
  return undefined;
}

function changes(
  from: PlacementRule,
  to: PlacementRule,
  at: (part: string) => string,
): readonly RuleChange[] {
  const list = (words: readonly string[]) => `[${words.map((word) => `"${word}"`).join(', ')}]`;
  const parts: readonly (readonly [string, (rule: PlacementRule) => string])[] = [
    ['replicas', (rule) => String(rule.replicas)],
    ['min_distinct.regions', (rule) => String(rule.minDistinct.regions)],
    ['min_distinct.tiers', (rule) => String(rule.minDistinct.tiers)],
    ['attested', (rule) => list(rule.attested)],
    ['only.regions', (rule) => list(rule.only.regions)],
    ['only.tiers', (rule) => list(rule.only.tiers)],
  ];
  return parts
    .map(([part, of]) => ({ rule: at(part), from: of(from), to: of(to) }))
    .filter((change) => change.from !== change.to);
}
