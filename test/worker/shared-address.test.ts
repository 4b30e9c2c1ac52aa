/**
 * Workers behind one address share a public relay's budget: rounds are as short as `nostrain plan` predicts, and none
 * is lost.
 */

import { payloadBytes as bytesOf } from 'nostrain/network';
import { createRelay, defaultLimits, type Relay } from 'nostrain/relay';
import { CHUNK_LENGTH } from 'nostrain/tensor';
import { afterEach, describe, expect, it } from 'vitest';
import type { Policy } from '../../relay/policies.ts';
import { createStandardPolicies } from '../../relay/policies.ts';
import { runCommand } from '../support/command-line.ts';
import { createManualClock, type ManualClock } from '../support/manual-clock.ts';
import {
  divergencesOf,
  keyOf,
  largeLayout,
  type Member,
  roundsOf,
  startMember,
} from '../support/swarm.ts';

const WORKERS = 4;
const ROUNDS = 4;
const HEARTBEAT = 60;
/** Assumed limit of a public relay per address: five events at once, then five a minute. */
const addressRate = { atOnce: 5, perMinute: 5 };

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Taken {
  readonly relay: Relay;
  /** Times at which it accepted an event, in seconds. */
  readonly times: readonly number[];
}

/** A relay with that limit on the test's clock, which records accepted events. */
async function throttledRelay(clock: ManualClock): Promise<Taken> {
  const times: number[] = [];
  const note: Policy = (_, session) => {
    times.push(session.nowMs() / 1000);
    return undefined;
  };
  const policies = [...createStandardPolicies({ ...defaultLimits, addressRate }), note];
  const relay = await createRelay({ strict: 'strfry', policies, nowMs: clock.now });
  closing.push(() => relay.close());
  return { relay, times };
}

/** The plan that the command prints with `--json`. */
async function planned(payloadBytes: number) {
  const { stdout } = await runCommand(
    ...['plan', '--payload-bytes', `${payloadBytes}`, '--workers', `${WORKERS}`],
    ...['--workers-per-ip', `${WORKERS}`, '--heartbeat-interval', `${HEARTBEAT}`, '--json'],
  );
  const { floorSeconds } = JSON.parse(stdout) as { floorSeconds: number };
  return { floorSeconds, paceSeconds: (60 / addressRate.perMinute) * WORKERS };
}

/** Advances time by a second whenever the relay and its clients are idle. */
async function playOut(clock: ManualClock, relay: Relay, members: readonly Member[]) {
  const finished = Promise.allSettled(members.map((member) => member.finished));
  let isOver = false;
  void finished.then(() => {
    isOver = true;
  });
  while (!isOver) {
    await clock.advance(1000);
    for (let before = -1, quiet = 0; quiet < 6 && !isOver; ) {
      await new Promise((resolve) => setImmediate(resolve));
      const { framesIn, framesOut } = relay.stats();
      quiet = framesIn + framesOut === before ? quiet + 1 : 0;
      before = framesIn + framesOut;
    }
  }
  return Promise.all(members.map((member) => member.finished));
}

/** Named peers, so that they divide the model from the first round on. */
const peers = Array.from({ length: WORKERS }, (_, index) => keyOf(index)).sort();

/** Four workers with this duration of inner steps. */
const startFour = (
  clock: ManualClock,
  { relay }: Taken,
  trainSeconds: number,
  eventsPerMinute: number,
): readonly Member[] =>
  Array.from({ length: WORKERS }, (_, index) => {
    const member = startMember({
      ...{ index, clock, relays: [relay.url], layout: largeLayout, packing: 'trellis' },
      ...{ trainMs: trainSeconds * 1000, eventsPerMinute },
      plan: {
        ...{ rounds: ROUNDS, owners: 1, residual: 'none', waitFor: WORKERS, peers },
        sync: { strategy: 'strict', workers: WORKERS },
        ...{ heartbeatSeconds: HEARTBEAT, roundTimeoutMs: 600_000, joinTimeoutMs: 600_000 },
      },
    });
    closing.push(() => member.stop());
    return member;
  });

/** Checks that the limit holds in every interval. */
function expectWithinLimit({ times }: Taken): void {
  const { atOnce, perMinute } = addressRate;
  times.forEach((from, i) => {
    times.slice(i).forEach((to, more) => {
      expect(more + 1).toBeLessThanOrEqual(atOnce + ((to - from) * perMinute) / 60 + 1e-6);
    });
  });
}

/** Checks that every round counted all four, in one event each, and left the same bits on all. */
function expectWhole(members: readonly Member[]): void {
  const everyone = members.map(({ id }) => id).sort();
  for (const member of members) {
    const rounds = roundsOf(member);
    expect(rounds.map(({ accepted }) => accepted)).toEqual(
      Array.from({ length: ROUNDS }, () => everyone),
    );
    expect(rounds.map(({ digest }) => digest)).toEqual(
      roundsOf(members[0]!).map(({ digest }) => digest),
    );
    expect(divergencesOf(member)).toEqual([]);
    expect(member.events.filter(({ type }) => type === 'notice')).toEqual([]);
  }
}

/** Trellis codes of 2 bits a value, the most there are, of the largest share of the chunks. */
const PAYLOAD = bytesOf(
  { codec: 'trellis', kept: CHUNK_LENGTH / 4 },
  Math.ceil(Math.ceil(largeLayout.size / CHUNK_LENGTH) / WORKERS),
);

describe('four workers behind one address, over a relay throttled to 5 events a minute', () => {
  it('keep the interval that `nostrain plan` prints, and no event is refused', async () => {
    const { floorSeconds, paceSeconds } = await planned(PAYLOAD);
    const clock = createManualClock();
    const taken = await throttledRelay(clock);
    const share = addressRate.perMinute / WORKERS;
    const members = startFour(clock, taken, floorSeconds - paceSeconds, share);
    await playOut(clock, taken.relay, members);
    expectWhole(members);
    expectWithinLimit(taken);
    const { eventsRefused, eventsAccepted } = taken.relay.stats();
    expect(eventsRefused).toBe(0);
    for (const { seconds, payloadBytes } of members.flatMap(roundsOf)) {
      expect(seconds).toBeLessThanOrEqual(floorSeconds);
      expect(payloadBytes).toBe(PAYLOAD);
    }
    // per worker a heartbeat at the start and the end, one event per round, and at most one heartbeat per interval
    const most = 2 + ROUNDS * (1 + floorSeconds / HEARTBEAT);
    expect(eventsAccepted).toBeLessThanOrEqual(WORKERS * most);
    expect(eventsAccepted).toBeGreaterThanOrEqual(WORKERS * (2 + ROUNDS));
  });

  it('rounds shorter than a heartbeat interval take one event each and no heartbeat', async () => {
    const clock = createManualClock();
    const taken = await throttledRelay(clock);
    const members = startFour(clock, taken, 50, addressRate.perMinute / WORKERS);
    await playOut(clock, taken.relay, members);
    expectWhole(members);
    expect(taken.relay.stats()).toMatchObject({
      eventsAccepted: WORKERS * (1 + ROUNDS + 1),
      eventsRefused: 0,
    });
  });

  it('finish without knowing the limit: a refusal slows them down, and no round is lost', async () => {
    const { floorSeconds, paceSeconds } = await planned(PAYLOAD);
    const clock = createManualClock();
    const taken = await throttledRelay(clock);
    const members = startFour(clock, taken, floorSeconds - paceSeconds, 0);
    await playOut(clock, taken.relay, members);
    expectWhole(members);
    expectWithinLimit(taken);
    expect(taken.relay.stats().eventsRefused).toBeGreaterThan(0);
  });
});
