/**
 * Workers with different settings, or that come too late: told at once, by flag and value, or refused within seconds.
 */

import { combineSettings, type PartialSettings, presets, settingsFingerprint } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { shortName } from '../../src/run/worker-names.ts';
import { keyOf, type Member, type MemberOptions, roundsOf, startMember } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startMember);
const shared = { run: 'winter', model: 'linear', relay: [] } as const;
const fingerprintWith = (asked: PartialSettings = {}) =>
  settingsFingerprint(combineSettings(presets.linear, { ...shared, ...asked }));
const notices = ({ events }: Member): string =>
  events.flatMap((event) => (event.type === 'notice' ? event.message : [])).join('\n');
const name = (index: number): string => shortName(keyOf(index));
const strict = (workers: number) => ({ strategy: 'strict', workers }) as const;

describe('workers with different settings', () => {
  it('another seed: both report the flag and both values, and neither counts the other', async () => {
    const relay = stage.relay();
    const start = (index: number, asked: PartialSettings) =>
      stage.start({
        index,
        relays: [relay.url],
        plan: {
          fingerprint: fingerprintWith(asked),
          joinTimeoutMs: 60_000,
          sync: strict(2),
          waitFor: 2,
        },
      });
    const [one, other] = [start(0, {}), start(1, { seed: 2 })];
    await stage.until(() => notices(one) !== '' && notices(other) !== '');
    expect(notices(one)).toBe(
      `Worker ${name(1)} started with another seed (2, yours is 1). Neither counts the other; stop one and use the same --seed.`,
    );
    expect(notices(other)).toContain(
      `Worker ${name(0)} started with another seed (1, yours is 2).`,
    );
    const types = one.events.map(({ type }) => type);
    expect(types).not.toContain('published');
    expect(types).not.toContain('divergence');
    const third = start(2, {});
    expect((await one.finished).cohort).toEqual((await third.finished).cohort);
  });

  it('the same shard twice', async () => {
    const relay = stage.relay();
    const shard = { index: 2, count: 3 };
    const start = (index: number) =>
      stage.start({
        index,
        relays: [relay.url],
        plan: { fingerprint: fingerprintWith({ shard }), sync: strict(2), waitFor: 2, rounds: 2 },
        trainMs: 300,
      });
    const [one] = [start(0), start(1)];
    await one.finished;
    expect(notices(one)).toBe(
      `Worker ${name(1)} trains on the same part of the data (--shard 2/3): give each worker a --shard of its own.`,
    );
  });

  it('the same key twice', async () => {
    const relay = stage.relay();
    const plan = { sync: strict(2), waitFor: 2, joinTimeoutMs: 60_000 };
    const one = stage.start({ index: 0, relays: [relay.url], plan });
    await stage.until(() => relay.stats().eventsAccepted === 1);
    // a worker that just restarted watches its own heartbeats closely
    await stage.clock.sleep(4000);
    const twin = stage.start({ index: 0, relays: [relay.url], plan });
    const told = `Another process trains in this run with the key of this worker (${name(0)})`;
    for (const member of [one, twin]) {
      await stage.until(() => notices(member).includes(told), 10);
    }
  });
});

describe('a worker that starts after the run began', () => {
  const late: MemberOptions['plan'] = { sync: strict(2), waitFor: 2, rounds: 50 };

  async function begun(rate?: number) {
    const relay = stage.relay();
    const reach = { relays: [relay.url], trainMs: 200, ...(rate && { eventsPerMinute: rate }) };
    const members = [0, 1].map((index) => stage.start({ index, plan: late, ...reach }));
    await stage.until(() => roundsOf(members[0]!).length > 1);
    return { reach, members };
  }

  for (const rate of [undefined, 600]) {
    it(`is told where the run is, within seconds${rate ? ', even if heartbeats are rare' : ''}`, async () => {
      const { reach, members } = await begun(rate);
      const startedMs = stage.clock.now();
      const newcomer = stage.start({ index: 7, plan: late, ...reach });
      const error = await newcomer.finished.catch((failure: Error) => failure);
      expect(error).toMatchObject({ code: 'round/began' });
      expect((error as Error).message).toMatch(
        /^\w{12} trains with a group you are not in: the run began before you came\. It is in round \d+ of 50\.$/,
      );
      expect(members.map(({ id }) => shortName(id))).toContain(
        (error as Error).message.slice(0, 12),
      );
      expect(stage.clock.now() - startedMs).toBeLessThan(5000);
      expect(newcomer.events.map(({ type }) => type)).not.toContain('published');
    });
  }

  it('but not one that reuses the name of a run that all workers left', async () => {
    const { reach, members } = await begun();
    for (const member of members) {
      member.stop();
      await member.finished.catch(() => undefined);
    }
    const anew = [7, 8].map((index) =>
      stage.start({ index, plan: { ...late, rounds: 1 }, ...reach }),
    );
    await Promise.all(anew.map(({ finished }) => finished));
  });
});
