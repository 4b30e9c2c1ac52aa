import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { sha256, toHex, utf8 } from 'nostrain/base';
import {
  bestOf,
  bitsOf,
  createCandidates,
  DRAWS_PER_SEED,
  drawLots,
  type Weighted,
} from 'nostrain/consensus';
import { describe, expect, it } from 'vitest';
import { keyOf, membersOf, seedOf } from '../../support/members.ts';

const draw = (members: readonly Weighted[], seed: Uint8Array, drawIndex: number, count: number) =>
  bestOf(drawLots(createCandidates(members), seed), drawIndex, count).map(({ key }) => key);

/** The rule as the page states it: every score exactly, with Node's own hash and no shortcut. */
function ranked(
  members: readonly Weighted[],
  seed: Uint8Array,
  drawIndex: number,
): readonly string[] {
  const tag = Buffer.alloc(32);
  tag.write('nostrain/draw/1');
  const scored = members.map(({ key, weight }) => {
    const sum = createHash('sha256').update(tag).update(seed).update(Buffer.from(key, 'hex'));
    const hex = sum.digest('hex');
    const rotated = hex.slice(8 * drawIndex) + hex.slice(0, 8 * drawIndex);
    return { key, weight, bits: bitsOf(BigInt(`0x${rotated}`) | 1n) };
  });
  scored.sort((a, b) => {
    const difference = a.bits * b.weight - b.bits * a.weight;
    return difference === 0n ? (a.key < b.key ? -1 : 1) : difference < 0n ? -1 : 1;
  });
  return scored.map(({ key }) => key);
}

const weight = fc.oneof(
  fc.bigInt({ min: 1n, max: 4n }),
  fc.bigInt({ min: 1n, max: 2n ** 128n - 1n }),
  fc.integer({ min: 0, max: 127 }).map((bits) => 2n ** BigInt(bits)),
);
const drawIndices = fc.integer({ min: 0, max: DRAWS_PER_SEED - 1 });

/** Σ (seen - expected)² / expected. */
const chiSquare = (seen: readonly number[], expected: readonly number[]): number =>
  seen.reduce((sum, count, i) => sum + (count - expected[i]!) ** 2 / expected[i]!, 0);
/** p = 0.01 at 99 degrees of freedom. */
const LIMIT_99 = 134.64;

/** Counts how often each member is among the first `count`, over many draws. */
function counted(members: readonly Weighted[], draws: number, count: number): number[] {
  const pool = createCandidates(members);
  const place = new Map(members.map(({ key }, i) => [key, i]));
  const seen = members.map(() => 0);
  for (let from = 0; from < draws; from += DRAWS_PER_SEED) {
    const lots = drawLots(pool, seedOf(from));
    for (let drawIndex = 0; drawIndex < Math.min(DRAWS_PER_SEED, draws - from); drawIndex++) {
      for (const { key } of bestOf(lots, drawIndex, count)) seen[place.get(key)!]!++;
    }
  }
  return seen;
}

/**
 * Chance to be among the first K of an exponential race, to 10^-9: over x = e^-t, a member's own arrival times the chance that
 * fewer than K others (each there with chance 1 - x^w) came before.
 */
function inclusion(weights: readonly number[], index: number, count: number): number {
  const own = weights[index]!;
  const others = weights.filter((_, i) => i !== index);
  const steps = 4000;
  let sum = 0;
  for (let step = 0; step <= steps; step++) {
    const x = step / steps;
    let before = [1, ...new Array<number>(count - 1).fill(0)];
    for (const each of others) {
      const there = 1 - x ** each;
      before = before.map((p, i) => p * (1 - there) + (i === 0 ? 0 : before[i - 1]! * there));
    }
    const value = own * x ** (own - 1) * before.reduce((a, b) => a + b);
    sum += value * (step === 0 || step === steps ? 1 : step % 2 === 1 ? 4 : 2);
  }
  return sum / (3 * steps);
}

describe('a draw', () => {
  it('gives what computing every score exactly gives, whatever the weights', () => {
    fc.assert(
      fc.property(
        fc.array(weight, { minLength: 1, maxLength: 40 }),
        fc.nat(),
        drawIndices,
        fc.integer({ min: 0, max: 45 }),
        (weights, number, drawIndex, count) => {
          const members = membersOf(weights);
          const expected = ranked(members, seedOf(number), drawIndex);
          expect(draw(members, seedOf(number), drawIndex, count)).toEqual(expected.slice(0, count));
        },
      ),
    );
  });

  it('does not depend on the order of the members, and one draw is the beginning of a longer one', () => {
    fc.assert(
      fc.property(
        fc.array(weight, { minLength: 1, maxLength: 30 }).chain((weights) => {
          const members = membersOf(weights);
          return fc.tuple(
            fc.constant(members),
            fc.shuffledSubarray([...members], { minLength: members.length }),
          );
        }),
        drawIndices,
        ([members, shuffled], drawIndex) => {
          const all = draw(members, seedOf(1), drawIndex, members.length);
          expect(draw(shuffled, seedOf(1), drawIndex, members.length)).toEqual(all);
          expect(draw(shuffled, seedOf(1), drawIndex, 3)).toEqual(all.slice(0, 3));
        },
      ),
    );
  });

  it('finds the winners of many as it finds those of few', () => {
    const members = membersOf(Array.from({ length: 3000 }, (_, i) => 1 + ((i * 7919) % 1000)));
    for (const drawIndex of [0, 5]) {
      expect(draw(members, seedOf(2), drawIndex, 16)).toEqual(
        ranked(members, seedOf(2), drawIndex).slice(0, 16),
      );
    }
  });

  it('differs for each seed and each draw', () => {
    const members = membersOf(new Array(64).fill(1));
    const orders = [0, 1, 2].flatMap((seed) =>
      Array.from({ length: DRAWS_PER_SEED }, (_, drawIndex) =>
        draw(members, seedOf(seed), drawIndex, 64).join(),
      ),
    );
    expect(new Set(orders).size).toBe(3 * DRAWS_PER_SEED);
  });

  it('refuses what is no key, no weight, no seed, no turn, and a key twice', () => {
    const key = keyOf(1);
    const bad = [
      key.toUpperCase(),
      key.slice(1),
      `${key}0`,
      `${key.slice(1)}é`,
      `${key.slice(1)}g`,
    ];
    for (const each of bad)
      expect(() => createCandidates([{ key: each, weight: 1n }])).toThrow(RangeError);
    for (const each of [0n, -1n, 2n ** 128n]) {
      expect(() => createCandidates([{ key, weight: each }])).toThrow(RangeError);
    }
    expect(() => createCandidates([{ key, weight: 1n }, { key, weight: 2n }])).toThrow(RangeError); // biome-ignore format: a pair
    for (const length of [31, 96])
      expect(() => drawLots(createCandidates([]), new Uint8Array(length))).toThrow(RangeError);
    for (const drawIndex of [-1, 8])
      expect(() => draw([], seedOf(0), drawIndex, 1)).toThrow(RangeError);
    expect(draw([], seedOf(0), 0, 5)).toEqual([]);
  });
});

describe('the logarithm', () => {
  it('is exact for powers of two, falls with the lot, and is never zero', () => {
    for (const power of [0, 1, 64, 127, 128, 255]) {
      expect(bitsOf(2n ** BigInt(power))).toBe(BigInt(256 - power) << 64n);
    }
    expect(bitsOf(2n ** 256n - 1n)).toBeGreaterThan(0n);
    const lots = fc.bigInt({ min: 1n, max: 2n ** 256n - 1n });
    fc.assert(
      fc.property(lots, lots, (a, b) => {
        expect(bitsOf(a) >= bitsOf(b)).toBe(a <= b || bitsOf(a) === bitsOf(b));
        expect(Number(bitsOf(a)) / 2 ** 64).toBeCloseTo(256 - Math.log2(Number(a)), 9);
      }),
    );
  });
});

describe('R-04: proportionality', () => {
  const hundred = Array.from({ length: 100 }, (_, i) => i + 1);
  const draws = 200_000;
  const shares = hundred.map((each) => (draws * each) / 5050);

  it('200,000 draws of one among weights 1 to 100 fit their shares (chi-square, p > 0.01)', {
    timeout: 120_000,
  }, () => {
    const seen = counted(membersOf(hundred), draws, 1);
    expect(seen.reduce((a, b) => a + b)).toBe(draws);
    expect(chiSquare(seen, shares)).toBeLessThan(LIMIT_99);
  });

  it('control: the highest SHA-256(id, draw, stake) is not proportional, by the same test', () => {
    const few = 1500;
    const members = membersOf(hundred);
    const seen = members.map(() => 0);
    for (let i = 0; i < few; i++) {
      const hashes = members.map(({ key, weight: stake }) =>
        createHash('sha256').update(key).update(seedOf(i)).update(String(stake)).digest('hex'),
      );
      seen[hashes.indexOf([...hashes].sort().at(-1)!)]!++;
    }
    const scaled = shares.map((each) => (each * few) / draws);
    expect(chiSquare(seen, scaled)).toBeGreaterThan(10 * LIMIT_99);
  });

  it('eight seats: inclusion within 2 % of exact successive sampling', () => {
    const weights = [2, 3, 4, 5].flatMap((each) => new Array<number>(5).fill(each));
    const rounds = 16_000;
    const seen = counted(membersOf(weights), rounds, 8);
    for (const each of [2, 3, 4, 5]) {
      const group = weights.flatMap((w, i) => (w === each ? [seen[i]!] : []));
      const mean = group.reduce((a, b) => a + b) / group.length / rounds;
      const exact = inclusion(weights, weights.indexOf(each), 8);
      expect(Math.abs(mean / exact - 1)).toBeLessThan(0.02);
    }
    // equal weights have equal chances
    const chances = new Map(weights.map((each, i) => [each, i]));
    for (const [each, i] of chances) chances.set(each, inclusion(weights, i, 8));
    const all = weights.map((each) => chances.get(each)!);
    expect(all.reduce((a, b) => a + b)).toBeCloseTo(8, 6);
  });
});

describe('R-05: minimal disruption', () => {
  const members = membersOf(Array.from({ length: 60 }, (_, i) => 1 + (i % 7)));
  const pool = createCandidates(members);
  const draws = Array.from({ length: 100 }, (_, i) => i);
  const assign = (from: readonly Weighted[], count: number): readonly (readonly string[])[] => {
    const those = from === members ? pool : createCandidates(from);
    return draws.flatMap((i) => {
      const lots = drawLots(those, seedOf(i));
      return Array.from({ length: DRAWS_PER_SEED }, (_, drawIndex) =>
        bestOf(lots, drawIndex, count).map(({ key }) => key),
      );
    });
  };

  it('a leaver changes only the assignments it was in, and there one comes up', () => {
    const leaver = members[13]!.key;
    const before = assign(members, 8);
    const after = assign(
      members.filter(({ key }) => key !== leaver),
      8,
    );
    const held = before.filter((keys) => keys.includes(leaver)).length;
    expect(held).toBeGreaterThan(50);
    before.forEach((keys, i) => {
      const stayed = keys.filter((key) => key !== leaver);
      expect(after[i]!.slice(0, stayed.length)).toEqual(stayed);
      if (stayed.length === keys.length) expect(after[i]).toEqual(keys);
    });
  });

  it('a newcomer of equal weight takes K / (N + 1) of the seats, give or take 3 σ', () => {
    const equal = membersOf(new Array(60).fill(1));
    const [count, total] = [8, draws.length * DRAWS_PER_SEED];
    const before = assign(equal.slice(0, 59), count);
    const after = assign(equal, count);
    const changed = before.filter((keys, i) => keys.join() !== after[i]!.join()).length;
    const chance = count / 60;
    const sigma = Math.sqrt(total * chance * (1 - chance));
    expect(Math.abs(changed - total * chance)).toBeLessThan(3 * sigma);
    before.forEach((keys, i) => {
      const stayed = after[i]!.filter((key) => key !== equal[59]!.key);
      expect(keys.slice(0, stayed.length)).toEqual(stayed);
    });
  });

  it('more weight for one key only moves what that key gains', () => {
    const heavier = members.map((each, i) => (i === 5 ? { ...each, weight: 50n } : each));
    const [before, after] = [assign(members, 4), assign(heavier, 4)];
    before.forEach((keys, i) => {
      const others = after[i]!.filter((key) => key !== members[5]!.key);
      expect(keys.filter((key) => key !== members[5]!.key).slice(0, others.length)).toEqual(others);
    });
  });
});

it('hex keys are read as bytes are', () => {
  const key = toHex(sha256(utf8('a key')));
  const [only] = createCandidates([{ key, weight: 1n }]).keys;
  expect(only).toBe(Number.parseInt(key.slice(0, 8), 16));
});
