/** Recovery with sampled seats: a thousand keys, 64 seats, many keys offline or hostile. */

import {
  createElection,
  drawCommittee,
  type Election,
  firstLedger,
  hasQuorum,
  refuseChange,
} from 'nostrain/consensus';
import { describe, expect, test } from 'vitest';
import { keyOf, keysUpTo } from '../../support/members.ts';
import { changeOf, joinOf, rulesOf } from '../../support/run-history.ts';
import { Dice } from './model-check/dice.ts';
import { friends, TestNetwork } from './test-network.ts';

const rules = { size: 64, quorum: 'bft', weights: 'equal', minStake: '0' } as const;
const thousand = [...keysUpTo(1000)].sort();

function electionOf(seed: number): Election {
  const about = { run: keyOf(5000), round: 7, entropy: keyOf(9000 + seed) };
  return createElection({
    weighed: thousand.map((key) => ({ key, weight: 1n })),
    ...{ size: rules.size, floorPermille: 501, rank: (_, keys) => keys },
    drawFrom: (attempt, eligible, leastQuorum) =>
      drawCommittee({
        ...{ ...about, attempt, parent: keyOf(5001), eligible, leastQuorum },
        ...{ stakes: null, rules },
      }),
  });
}

/** The first recovery epoch that the available members can end, and the committees until then. */
function epochsUntilDecided(seed: number, gone: number): number | 'blocked' {
  const there = new Dice(seed).shuffled(thousand).slice(gone);
  const election = electionOf(seed);
  expect(election.isFloor(there)).toBe(true);
  for (let epoch = 0; ; epoch++) {
    if (!election.covers(epoch, there)) return 'blocked';
    if (hasQuorum(election.draw(epoch, []), there)) return epoch;
  }
}

const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;

describe('a sampled recovery', () => {
  test('grinding: the choice of listed view-change votes does not change the seats', () => {
    for (let seed = 0; seed < 50; seed++) {
      const hostile = new Dice(seed).shuffled(thousand).slice(0, 100);
      const election = electionOf(seed);
      const honest = thousand.filter((key) => !hostile.includes(key));
      // a list of all the hostile and as few others as the floor allows: it once made the committee
      const list = [...hostile, ...honest.slice(0, 401)];
      expect(election.isFloor(list)).toBe(true);
      for (const epoch of [1, 2, 3]) {
        const committee = election.draw(epoch, list);
        expect(committee).toBe(election.draw(epoch, []));
        expect(committee.members.filter((key) => hostile.includes(key)).length).toBeLessThan(22);
        expect(hasQuorum(committee, hostile)).toBe(false);
      }
    }
  });

  test('30 % of 1,000 gone: a round ends in the second epoch or so', () => {
    const epochs = Array.from({ length: 60 }, (_, seed) => epochsUntilDecided(seed, 300));
    expect(epochs).not.toContain('blocked');
    const tries = mean(epochs.map((epoch) => Number(epoch) + 1));
    expect(tries).toBeGreaterThan(1.1);
    expect(tries).toBeLessThan(1.8);
  });

  test('45 % of 1,000 gone: a round ends after some 31 epochs', { timeout: 240_000 }, () => {
    const epochs = Array.from({ length: 60 }, (_, seed) => epochsUntilDecided(seed, 450));
    const ended = epochs.filter((epoch) => epoch !== 'blocked');
    // an epoch whose committee is nearly all gone may have decided without us
    expect(ended.length).toBeGreaterThanOrEqual(57);
    const tries = mean(ended.map((epoch) => epoch + 1));
    expect(tries).toBeGreaterThan(20);
    expect(tries).toBeLessThan(45);
  });

  test('half of 1,000 gone is below the floor', () => {
    expect(electionOf(1).isFloor(thousand.slice(500))).toBe(false);
    expect(electionOf(1).isFloor(thousand.slice(499))).toBe(true);
  });

  test('a list that a whole quorum of an earlier epoch is missing from supports no proposal', () => {
    const election = electionOf(3);
    const first = new Set(election.committee.members.slice(0, election.committee.quorum));
    const list = thousand.filter((key) => !first.has(key));
    expect(election.isFloor(list)).toBe(true);
    expect(election.covers(1, list)).toBe(false);
    const [witness] = first;
    expect(election.covers(1, [...list, witness!])).toBe(true);
  });
});

describe('founders that never start', () => {
  test.each([
    [3, 1],
    [5, 2],
    [7, 3],
  ])('of %i, %i: the others end round 0 in a recovery', (workers, gone) => {
    const floor = Math.floor(workers / 2) + 1;
    const there = Array.from({ length: workers - gone }, (_, i) => `w${i}`);
    const network = new TestNetwork(friends(workers, 'bft', floor), there);
    network.waitUntil(60_000);
    const decided = new Set(network.decided());
    expect(decided.size).toBe(1);
    expect(decided).not.toContain(undefined);
  });

  test('sampled, of nine with four seats, four: the others end round 0', () => {
    const setup = { ...friends(9, 'bft', 5), seats: 4 };
    const network = new TestNetwork(setup, ['w0', 'w2', 'w4', 'w6', 'w8']);
    network.waitUntil(400_000);
    const decided = new Set(network.decided());
    expect(decided.size).toBe(1);
    expect(decided).not.toContain(undefined);
  });

  test('outcome 0 of a recovery lists the joins of more than half of them', () => {
    const rules7 = rulesOf({ founders: [0, 1, 2, 3, 4, 5, 6].map(keyOf) });
    const first = firstLedger(rules7);
    const refused = (joins: readonly number[], isRecovered: boolean) =>
      refuseChange(rules7, first, changeOf(first, { joins: joins.map(joinOf), isRecovered }));
    expect(refused([0, 1, 2, 3], true)).toBeUndefined();
    expect(refused([0, 1, 2], true)).toBe('too-few-founders');
    // with everybody at hand a proposer may not choose so few
    expect(refused([0, 1, 2, 3], false)).toBe('too-few-founders');
    expect(refused([0, 1, 2, 3, 4], false)).toBeUndefined();
  });
});
