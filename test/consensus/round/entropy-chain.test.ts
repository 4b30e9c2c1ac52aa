/** The entropy of future rounds: no key can predict or choose it. */

import {
  drawCommittee,
  liveOf,
  nextLedger,
  refuseChange,
  revealOf,
  seatable,
} from 'nostrain/consensus';
import type { Ledger } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { keyOf, keysUpTo } from '../../support/members.ts';
import { chainOf, changeOf, joinOf, play, rulesOf } from '../../support/run-history.ts';

const rules = rulesOf();
const proposedBy = (index: number, round: number) => ({
  proposer: keyOf(index),
  reveal: revealOf(chainOf(index), round),
});
const FINAL = {};

describe('C-01: the shared seed', () => {
  it('differs from round to round', () => {
    const outcomes = [FINAL, proposedBy(2, 1), proposedBy(1, 2), proposedBy(3, 3)];
    const seeds = [1, 2, 3, 4].map((count) => play(rules, ...outcomes.slice(0, count)).entropy);
    expect(seeds[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(new Set(seeds).size).toBe(4);
  });

  it('takes the one value its proposer committed to by its join, and differs with the proposer', () => {
    const ledger = play(rules, FINAL, FINAL);
    const seeds = [0, 1, 2, 3].map((index) => {
      const change = changeOf(ledger, proposedBy(index, 2));
      expect(refuseChange(rules, ledger, change)).toBeUndefined();
      // neither the link of the round before or after, nor one of another key, nor none
      const links = [1, 3].map((round) => revealOf(chainOf(index), round));
      for (const reveal of [...links, revealOf(chainOf(9), 2), '']) {
        expect(refuseChange(rules, ledger, { ...change, reveal })).toBe('wrong-reveal');
      }
      return nextLedger(rules, ledger, change).entropy;
    });
    expect(new Set(seeds).size).toBe(4);
  });

  it('does not depend on what a proposer is free to choose: result, lists, snapshot', () => {
    const ledger = play(rules, FINAL, FINAL);
    const choices = [
      {},
      { result: 'void', seen: [], accepted: [] } as const,
      { accepted: [keyOf(1)], seen: [keyOf(1)] },
      { joins: [joinOf(9)], leaves: [keyOf(2)], faults: [keyOf(3)] },
    ];
    const seeds = choices.map(
      (choice) => nextLedger(rules, ledger, changeOf(ledger, choice)).entropy,
    );
    expect(new Set(seeds).size).toBe(1);
  });

  it('a key without a committed chain has no seat, so no reveal is awaited', () => {
    const ledger = play(rules, { joins: [0, 1, 2].map(joinOf) });
    const eligible = seatable(ledger, liveOf(rules, ledger));
    expect(eligible).not.toContain(keyOf(3));
    const change = changeOf(ledger, proposedBy(3, 1));
    expect(refuseChange(rules, ledger, change)).toBe('wrong-reveal');
  });
});

describe('R-07: grinding keys', () => {
  const seats = { size: 3, quorum: 'bft', weights: 'equal', minStake: '0' } as const;
  const honest = keysUpTo(20);
  const committee = (ledger: Ledger, key: string, at = ledger) =>
    drawCommittee({
      ...{ run: rules.run, round: at.round, attempt: 0, parent: keyOf(1) },
      entropy: ledger.entropy!,
      ...{ eligible: [...honest, key], stakes: null, rules: seats },
    });

  it('a key made to win by what is known when it joins wins no more often than any other', () => {
    const ledger = play(rules, FINAL, FINAL);
    // of 1,000 keys, those with a seat in this round, and in the next one if the entropy did not change
    const ground = Array.from({ length: 1000 }, (_, i) => keyOf(10_000 + i)).filter((key) =>
      [0, 1].every((ahead) =>
        committee(ledger, key, { ...ledger, round: ledger.round + ahead }).members.includes(key),
      ),
    );
    expect(ground.length).toBeGreaterThan(7);
    let won = 0;
    let drawn = 0;
    for (const key of ground.slice(0, 8)) {
      // it joins now; the two rounds until it is eligible have proposers whose reveals it does not know
      for (const [first, second] of pairs()) {
        const joined = nextLedger(rules, ledger, changeOf(ledger, proposedBy(first, 2)));
        const later = nextLedger(rules, joined, changeOf(joined, proposedBy(second, 3)));
        for (const attempt of [0, 1, 2, 3]) {
          drawn++;
          const draw = { run: rules.run, round: later.round, attempt, parent: keyOf(1) };
          const eligible = [...honest, key];
          const { members } = drawCommittee({
            ...{ ...draw, entropy: later.entropy!, eligible, stakes: null, rules: seats },
          });
          if (members.includes(key)) won++;
        }
      }
    }
    const share = 3 / 21;
    const sigma = Math.sqrt(drawn * share * (1 - share));
    expect(Math.abs(won - drawn * share)).toBeLessThan(3 * sigma);
  });
});

/** The keys that may propose in the two rounds in between. */
function pairs(): readonly (readonly [number, number])[] {
  return [0, 1, 2, 3].flatMap((first) => [0, 1, 2, 3].map((second) => [first, second] as const));
}
