/**
 * One honest relay and one faulty one: the run ends in the same bits everywhere. A run with only the faulty relay names
 * it in the error.
 */
import { describe, expect, it } from 'vitest';
import { hostileModes } from '../support/hostile-relays.ts';
import { type Member, type MemberOptions, roundsOf, startMember } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startMember);
const strict = (workers: number) => ({ strategy: 'strict', workers }) as const;

describe('one honest relay and one that', () => {
  it.each(Object.entries(hostileModes))('%s', async (_, options) => {
    const [honest, other] = [stage.relay(), stage.relay(options)];
    const plan = { rounds: 4, sync: strict(3), waitFor: 3, joinTimeoutMs: 30_000 };
    const members = [0, 1, 2].map((index) =>
      stage.start({ index, relays: [other.url, honest.url], plan, trainMs: 100 }),
    );
    const ends = await Promise.all(members.map(({ finished }) => finished));
    for (const { params } of ends) expect(params.values).toEqual(ends[0]!.params.values);
    for (const member of members) expect(roundsOf(member)).toHaveLength(4);
  });
});

describe('a run whose only relay', () => {
  const errorOf = async (
    options: (typeof hostileModes)[string],
    more: Partial<MemberOptions> = {},
  ) => {
    const relay = stage.relay(options);
    const plan = { sync: strict(2), waitFor: 2, joinTimeoutMs: 13_000, roundTimeoutMs: 13_000 };
    const start = (index: number): Member =>
      stage.start({ index, relays: [relay.url], plan: { ...plan, ...more.plan } });
    const [one] = [start(0), start(1)];
    const error = await one.finished.then(
      () => new Error('none'),
      (failure: Error & { hint?: string }) => failure,
    );
    return {
      error: error.message,
      hint: 'hint' in error ? String(error.hint) : '',
      url: relay.url,
    };
  };

  it('does nothing useful is named, and the others are not blamed', async () => {
    const modes = [
      ['never says a word', 'does not answer queries'],
      ['closes every request', 'closes our subscription (error: shutting down idle subscriptions)'],
      ['hands nothing out', 'accepts events and loses them'],
      ['wants work that its document does not name', 'requires proof of work'],
    ] as const;
    const ends = await Promise.all(modes.map(([mode]) => errorOf(hostileModes[mode]!)));
    ends.forEach(({ error, hint, url }, i) => {
      expect(error).toContain(`${url} ${modes[i]![1]}`);
      expect(hint).toContain('see what the relay allows');
      expect(hint).not.toContain('start the others');
    });
  });

  it('drops events after half a minute does not stall a start: heartbeats are more frequent meanwhile', async () => {
    const relay = stage.relay({ faults: { forgetAfter: 2 } });
    const plan = { sync: strict(2), waitFor: 2, joinTimeoutMs: 20_000, rounds: 1 };
    const start = (index: number) =>
      stage.start({ index, relays: [relay.url], plan, trainMs: 1000 });
    const early = start(0);
    await stage.clock.sleep(4000);
    const late = start(1);
    await Promise.all([early.finished, late.finished]);
    expect(roundsOf(late)).toHaveLength(1);
  });
});
