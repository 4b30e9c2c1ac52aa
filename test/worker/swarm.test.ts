import { openZstd } from 'nostrain/python/node';
import { describe, expect, it } from 'vitest';
import { divergencesOf, type Member, roundsOf, startMember } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startMember);
const { relay, start } = stage;

const strict = (workers: number) => ({
  sync: { strategy: 'strict', workers } as const,
  waitFor: workers,
});

describe('a swarm over a faulty relay', () => {
  it('trains over payloads in zstd, which those without a decoder refuse by name', async () => {
    const { url } = relay();
    const zstd = await openZstd();
    const common = { relays: [url], profile: 'nostrain/0' as const };
    const members = [0, 1].map((index) =>
      start({ ...common, index, zstd, plan: { rounds: 2, ...strict(2) } }),
    );
    const outsider = start({
      ...common,
      index: 2,
      plan: { rounds: 1, ...strict(3), roundTimeoutMs: 3000 },
    });
    await expect(outsider.finished).rejects.toThrow();
    const states = await Promise.all(members.map(({ finished }) => finished));
    expect(states[0]!.params.values).toEqual(states[1]!.params.values);
    const [heard] = outsider.events.filter((event) => event.type === 'refused');
    expect(heard).toMatchObject({ reason: 'unknown-codec' });
  });

  it('N-07: workers that closed on different sets report it and name the first member that differs', async () => {
    const { url } = relay();
    const common = { rounds: 3, roundTimeoutMs: 1000, waitFor: 3 };
    const slow = start({
      index: 2,
      relays: [url],
      trainMs: 1600,
      plan: { ...common, sync: { strategy: 'timeout' } },
    });
    const quick = [0, 1].map((index) =>
      start({ index, relays: [url], plan: { ...common, sync: { strategy: 'timeout' } } }),
    );
    await Promise.all([slow, ...quick].map(({ finished }) => finished));
    const [first] = divergencesOf(quick[0]!);
    expect(first).toMatchObject({ round: 1, peer: slow.id, firstDiffering: slow.id });
    const refused = slow.events.filter((event) => event.type === 'refused');
    expect(refused.every(({ reason }) => reason === 'base-mismatch')).toBe(true);
  });

  it('N-08: continues if one of three relays is dead and one drops half of its events', async () => {
    const good = relay();
    const lossy = relay({ seed: 3, faults: { drop: 0.5, swallow: 0.5 } });
    const dead = relay();
    await dead.close();
    const relays = [dead.url, lossy.url, good.url];
    const members = [0, 1, 2].map((index) =>
      start({ index, relays, plan: { rounds: 4, ...strict(3) } }),
    );
    await Promise.all(members.map(({ finished }) => finished));
    for (const member of members) {
      expect(roundsOf(member).map(({ accepted }) => accepted.length)).toEqual([3, 3, 3, 3]);
      const published = member.events.filter((event) => event.type === 'published');
      expect(
        published.every(({ failed }) => failed.some(({ relay: url }) => url === dead.url)),
      ).toBe(true);
    }
    expect(new Set(members.map((member) => roundsOf(member)[3]!.digest)).size).toBe(1);
  });

  it('async steps at once and includes late contributions in a later round', async () => {
    const { url } = relay();
    const plan = { rounds: 4, sync: { strategy: 'async' } as const, waitFor: 2 };
    const quick = start({ index: 0, relays: [url], trainMs: 150, plan });
    const slow = start({ index: 1, relays: [url], trainMs: 400, plan: { ...plan, rounds: 2 } });
    await Promise.all([quick.finished, slow.finished]);
    const counted = roundsOf(quick)
      .flatMap(({ accepted }) => accepted)
      .filter((id) => id === slow.id);
    expect(roundsOf(quick)[0]!.accepted).toEqual([quick.id]);
    expect(counted.length).toBeGreaterThanOrEqual(1);
    expect(counted.length).toBeLessThanOrEqual(2);
    expect(roundsOf(quick).every(({ completionReason }) => completionReason === 'async')).toBe(
      true,
    );
  });

  it('a worker killed after any save resumes from disk to the same final bits', async () => {
    const { url } = relay();
    const rounds = 4;
    const whole = [0, 1].map((index) =>
      start({ index, relays: [url], plan: { run: 'whole', rounds, ...strict(2) } }),
    );
    const [want] = await Promise.all(whole.map(({ finished }) => finished));

    const steady = start({ index: 0, relays: [url], plan: { run: 'cut', rounds, ...strict(2) } });
    let state: Member['saved'][number] | undefined;
    for (let cut = 1; ; cut++) {
      const member = start({
        index: 1,
        relays: [url],
        plan: { run: 'cut', rounds, ...strict(2) },
        ...(state ? { start: state } : {}),
      });
      // dies right after its next save
      await stage.until(() => member.saved.length > 0);
      state = member.saved[0]!;
      member.stop();
      await member.finished.catch(() => undefined);
      if (state.round === rounds) break;
      expect(cut).toBeLessThan(20);
    }
    steady.stop(); // else it waits to hear where the killed one ended
    expect([...state.params.values]).toEqual([...want!.params.values]);
  });
});
