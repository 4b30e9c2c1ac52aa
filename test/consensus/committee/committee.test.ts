import fc from 'fast-check';
import { cappedStakes, hasQuorum, quorumOf } from 'nostrain/consensus';
import { createRelay, type Relay } from 'nostrain/relay';
import type { Committee } from 'nostrain/run';
import { afterEach, describe, expect, it } from 'vitest';
import {
  type CommitteeInput,
  drawCommittee,
  rankOf,
  rosterWeights,
} from '../../../src/consensus/committee/committee.ts';
import { keyOf, keysUpTo } from '../../support/members.ts';
import { openReader } from '../../support/raw-reader.ts';

const input = (change: Partial<CommitteeInput> = {}): CommitteeInput => ({
  ...{ run: keyOf(1000), round: 5, attempt: 0, parent: keyOf(1001), entropy: keyOf(1002) },
  ...{ eligible: keysUpTo(20), stakes: null },
  rules: { size: 7, quorum: 'bft', weights: 'equal', minStake: '0' },
  ...change,
});
const staked = (stakes: readonly (number | bigint)[], change: Partial<CommitteeInput> = {}) =>
  input({
    eligible: keysUpTo(stakes.length),
    stakes: new Map(stakes.map((stake, i) => [keyOf(i), BigInt(stake)])),
    rules: { size: 64, quorum: 'bft', weights: 'stake', minStake: '0' },
    ...change,
  });

let open: Relay | undefined;
afterEach(async () => {
  await open?.close();
  open = undefined;
});

describe('R-02', () => {
  it('1,000 committees of rounds and recovery epochs are drawn without a frame to the relay', async () => {
    open = await createRelay();
    const reader = await openReader(open.url);
    const framesHeard = () => open!.stats().framesIn;
    const ask = async (name: string) => {
      reader.say('REQ', name, {});
      await reader.until((frame) => frame[0] === 'EOSE' && frame[1] === name);
    };
    await ask('before');
    const before = framesHeard();
    const drawn: Committee[] = [];
    for (let i = 0; i < 1000; i++) {
      drawn.push(drawCommittee(input({ round: Math.floor(i / 4), attempt: i % 4 })));
      // whatever a draw would send has left by then
      if (i % 100 === 99) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    expect(new Set(drawn.map(({ ctx }) => ctx)).size).toBe(1000);
    expect(framesHeard()).toBe(before);
    // a frame of this process would have been counted
    await ask('after');
    expect(framesHeard()).toBe(before + 1);
    await reader.close();
  });
});

describe('T-05: the committee', () => {
  it('is the same for any order of the keys', () => {
    fc.assert(
      fc.property(
        fc.shuffledSubarray([...keysUpTo(20)], { minLength: 20, maxLength: 20 }),
        (eligible) => {
          expect(drawCommittee(input({ eligible }))).toEqual(drawCommittee(input()));
        },
      ),
    );
  });

  it('changes with run, round, recovery epoch, entropy and members; the parent is bound as well', () => {
    const changes: Partial<CommitteeInput>[] = [
      {},
      { run: keyOf(7) },
      { round: 6 },
      { attempt: 1 },
      { attempt: 8 },
      { entropy: keyOf(7) },
      { eligible: keysUpTo(20).filter((key) => key !== drawCommittee(input()).members[3]) },
    ];
    const all = changes.map((change) => drawCommittee(input(change)));
    expect(new Set(all.map(({ members }) => members.join())).size).toBe(all.length);
    const moved = drawCommittee(input({ parent: keyOf(7) }));
    expect(moved.members).toEqual(all[0]!.members);
    expect(new Set([...all, moved].map(({ ctx }) => ctx)).size).toBe(all.length + 1);
  });

  it('is drawn from keys with enough stake only, never from others that train', () => {
    const rules = { size: 64, quorum: 'bft', weights: 'stake', minStake: '10' } as const;
    const { members } = drawCommittee(staked([9, 10, 11, 0, 100], { rules }));
    expect([...members].sort()).toEqual([keyOf(1), keyOf(2), keyOf(4)].sort());
    const unknown = staked([5, 5], { eligible: keysUpTo(4) });
    expect([...drawCommittee(unknown).members].sort()).toEqual([keyOf(0), keyOf(1)].sort());
  });

  it('has min(K, keys) seats and the quorum of that many', () => {
    const sizes = [0, 1, 2, 3, 4, 7, 20].map((count) => {
      const { size, quorum, members } = drawCommittee(input({ eligible: keysUpTo(count) }));
      expect(members).toHaveLength(size);
      return [size, quorum];
    });
    expect(sizes).toEqual([[0, 1], [1, 1], [2, 2], [3, 3], [4, 3], [7, 5], [7, 5]]); // biome-ignore format: pairs
    for (let count = 1; count <= 20; count++) {
      for (const quorum of ['bft', 'cft'] as const) {
        const rules = { size: 64, quorum, weights: 'equal', minStake: '0' } as const;
        const drawn = drawCommittee(input({ eligible: keysUpTo(count), rules }));
        const share = quorum === 'bft' ? 2 / 3 : 1 / 2;
        expect([drawn.size, drawn.quorum]).toEqual([count, Math.floor(share * count + 1e-9) + 1]);
      }
    }
  });

  it('its first seats are those of the whole ranking', () => {
    const ranking = rankOf(input());
    expect(new Set(ranking).size).toBe(20);
    expect(drawCommittee(input()).members).toEqual(ranking.slice(0, 7));
  });

  it('signatures of others, and second ones, do not count towards the quorum', () => {
    const committee = drawCommittee(input());
    const outsiders = keysUpTo(20).filter((key) => !committee.members.includes(key));
    const four = committee.members.slice(0, 4);
    expect(hasQuorum(committee, [...four, ...four, ...outsiders])).toBe(false);
    expect(hasQuorum(committee, committee.members.slice(2))).toBe(true);
    expect(hasQuorum(drawCommittee(input({ eligible: [] })), outsiders)).toBe(false);
  });
});

describe('the quorum in stake', () => {
  it('dust keys that hold all the seats but one decide nothing; with the big one they do', () => {
    const committee = drawCommittee(staked([1000, ...new Array<number>(20).fill(1)]));
    const dust = committee.members.filter((key) => key !== keyOf(0));
    expect(dust).toHaveLength(20);
    expect(hasQuorum(committee, dust)).toBe(false);
    expect(hasQuorum(committee, [keyOf(0), ...dust.slice(6)])).toBe(true);
    expect(hasQuorum(committee, [keyOf(0), ...dust.slice(0, 13)])).toBe(false);
  });

  it('no key counts for more than a blocking share: all others together fall just short', () => {
    const stake = fc.bigInt({ min: 1n, max: 2n ** 128n - 1n });
    fc.assert(
      fc.property(
        fc.array(fc.oneof(stake, fc.bigInt({ min: 1n, max: 9n })), {
          minLength: 1,
          maxLength: 20,
        }),
        fc.constantFrom('bft' as const, 'cft' as const),
        (stakes, rule) => {
          const seats = stakes.length;
          const quorum = quorumOf(rule, seats);
          const capped = cappedStakes(stakes, quorum);
          const total = capped.reduce((a, b) => a + b);
          const blocking = BigInt(seats - quorum + 1);
          const most = [...capped].sort((a, b) => (a < b ? 1 : -1))[0]!;
          expect(most * BigInt(seats) <= blocking * total).toBe(true);
          // one more would be too much, or nothing was cut
          const next = stakes.map((each) => (each < most + 1n ? each : most + 1n));
          const sum = next.reduce((a, b) => a + b);
          const isUncut = capped.every((each, i) => each === stakes[i]);
          expect(isUncut || (most + 1n) * BigInt(seats) > blocking * sum).toBe(true);
          capped.forEach((each, i) => {
            const isCut = stakes[i]! > most;
            expect(each).toBe(isCut ? most : stakes[i]);
          });
        },
      ),
    );
  });

  it('equal stakes need no more than the seats', () => {
    for (const count of [1, 4, 7, 16]) {
      const committee = drawCommittee(staked(new Array<number>(count).fill(5)));
      const signers = committee.members.slice(0, committee.quorum);
      expect(hasQuorum(committee, signers)).toBe(true);
      expect(hasQuorum(committee, signers.slice(1))).toBe(false);
    }
  });
});

describe('rows weigh as their keys do in the draw', () => {
  const rules = { size: 64, quorum: 'bft', weights: 'stake', minStake: '10' } as const;
  const of = (...stakes: readonly (number | bigint)[]) => {
    const { eligible, stakes: table } = staked(stakes);
    return [...eligible].map((key) => rosterWeights(eligible, table, rules).get(key) ?? 0);
  };

  it('attack: keys without stake join in any number and weigh nothing', () => {
    const weights = of(100, 50, 0, 9, 0, 0, 0, 0);
    expect(weights.slice(2)).toEqual([0, 0, 0, 0, 0, 0]);
    expect(weights.slice(0, 2).every((weight) => weight > 0)).toBe(true);
  });

  it('attack: a whale weighs at most as much as may block, in integers, whatever it holds', () => {
    const [whale, ...others] = of(10n ** 30n, 100, 100, 100, 100, 100, 100);
    const all = whale! + others.reduce((sum, each) => sum + each, 0);
    expect(whale! / all).toBeLessThanOrEqual(3 / 7 + 1e-12);
  });

  it('are shares of the largest stake', () => {
    const all = [20, 30, 25, 40, 30, 22, 28];
    of(...all).forEach((weight, i) => {
      expect(weight).toBeCloseTo(all[i]! / 40, 14);
    });
  });

  it('equal weights count keys with enough stake alike', () => {
    const { eligible, stakes } = staked([100, 50, 0]);
    const weights = rosterWeights(eligible, stakes, { ...rules, weights: 'equal' });
    expect([...weights.values()]).toEqual([1, 1]);
  });
});
