/**
 * Whether holders can satisfy a placement rule, and if not, what of it cannot be had and the nearest rule that can.
 * Regions and tiers are spread at once: a holder may add one of each, so how few are enough is a matching between
 * those that are still missing.
 */

import type { WorkerId } from '../../run/ids.ts';
import type {
  Attribute,
  Holder,
  PlacementPolicy,
  PlacementRule,
} from '../../run/placement-policy.ts';

export interface Exclusion {
  readonly key: WorkerId;
  readonly reason: string;
}

/** One number or list of a rule, by its path in the document. */
export interface RuleChange {
  readonly rule: string;
  readonly from: string;
  readonly to: string;
}

/** Why nothing can be placed as the rule asks. */
export interface Unsatisfied {
  /** The first part of the rule that cannot be had, by its path in the document. */
  readonly rule: string;
  readonly needed: number;
  readonly available: number;
  /** The least change with which it can be had; empty where no change is enough. */
  readonly relaxation: readonly RuleChange[];
  /** The rule with that change, where it only lowers numbers: what a policy may degrade to by itself. */
  readonly relaxed: PlacementRule | undefined;
}

/** Who may keep objects of a class, and why the others may not. */
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
  const { region, tier, weight, classes, attested, room } = holder;
  if (weight === 0) return 'its weight is 0';
  if (room === 0) return 'it has no room left';
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

/** Which region and which tier each of a list of holders is in, as numbers. */
export interface Spread {
  readonly region: readonly number[];
  readonly tier: readonly number[];
  readonly regions: number;
  readonly tiers: number;
}

export function spreadOf(holders: readonly Holder[]): Spread {
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
 * Whether `left` more holders can add so many regions and tiers to those that are there: one holder may add both,
 * where a region that is missing has a holder of a tier that is missing.
 */
export function canSpread(
  spread: Spread,
  missing: { readonly regions: number; readonly tiers: number },
  left: number,
  hasRegion: Has,
  hasTier: Has,
): boolean {
  const both = missing.regions + missing.tiers - left;
  if (both <= 0) return true;
  if (both > Math.min(missing.regions, missing.tiers)) return false;
  const edges = new Map<number, Set<number>>();
  spread.region.forEach((region, i) => {
    const tier = spread.tier[i]!;
    if (hasRegion(region) || hasTier(tier)) return;
    edges.set(region, (edges.get(region) ?? new Set()).add(tier));
  });
  return matching(edges, both) >= both;
}

/** Pairs of a bipartite graph without a common end, as many as can be, or `enough` (augmenting paths). */
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

const nobody: Has = () => false;

interface Shortage {
  readonly rule: string;
  readonly needed: number;
  readonly available: number;
}

/** The first part of a rule that these holders cannot satisfy. */
function shortageOf(spread: Spread, rule: PlacementRule): Shortage | undefined {
  const { replicas, minDistinct } = rule;
  const count = spread.region.length;
  const parts: readonly Shortage[] = [
    { rule: 'min_distinct.regions', needed: minDistinct.regions, available: spread.regions },
    { rule: 'min_distinct.tiers', needed: minDistinct.tiers, available: spread.tiers },
    { rule: 'replicas', needed: replicas, available: count },
  ];
  const short = parts.find(({ needed, available }) => needed > available);
  if (short !== undefined || canSpread(spread, minDistinct, replicas, nobody, nobody)) return short;
  let needed = replicas;
  while (!canSpread(spread, minDistinct, needed, nobody, nobody)) needed++;
  return { rule: 'min_distinct', needed, available: replicas };
}

/**
 * Why these holders cannot satisfy the rule of a class, and the nearest rule that they can; undefined where they
 * can.
 */
export function unsatisfied(
  holders: readonly Holder[],
  policy: PlacementPolicy,
  name: string,
  rule: PlacementRule,
): Unsatisfied | undefined {
  const spread = spreadOf(eligible(holders, policy, name, rule).able);
  const short = shortageOf(spread, rule);
  if (short === undefined) return undefined;
  const at = (part: string) => `objects.${name}.${part}`;
  const relaxed = lowered(spread, rule);
  const wider = relaxed ?? withoutDemands(holders, policy, name, rule);
  return {
    ...short,
    rule: at(short.rule),
    relaxation: wider === undefined ? [] : changes(rule, wider, at),
    relaxed,
  };
}

/**
 * The rule with numbers lowered by as little as can be in all; replicas are kept before regions, and those before
 * tiers.
 */
function lowered(spread: Spread, rule: PlacementRule): PlacementRule | undefined {
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
        if (shortageOf(spread, tried) !== undefined) continue;
        [best, least] = [tried, steps];
      }
    }
  }
  return best;
}

/**
 * Where numbers do not help since nobody is eligible: the rule with the fewest demands on a holder dropped, then
 * lowered.
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
    const found = lowered(spreadOf(eligible(holders, policy, name, wider).able), wider);
    if (found !== undefined) return found;
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
