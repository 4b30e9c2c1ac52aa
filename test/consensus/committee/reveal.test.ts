import {
  createRevealChain,
  firstRandomness,
  isReveal,
  nextRandomness,
  revealOf,
  tipOf,
} from 'nostrain/consensus';
import { describe, expect, it } from 'vitest';
import { keyOf, seedOf } from '../../support/members.ts';

const run = keyOf(1);
const rounds = 20;
const chain = createRevealChain(seedOf(1), run, rounds);
const tip = tipOf(chain);

describe('a reveal chain', () => {
  it('has one value for each round, and it counts in that round only', () => {
    const reveals = Array.from({ length: rounds }, (_, round) => revealOf(chain, round));
    expect(reveals[0]).toBe('');
    expect(new Set(reveals).size).toBe(rounds);
    reveals.forEach((reveal, made) => {
      for (let round = 0; round < rounds; round++) {
        expect(isReveal(tip, round, reveal)).toBe(round === made);
      }
    });
  });

  it('is another one for another secret and for another run', () => {
    const tips = [
      tip,
      tipOf(createRevealChain(seedOf(2), run, rounds)),
      tipOf(createRevealChain(seedOf(1), keyOf(2), rounds)),
    ];
    expect(new Set(tips).size).toBe(3);
  });

  it('without a certified tip there is no reveal after round 0', () => {
    expect(isReveal(null, 0, '')).toBe(true);
    expect(isReveal(null, 3, '')).toBe(false);
    expect(isReveal(tip, 3, '')).toBe(false);
    expect(isReveal(null, 3, revealOf(chain, 3))).toBe(false);
    expect(isReveal(tip, 0, revealOf(chain, 1))).toBe(false);
  });

  it('ends with the run', () => {
    for (const round of [-1, rounds]) expect(() => revealOf(chain, round)).toThrow(RangeError);
    expect(() => createRevealChain(new Uint8Array(31), run, rounds)).toThrow(RangeError);
  });
});

describe('entropy', () => {
  const entropy = firstRandomness(run);
  const mixture = { run, round: 1, entropy, reveal: keyOf(5), beacon: '' as const };

  it('changes with everything that is mixed in', () => {
    const all = [
      mixture,
      { ...mixture, run: keyOf(2) },
      { ...mixture, round: 2 },
      { ...mixture, entropy: keyOf(9) },
      { ...mixture, reveal: keyOf(6) },
      { ...mixture, reveal: '' },
      { ...mixture, beacon: keyOf(5) },
      { ...mixture, reveal: '', beacon: keyOf(5) },
    ];
    expect(new Set(all.map(nextRandomness)).size).toBe(all.length);
  });

  it('refuses what is not 32 bytes', () => {
    expect(() => nextRandomness({ ...mixture, reveal: 'abcd' })).toThrow(RangeError);
    expect(() => firstRandomness('abcd')).toThrow(RangeError);
  });
});
