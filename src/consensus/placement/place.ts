/**
 * Decides which holders keep which object: every holder draws a straw whose length depends on the object, its key and
 * its weight (CRUSH straw2; Weil et al. 2006, and weighted rendezvous hashing), and the longest straws that satisfy the
 * rule of the object's class win. A pure function of policy, holders and object, in integers, so that all machines
 * agree without a message; if a holder leaves, little moves except its own objects.
 */
import { bytes32, taggedHash, u32 } from '../../base/hash.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { Holder, PlacementPolicy, PlacementRule } from '../../run/placement-policy.ts';
import {
  bestOf,
  createCandidates,
  DRAWS_PER_SEED,
  drawLots,
  type Lots,
} from '../committee/draw.ts';
import {
  attributesOf,
  canReachDistinct,
  type Exclusion,
  eligible,
  type HolderAttributes,
  type Unsatisfied,
  unsatisfied,
} from './satisfy.ts';

/** Objects that are placed together, such as the chunks of a checkpoint. */
export interface Objects {
  /** 32 bytes in hex that identify the whole list. */
  readonly id: Digest;
  readonly count: number;
  /** Class of the objects in the policy. */
  readonly name: string;
}

/** The holders of each object of a list, and the rule that chose them. */
export interface PlacedObjects {
  /** The rule that was applied: the policy's own, or the nearest one that can be satisfied, with an alert. */
  readonly rule: PlacementRule;
  /** Set if the policy's own rule cannot be satisfied and the policy says `degrade-with-alert`. */
  readonly alert: Unsatisfied | undefined;
  /** Holders of each object, the longest straw first. */
  readonly holders: readonly (readonly WorkerId[])[];
  readonly excluded: readonly Exclusion[];
}

/** The result of `place`: the holders, or why the policy cannot be satisfied. */
export type Placement =
  | ({ readonly ok: true } & PlacedObjects)
  | {
      readonly ok: false;
      readonly unsatisfied: Unsatisfied;
      readonly excluded: readonly Exclusion[];
    };

/** Extra straws drawn up front, so that most objects need no second draw. */
const SPARE = 4;

/** Returns the holders of each object, or why there are too few. Throws a RangeError if the policy lacks the class. */
export function place(
  policy: PlacementPolicy,
  holders: readonly Holder[],
  objects: Objects,
): Placement {
  const { name, count } = objects;
  const requested = Object.hasOwn(policy.objects, name) ? policy.objects[name] : undefined;
  if (requested === undefined) throw new RangeError(`the policy has no class ${name}`);
  const { able, excluded } = eligible(holders, policy, name, requested);
  const alert = unsatisfied(holders, policy, name, requested);
  const isDegraded = policy.onUnsatisfiable === 'degrade-with-alert';
  const rule = alert === undefined ? requested : isDegraded ? alert.relaxed : undefined;
  if (rule === undefined) return { ok: false, unsatisfied: alert!, excluded };
  const draw = createDraw(objects.id, able);
  const attributes = attributesOf(able);
  const limits = limitsOf(able, rule.replicas, count, policy.maxOverShare);
  const loads = able.map(() => 0);
  const rankOf: RankOf = (at) => {
    if (loads[at]! >= (able[at]!.capacity ?? count)) return 2;
    return loads[at]! < limits[at]! ? 0 : 1;
  };
  const placed: (readonly WorkerId[])[] = [];
  for (let i = 0; i < count; i++) {
    const chosen = choose(draw(i), attributes, rule, rankOf);
    for (const at of chosen) loads[at]!++;
    placed.push(chosen.map((at) => able[at]!.key));
  }
  return { ok: true, rule, alert, holders: placed, excluded };
}

/** Returns the indices of the `count` holders with the longest straws, longest first. */
type Order = (count: number) => readonly number[];

/** Returns the draw of each object. Eight objects share one hash per holder; each starts at a different word of it. */
function createDraw(id: Digest, able: readonly Holder[]): (object: number) => Order {
  const candidates = createCandidates(
    able.map(({ key, weight }) => ({ key, weight: BigInt(weight) })),
  );
  const indices = new Map(able.map(({ key }, i) => [key, i]));
  let lots: Lots | undefined;
  let drawn = -1;
  return (object) => {
    const group = Math.floor(object / DRAWS_PER_SEED);
    if (lots === undefined || drawn !== group) {
      lots = drawLots(candidates, taggedHash('nostrain/placement/1', bytes32(id), u32(group)));
      drawn = group;
    }
    const current = lots;
    return (count) =>
      bestOf(current, object % DRAWS_PER_SEED, count).map(({ key }) => indices.get(key)!);
  };
}

/** Returns 0 for a holder below its share and capacity, 1 for one below its capacity only, else 2. */
type RankOf = (at: number) => 0 | 1 | 2;

/**
 * Returns the holders of one object: takes holders in the order of their straws, skipping those that would leave too
 * few replicas for the regions and tiers still missing. Holders that have their share come after all others, and those
 * without capacity last. A skipped holder need not be tried again: with every choice the remaining options only shrink.
 */
function choose(
  order: Order,
  attributes: HolderAttributes,
  rule: PlacementRule,
  rankOf: RankOf,
): readonly number[] {
  const all = attributes.region.length;
  for (let count = Math.min(all, rule.replicas + SPARE); ; count = Math.min(all, 2 * count)) {
    const straws = order(count);
    const ranks = count === all ? [0, 1, 2] : [0];
    const ranked = ranks.flatMap((rank) => straws.filter((at) => rankOf(at) === rank));
    const chosen = fill(ranked, attributes, rule);
    if (count === all || chosen.length === rule.replicas) return chosen;
  }
}

function fill(
  straws: readonly number[],
  attributes: HolderAttributes,
  { replicas, minDistinct }: PlacementRule,
): readonly number[] {
  const chosen: number[] = [];
  const regions = new Set<number>();
  const tiers = new Set<number>();
  for (const at of straws) {
    if (chosen.length === replicas) break;
    const [region, tier] = [attributes.region[at]!, attributes.tier[at]!];
    const missing = {
      regions: Math.max(0, minDistinct.regions - new Set(regions).add(region).size),
      tiers: Math.max(0, minDistinct.tiers - new Set(tiers).add(tier).size),
    };
    const left = replicas - chosen.length - 1;
    const hasRegion = (each: number) => each === region || regions.has(each);
    const hasTier = (each: number) => each === tier || tiers.has(each);
    if (!canReachDistinct(attributes, missing, left, hasRegion, hasTier)) continue;
    chosen.push(at);
    regions.add(region);
    tiers.add(tier);
  }
  return chosen;
}

/** Returns the share of each holder by weight plus a margin of `overPercent` percent, rounded up, at least one. */
function limitsOf(
  able: readonly Holder[],
  replicas: number,
  count: number,
  overPercent: number,
): number[] {
  return sharesOf(able, replicas, count).map(({ seats, weight, of }) => {
    const most =
      (BigInt(seats) * BigInt(weight) * BigInt(100 + overPercent) + BigInt(of) * 100n - 1n) /
      (BigInt(of) * 100n);
    return Math.max(1, Number(most));
  });
}

interface Share {
  /** The share is seats × weight / of. */
  readonly seats: number;
  readonly weight: number;
  readonly of: number;
}

/**
 * Divides `replicas` × `count` seats by weight. A share is at most `count`; what heavy holders cannot take is divided
 * among the others.
 */
function sharesOf(
  able: readonly { readonly weight: number }[],
  replicas: number,
  count: number,
): readonly Share[] {
  const isWhole = able.map(() => false);
  let seats = replicas * count;
  let of = able.reduce((sum, { weight }) => sum + weight, 0);
  for (;;) {
    const next = able.findIndex(
      ({ weight }, i) => !isWhole[i] && BigInt(seats) * BigInt(weight) > BigInt(count) * BigInt(of),
    );
    if (next < 0) break;
    isWhole[next] = true;
    seats -= count;
    of -= able[next]!.weight;
  }
  return able.map(({ weight }, i) =>
    isWhole[i] ? { seats: count, weight: 1, of: 1 } : { seats, weight, of },
  );
}
