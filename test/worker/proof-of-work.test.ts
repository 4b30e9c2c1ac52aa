/** Relays that require proof of work (NIP-13), and workers too slow for it: they wait, and no worker ends. */
import type { Clock } from 'nostrain/base';
import type { Mine } from 'nostrain/network';
import { expect, it } from 'vitest';
import { leadingZeroBits, mineDraft } from '../../src/network/proof-of-work.ts';
import { roundsOf, startMember } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startMember);
const { relay } = stage;
const BITS = 4;

/** A machine that needs this many seconds for the work on one event. */
const slowMachine =
  (clock: Clock, seconds: number): Mine =>
  async (draft, bits, signal) => {
    await clock.sleep(1000 * seconds, signal);
    return mineDraft(draft, bits);
  };

const start = (relays: readonly string[], seconds: number, rounds = 4) =>
  stage.start({
    index: 0,
    relays,
    mine: slowMachine(stage.clock, seconds),
    plan: { rounds, sync: { strategy: 'strict', workers: 1 } },
  });

const noticesOf = ({ events }: ReturnType<typeof start>): readonly string[] =>
  events.flatMap((event) => (event.type === 'notice' ? [event.message] : []));

it('the only relay requires more work than there is time for in a minute: the worker waits and says so', async () => {
  const guarded = relay({ minPow: BITS });
  const member = start([guarded.url], 8);
  const startMs = stage.clock.now();
  await member.finished;
  expect(roundsOf(member)).toHaveLength(4);
  // four updates of eight seconds each, heartbeats aside, at ten seconds a minute
  expect(stage.clock.now() - startMs).toBeGreaterThan(60_000);
  expect(noticesOf(member)).toContainEqual(
    expect.stringMatching(
      new RegExp(
        `^${guarded.url} requires ${BITS} bits of proof of work; the update waits about \\d+ s, until`,
      ),
    ),
  );
});

it('the work on one event takes longer than the minute allows: it is finished, and the next one waits', async () => {
  const member = start([relay({ minPow: BITS }).url], 40, 2);
  await member.finished;
  expect(roundsOf(member)).toHaveLength(2);
});

it('a relay that states nothing teaches with its first refusal, whatever the kind of the event', async () => {
  const guarded = relay({ faults: { work: BITS } });
  const member = start([guarded.url], 1);
  await member.finished;
  const published = member.events.filter(({ type }) => type === 'published');
  expect(published).toHaveLength(4);
  expect(leadingZeroBits(member.saved.at(-1)!.lastSent!)).toBeGreaterThanOrEqual(BITS);
});

it('an update that was signed before the relay required work is signed again with it', async () => {
  const open = relay();
  const member = start([open.url], 1, 1);
  await member.finished;
  const sealed = member.saved.find(({ sent }) => sent)!;
  expect(leadingZeroBits(sealed.sent!.event.id)).toBeLessThan(8);
  const guarded = relay({ faults: { work: 8 } });
  const again = stage.start({
    ...{ index: 0, relays: [guarded.url], start: sealed, mine: slowMachine(stage.clock, 1) },
    plan: { rounds: 2, sync: { strategy: 'strict', workers: 1 } },
  });
  await again.finished;
  expect(
    leadingZeroBits(again.saved.find(({ round }) => round === 1)!.lastSent!),
  ).toBeGreaterThanOrEqual(8);
});

it('without a miner of its own, the wire does the work in turns', async () => {
  const guarded = relay({ minPow: 10 });
  const plan = { rounds: 2, sync: { strategy: 'strict', workers: 1 } } as const;
  const member = stage.start({ index: 0, relays: [guarded.url], plan });
  await member.finished;
  expect(roundsOf(member)).toHaveLength(2);
});

it('another relay accepts events as they are: nothing is worked', async () => {
  const guarded = relay({ minPow: BITS });
  const startMs = stage.clock.now();
  const member = start([guarded.url, relay().url], 30, 2);
  await member.finished;
  expect(stage.clock.now() - startMs).toBeLessThan(30_000);
});

it('a relay that fails for a while is tried again until it accepts the update', async () => {
  const failing = relay({ faults: { throttle: 1 } });
  const member = stage.start({
    index: 0,
    relays: [failing.url],
    plan: { rounds: 2, roundTimeoutMs: 10_000, sync: { strategy: 'strict', workers: 1 } },
  });
  await member.finished;
  expect(roundsOf(member)).toHaveLength(2);
});
