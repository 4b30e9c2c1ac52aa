/** Workers that send only the chunks they own: ownership is agreed, and all workers end in the same bits. */

import type { PackingName } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import {
  divergencesOf,
  keyOf,
  largeLayout,
  type Member,
  type MemberOptions,
  roundsOf,
  startMember,
} from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startMember);
const relay = (): string => stage.relay({ strict: 'strfry' }).url;
const start = (index: number, url: string, more: Partial<MemberOptions> = {}): Member => {
  const plan: MemberOptions['plan'] = {
    rounds: 4,
    owners: 1,
    residual: 'none',
    sync: { strategy: 'strict', workers: 3 },
    waitFor: 3,
    ...more.plan,
  };
  return stage.start({
    ...{ index, relays: [url], layout: largeLayout, packing: 'trellis', ...more },
    plan,
  });
};

/** The keys of the workers with the same start. */
const peers = [0, 1, 2].map(keyOf).sort();

const digests = (member: Member) => roundsOf(member).map(({ digest }) => digest);

describe('owned chunks', () => {
  it.each<[PackingName, number, number]>([
    ['trellis', 1, 1],
    ['int8', 2, 1],
    ['trellis', 0, 1],
    ['trellis', 0, 2],
    ['trellis', 2, 2],
  ])(
    '%s with %i owners, in %i fragments: the same bits on every worker, in one event each',
    async (packing, owners, fragments) => {
      const url = relay();
      const members = [0, 1, 2].map((index) =>
        start(index, url, { packing, plan: { rounds: 3, owners, fragments, peers } }),
      );
      await Promise.all(members.map(({ finished }) => finished));
      for (const member of members) {
        expect(digests(member)).toEqual(digests(members[0]!));
        expect(roundsOf(member).every(({ accepted }) => accepted.length === 3)).toBe(true);
        expect(Math.max(...roundsOf(member).map(({ eventBytes }) => eventBytes))).toBeLessThan(
          65_536,
        );
      }
      expect(members.flatMap(divergencesOf)).toEqual([]);
    },
  );

  it('a payload is a third of that of a single worker, and the whole model still moves', async () => {
    const url = relay();
    const alone = { sync: { strategy: 'strict', workers: 1 } as const, waitFor: 1 };
    const single = start(5, relay(), { plan: alone });
    const members = [0, 1, 2].map((index) => start(index, url, { plan: { peers } }));
    const [state] = await Promise.all(members.map(({ finished }) => finished));
    await single.finished;
    const bytesOf = (member: Member) => roundsOf(member)[0]!.payloadBytes;
    expect(bytesOf(members[0]!) / bytesOf(single)).toBeLessThan(0.45);
    for (let from = 0; from < largeLayout.size; from += 4096) {
      expect(state!.params.values.slice(from, from + 4096).some((value) => value !== 0)).toBe(true);
    }
  });

  it('a payload for another roster is refused for that reason', async () => {
    const url = relay();
    // the worker that ends first is ahead of the other, which must still judge its contribution
    const pair = {
      sync: { strategy: 'timeout' } as const,
      ...{ roundTimeoutMs: 1500, rounds: 1, refusesLate: false },
    };
    const lonely = start(0, url, { plan: { ...pair, waitFor: 1, peers } });
    const other = start(1, url, {
      plan: { ...pair, waitFor: 1, peers: [keyOf(0), keyOf(1)].sort() },
    });
    await Promise.all([lonely.finished, other.finished]);
    expect(roundsOf(lonely)[0]!.refused).toEqual([{ reason: 'other-roster', worker: other.id }]);
  });

  it('a worker killed after sealing continues with the same roster', async () => {
    const url = relay();
    const steady = [0, 1].map((index) => start(index, url));
    const first = start(2, url);
    await stage.until(() => first.saved[0]?.sent !== undefined);
    first.stop();
    await first.finished.catch(() => undefined);
    const again = start(2, url, { start: first.saved.find(({ sent }) => sent)! });
    await Promise.all([...steady, again].map(({ finished }) => finished));
    expect(digests(again)).toEqual(digests(steady[0]!));
  });

  it("a stranger's heartbeat that only one worker sees does not split the run", async () => {
    const url = relay();
    const mirror = relay();
    const stranger = stage.start({
      ...{ index: 9, relays: [mirror], layout: largeLayout, packing: 'trellis' },
      plan: { rounds: 1, waitFor: 9, joinTimeoutMs: 60_000 },
    });
    await stranger.wire.changed.next(AbortSignal.timeout(10_000));
    // the first of three also hears the relay on which the stranger is
    const members = [0, 1, 2].map((index) =>
      start(index, url, { relays: index === 0 ? [url, mirror] : [url] }),
    );
    await Promise.all(members.map(({ finished }) => finished));
    for (const member of members) expect(digests(member)).toEqual(digests(members[0]!));
    expect(members.flatMap((member) => roundsOf(member).flatMap(({ refused }) => refused))).toEqual(
      [],
    );
    expect(roundsOf(members[0]!).every(({ accepted }) => accepted.length === 3)).toBe(true);
  });

  it('if peers are named, strangers do not count and are refused by reason', async () => {
    const url = relay();
    const stranger = start(9, url, {
      plan: { sync: { strategy: 'timeout' }, roundTimeoutMs: 1000, waitFor: 1, rounds: 1 },
    });
    const members = [0, 1, 2].map((index) => start(index, url, { plan: { peers } }));
    await Promise.all(members.map(({ finished }) => finished));
    await expect(stranger.finished).rejects.toMatchObject({ code: 'round/began' });
    for (const member of members) {
      expect(digests(member)).toEqual(digests(members[0]!));
      expect(roundsOf(member).every(({ accepted }) => !accepted.includes(stranger.id))).toBe(true);
    }
  });

  it('a key that is not among the peers it names does not start', async () => {
    const outside = start(5, relay(), { plan: { peers } });
    await expect(outside.finished).rejects.toMatchObject({ code: 'flag/peers' });
  });
});
