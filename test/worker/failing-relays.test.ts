/** Messages to the user when relays fail: one line each, with the relay's words and the next step. */
import { describe, expect, it } from 'vitest';
import { renderPlain } from '../../src/terminal/render/plain.ts';
import type { LocalRelay } from '../support/memory-network.ts';
import { type Member, type MemberOptions, roundsOf, startMember } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startMember);
const { relay } = stage;
const start = (
  relays: readonly LocalRelay[],
  plan: MemberOptions['plan'] = {},
  trainMs = 0,
): Member =>
  stage.start({
    index: 0,
    trainMs,
    relays: relays.map(({ url }) => url),
    plan: { rounds: 1, sync: { strategy: 'strict', workers: 1 }, ...plan },
  });

const failureOf = (member: Member): Promise<string> =>
  member.finished.then(
    () => '',
    (error: Error) => error.message,
  );
const linesOf = ({ events }: Member): readonly string[] =>
  events.map((event) => renderPlain('me', event));

describe('relays that fail', () => {
  it('all refuse: the run stops, nothing is lost, and every relay is named', async () => {
    const a = relay({ limits: { kinds: [1] } });
    const b = relay({ maxEventBytes: 300 });
    const member = start([a, b]);
    const [one, other] = (await failureOf(member)).split(`; ${b.url} `);
    expect(one).toBe(
      `no relay took the gradient of round 1: ${a.url} does not accept this kind of event (blocked: kind 7810 is not accepted here); use another relay for such events`,
    );
    expect(other).toMatch(
      /^does not accept an event of this size \(.*too large: .* bytes.*\); send smaller events, or use a relay with a higher limit$/,
    );
    expect(member.saved.at(-1)?.sent).toBeDefined();
  });

  it('one throttles: the run continues over the other, and reports what the slow one asked for', async () => {
    const slow = relay({ faults: { throttle: 1 } });
    const member = start([slow, relay()], { rounds: 3 });
    await member.finished;
    expect(roundsOf(member)).toHaveLength(3);
    const asked = () => linesOf(member).find((line) => line.includes(`${slow.url} asks`)) ?? '';
    await stage.until(() => asked() !== '');
    expect(asked()).toMatch(
      /; ws:\S+ asks us to slow down \(rate-limited: .*\); send less often, or add relays$/,
    );
  });

  it('one stores nothing: after two false OKs its OK is ignored', async () => {
    const forgetful = relay({ faults: { discard: 1 } });
    const member = start([forgetful, relay()], { rounds: 11 }, 700);
    await member.finished;
    expect(linesOf(member).find((line) => line.includes('loses them'))).toMatch(
      /to 1 of 2 relays; ws:\S+ accepts events and loses them \(.*does not store them.*\); do not rely on it: use another relay$/,
    );
  });

  it('the local clock is an hour ahead: reported once per relay, with what to do', async () => {
    const hour = 3600_000;
    const behind = { nowMs: () => stage.clock.now() - hour };
    const [a, b] = [relay(behind), relay(behind)];
    const message = await failureOf(start([a, b]));
    for (const { url } of [a, b]) {
      expect(message).toContain(`${url} refuses the date of the event`);
    }
    expect(message).toContain('your clock seems to be off: set it, best by NTP');
  });
});
