/** Strangers who train honestly, earn seats and then stop must not stall a run whose founders decide. */

import { type CertifiedState, electorateOf } from 'nostrain/certified/parts';
import { describe, expect, it } from 'vitest';
import {
  type CertifiedMember,
  certifiedRounds,
  certifiedSpec,
  keyOf,
  rootsOf,
} from '../support/certified-swarm.ts';
import { createTimedSwarm } from '../support/timed-swarm.ts';

const FOUNDERS = [0, 1, 2, 3];
const STRANGERS = [4, 5, 6, 7, 8];
/** Rounds until all strangers are live and have earned seats. */
const EARNED = 6;
const ROUNDS = 12;
const HOUR = 3600;
/** Seconds in which three recovery epochs could have begun. */
const LONG = 250;

const specWith = (foundersDecide: boolean) =>
  certifiedSpec({
    ...{ founders: FOUNDERS, rounds: ROUNDS },
    document: { foundersDecide, joinsPerRound: 5, committee: { quorum: 'bft' } },
    timing: { graceMinMs: 2000, graceMaxMs: 20_000, viewMs: 5000, recoveryMs: 30_000 },
  });

const allIn = (members: readonly CertifiedMember[], count: number) => () =>
  members.every((member) => certifiedRounds(member).length >= count);

/** Starts everybody and plays until the strangers have seats. */
async function playUntilSeated(foundersDecide: boolean) {
  const spec = specWith(foundersDecide);
  const swarm = createTimedSwarm(spec, 5);
  const founders = FOUNDERS.map((index) => swarm.start({ index }));
  const strangers = STRANGERS.map((index) => swarm.start({ index }));
  const all = [...founders, ...strangers];
  await swarm.secondsUntil(allIn(all, EARNED), HOUR);
  const { head } = founders[0]!.disk.state as CertifiedState;
  const { eligible } = electorateOf({ ...head, spec }, null);
  const seated = eligible.filter((key) => !FOUNDERS.map(keyOf).includes(key));
  return { swarm, founders, strangers, seated: seated.length };
}

const stop = (members: readonly CertifiedMember[]) => {
  for (const member of members) member.stop();
};

describe('five strangers who earn seats beside four founders', () => {
  it('stall the run for good when they stop, if every key decides alike', async () => {
    const { swarm, founders, strangers, seated } = await playUntilSeated(false);
    expect(seated).toBe(5);
    stop(strangers);
    const before = certifiedRounds(founders[0]!).length;
    await expect(swarm.secondsUntil(allIn(founders, before + 3), LONG)).rejects.toThrow('within');
  });

  it('stall no round when they stop, if founders decide', async () => {
    const { swarm, founders, strangers, seated } = await playUntilSeated(true);
    expect(seated).toBe(1);
    stop(strangers);
    const before = certifiedRounds(founders[0]!).length;
    // a recovery in each round would take longer
    await swarm.finish(founders, (ROUNDS - before) * 30);
    const results = certifiedRounds(founders[0]!).map(({ certified }) => certified!.result);
    expect(results).toEqual(Array(ROUNDS).fill('final'));
    expect(new Set(founders.map((member) => rootsOf(member).at(-1))).size).toBe(1);
  });

  it('wait when the founders stop, and go on when those return', async () => {
    const { swarm, founders, strangers } = await playUntilSeated(true);
    stop(founders);
    const before = certifiedRounds(strangers[0]!).length;
    await expect(swarm.secondsUntil(allIn(strangers, before + 2), LONG)).rejects.toThrow('within');
    const back = founders.map(({ disk }, index) => swarm.start({ index, disk }));
    await swarm.finish([...back, ...strangers], HOUR);
    expect(new Set([...back, ...strangers].map((member) => rootsOf(member).at(-1))).size).toBe(1);
  });
});
