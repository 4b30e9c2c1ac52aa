/** The draw of the contributors of a round. */

import { firstLedger, type MembershipRules } from 'nostrain/consensus';
import type { Ledger } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { drawnOf, seenUndrawn } from '../../../src/consensus/committee/draw.ts';

const run = 'a'.repeat(64);
const keys = Array.from({ length: 40 }, (_, i) => i.toString(16).padStart(64, '0'));

const rules: MembershipRules = {
  ...{ run, founders: keys, liveRounds: 3, absentRounds: 10, joinsPerRound: 0, contributors: 8 },
  ...{ late: 'discard', committee: { quorum: 'bft' }, beacon: { kind: 'none' } },
  ...{ stake: { source: 'none' }, admission: { kind: 'open' } },
};

const ledgerOf = (round: number): Ledger => ({
  ...firstLedger(rules),
  round,
  entropy: round.toString(16).padStart(64, '7'),
});

describe('the sample of a round', () => {
  it('is the whole roster if the spec sets no limit or the roster is small', () => {
    expect(drawnOf({ run }, ledgerOf(1))).toBeNull();
    expect(drawnOf({ run, contributors: 0 }, ledgerOf(1))).toBeNull();
    expect(drawnOf({ run, contributors: 40 }, ledgerOf(1))).toBeNull();
  });

  it('has the required size, and is the same for all workers with the ledger', () => {
    const drawn = drawnOf(rules, ledgerOf(1))!;
    expect(drawn.size).toBe(8);
    expect([...drawn].every((key) => keys.includes(key))).toBe(true);
    expect(drawnOf(rules, ledgerOf(1))).toEqual(drawn);
  });

  it('differs in each round, and draws every member in time', () => {
    const rounds = Array.from({ length: 60 }, (_, round) => drawnOf(rules, ledgerOf(round))!);
    expect([...rounds[1]!]).not.toEqual([...rounds[2]!]);
    const seatCounts = keys.map((key) => rounds.filter((drawn) => drawn.has(key)).length);
    // 12 each on average
    expect(Math.min(...seatCounts)).toBeGreaterThan(2);
    expect(Math.max(...seatCounts)).toBeLessThan(26);
  });

  it('needs the randomness of the round', () => {
    expect(() => drawnOf(rules, { ...ledgerOf(1), entropy: null })).toThrow('no entropy');
  });
});

describe('a final round that a member was not drawn for', () => {
  it('leaves as many of the last ones missed as before', () => {
    // seen in the last one: still seen in the last one
    expect(seenUndrawn({ lastSeen: 6, joined: 0 }, [3, 5, 6, 7])).toBe(7);
    // missed two, and misses two
    expect(seenUndrawn({ lastSeen: 3, joined: 0 }, [3, 5, 6, 7])).toBe(5);
    // never seen since it came
    expect(seenUndrawn({ lastSeen: -1, joined: 6 }, [3, 5, 6, 7])).toBe(6);
  });
});
