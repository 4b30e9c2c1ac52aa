/** Who may have a seat in a round, the committee of each recovery epoch, and which view-change votes are enough. */
import { createElection, drawCommittee } from 'nostrain/consensus';
import { describe, expect, it } from 'vitest';
import { type ElectionRules, rankOf, weigh } from '../../../src/consensus/committee/committee.ts';
import { keyOf, keysUpTo } from '../../support/members.ts';

/** An election among keys with these weights; records every draw. */
function electionOf(
  weights: readonly number[],
  { size = 7, floorPermille = 501 }: Partial<ElectionRules> = {},
) {
  const draws: (readonly [attempt: number, keys: number, leastQuorum: number])[] = [];
  const draw = { run: keyOf(1000), round: 5, entropy: keyOf(1002) };
  const rules = { size, quorum: 'bft', weights: 'equal', minStake: '0' } as const;
  const weighed = weights.map((weight, i) => ({ key: keyOf(i), weight: BigInt(weight) }));
  const stakes = new Map(weighed.map(({ key, weight }) => [key, weight]));
  const input = (attempt: number, eligible: readonly string[]) => ({
    ...{ ...draw, attempt, eligible, stakes, rules },
  });
  const election = createElection({
    ...{ weighed, size, floorPermille },
    rank: (attempt, keys) => rankOf(input(attempt, keys)),
    drawFrom: (attempt, keys, leastQuorum) => {
      draws.push([attempt, keys.length, leastQuorum]);
      return drawCommittee({ ...input(attempt, keys), parent: keyOf(1001), leastQuorum });
    },
  });
  return { election, draws };
}
const equal = (count: number) => new Array<number>(count).fill(1);

describe('an election with a seat for every key', () => {
  const { election, draws } = electionOf(equal(7));

  it('seats all in epoch 0, whichever keys are named, and ranks all of them as proposers', () => {
    expect(election.eligible).toEqual(keysUpTo(7));
    expect(election.isSampled).toBe(false);
    expect([...election.committee.members].sort()).toEqual([...keysUpTo(7)].sort());
    expect(election.draw(0, keysUpTo(2))).toEqual(election.committee);
    for (const attempt of [0, 1]) {
      const proposers = election.proposers(attempt);
      expect([...proposers].sort()).toEqual([...keysUpTo(7)].sort());
    }
    expect(election.proposers(1)).not.toEqual(election.proposers(0));
    expect(draws).toEqual([[0, 7, 0]]);
  });

  it('seats in a recovery the named keys alone, with a quorum of more than half of all', () => {
    const committee = election.draw(1, [...keysUpTo(4), keyOf(99)]);
    expect([...committee.members].sort()).toEqual([...keysUpTo(4)].sort());
    expect(committee).toMatchObject({ attempt: 1, size: 4, quorum: 4 });
    expect(electionOf(equal(6)).election.draw(1, keysUpTo(4)).quorum).toBe(4);
    // the spec chose that parts of the run may go on alone
    const apart = electionOf(equal(7), { floorPermille: 500 }).election;
    expect(apart.draw(1, keysUpTo(4)).quorum).toBe(3);
    expect(electionOf(equal(7), { floorPermille: 501 }).election.draw(1, keysUpTo(4)).quorum).toBe(
      4,
    );
  });

  it('needs view-change votes of no earlier quorum', () => {
    expect(election.covers(3, [])).toBe(true);
  });
});

describe('an election of fewer seats than keys', () => {
  it('draws each epoch from all keys, once', () => {
    const { election, draws } = electionOf(equal(20));
    expect(election.isSampled).toBe(true);
    expect(election.committee.members).toHaveLength(7);
    const first = election.draw(1, keysUpTo(3));
    expect(first.members).toHaveLength(7);
    expect(first.quorum).toBe(5);
    expect(election.draw(1, [])).toEqual(first);
    expect(election.proposers(1)).toEqual(first.members);
    expect(election.proposers(0)).toEqual(election.committee.members);
    expect(draws).toEqual([
      [0, 20, 0],
      [1, 20, 0],
    ]);
  });

  it('needs view-change votes from every earlier quorum', () => {
    const { election } = electionOf(equal(20));
    const without = (epoch: number, count: number) => {
      const gone = election.draw(epoch, []).members.slice(0, count);
      return keysUpTo(20).filter((key) => !gone.includes(key));
    };
    for (const epoch of [0, 1, 2]) {
      const { quorum } = election.draw(epoch, []);
      expect(election.covers(epoch + 1, without(epoch, quorum))).toBe(false);
      expect(election.covers(epoch + 1, keysUpTo(20))).toBe(true);
    }
    // the others of the committee and of epoch 0 are no quorum
    expect(election.covers(1, without(0, election.committee.quorum - 1))).toBe(true);
    expect(election.covers(0, [])).toBe(true);
    expect(electionOf(equal(20), { floorPermille: 500 }).election.covers(3, [])).toBe(true);
  });
});

describe('the floor of a recovery', () => {
  it('is the share of the keys and the share of their weight', () => {
    const { isFloor } = electionOf(equal(10), { floorPermille: 500 }).election;
    expect(isFloor(keysUpTo(5))).toBe(true);
    expect(isFloor(keysUpTo(4))).toBe(false);
    expect(isFloor([...keysUpTo(4), keyOf(3), keyOf(99)])).toBe(false);
    expect(electionOf(equal(10)).election.isFloor(keysUpTo(5))).toBe(false);
    const whale = electionOf([10, 1, 1, 1, 1]).election;
    expect(whale.isFloor(keysUpTo(3))).toBe(true);
    expect(whale.isFloor(keysUpTo(2))).toBe(false);
    expect(whale.isFloor(keysUpTo(5).slice(1))).toBe(false);
    const exact = electionOf([3, 1, 1, 1], { floorPermille: 500 }).election;
    expect(exact.isFloor(keysUpTo(4).slice(1))).toBe(true);
  });

  it('is one key at least', () => {
    const { isFloor } = electionOf(equal(3), { floorPermille: 0 }).election;
    expect(isFloor([keyOf(0)])).toBe(true);
    expect(isFloor([])).toBe(false);
    expect(isFloor([keyOf(99)])).toBe(false);
  });
});

it('stakes decide who is weighed, and by how much', () => {
  const stakes = new Map([0, 1, 2, 3].map((i) => [keyOf(i), BigInt(10 * i)]));
  const weights = (minStake: string, by: 'stake' | 'equal', eligible = keysUpTo(5)) =>
    weigh({
      eligible,
      stakes,
      rules: { size: 7, quorum: 'bft', weights: by, minStake },
    }).map(({ key, weight }) => [eligible.indexOf(key), Number(weight)]);
  expect(weights('0', 'stake')).toEqual([
    [1, 10],
    [2, 20],
    [3, 30],
  ]);
  expect(weights('20', 'stake')).toEqual([
    [2, 20],
    [3, 30],
  ]);
  expect(weights('21', 'equal')).toEqual([[3, 1]]);
  expect(weights('0', 'equal')).toEqual([
    [1, 1],
    [2, 1],
    [3, 1],
  ]);
});
