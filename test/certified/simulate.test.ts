/** The simulation of `npm run simulate`: many workers with the real code and a virtual clock. */

import { replayRun } from 'nostrain/certified';
import { describe, expect, it } from 'vitest';
import { type IdealOptions, idealGoodput } from '../bench/simulate/lost-time.ts';
import { type SimulationOptions, simulate } from '../bench/simulate/play.ts';

const options: SimulationOptions = {
  ...{
    founders: 1024,
    workers: 12,
    relays: 3,
    copies: 0,
    rounds: 2,
    seed: 1,
    params: 256,
    trainSeconds: [25, 30],
  },
  ...{ dialects: ['strfry', 'nostr-rs-relay'], limits: {}, loss: 0.01, deadlineC: 4, churn: 0 },
  ...{ sharesChecks: true, document: {} },
};

/** Both rounds counted all twelve contributions soon after the last arrived, and all workers ended in one state. */
function expectAllCounted({ failures, roots, rounds }: Awaited<ReturnType<typeof simulate>>) {
  expect(failures).toEqual([]);
  expect(roots.size).toBe(1);
  expect(rounds.map(({ finished, accepted }) => [finished, accepted])).toEqual([
    [12, 12],
    [12, 12],
  ]);
  for (const { secondsToCertificate } of rounds) {
    expect(secondsToCertificate[1]).toBeLessThan(10);
  }
}

describe('a simulated run', () => {
  it('ends with one root, every contribution counted, and a certificate soon after the last', async () => {
    const played = await simulate(options);
    expectAllCounted(played);
    // each relay sends each event to every other worker, whose processor verifies it once
    expect(played.checks.asked).toBeGreaterThan(5 * played.checks.done);
    expect(played.sent.own).toBeGreaterThan(1000);
    expect(played.bytesDown).toBeGreaterThan(12 * 1000);
  });

  it('counts the drawn workers, with relays divided among them, and replays in full', {
    timeout: 120_000,
  }, async () => {
    const sample = { copies: 2, relays: 4, rounds: 3, document: { contributors: 5 } };
    const played = await simulate({ ...options, ...sample });
    expect(played.failures).toEqual([]);
    expect(played.rounds.map(({ finished, accepted }) => [finished, accepted])).toEqual([
      [12, 5],
      [12, 5],
      [12, 5],
    ]);
    const report = await replayRun({ events: played.events(), beacons: [] });
    expect(report.lines.map(({ checked, accepted }) => [checked, accepted?.length])).toEqual([
      ['full', 5],
      ['full', 5],
      ['full', 5],
    ]);
    expect([...played.roots]).toEqual([report.modelRoot]);
  });

  // all have a seat, and two of three can connect
  it('completes rounds over relays that accept fewer connections than there are workers', {
    timeout: 120_000,
  }, async () => {
    const full = { relays: 4, copies: 2, limits: { maxConnections: 8 } };
    const played = await simulate({ ...options, ...full });
    expectAllCounted(played);
    const refused = played.relays.map(({ refusedConnections }) => refusedConnections);
    expect(Math.max(...refused)).toBeGreaterThan(0);
  });

  // the smallest run in which most members do not read joins
  it('sends joins to proposers only, calls founders by lot, and replays in full', {
    timeout: 120_000,
  }, async () => {
    const document = { contributors: 4, committee: { size: 4 }, foundersPerRound: 8 };
    const played = await simulate({ ...options, workers: 66, rounds: 1, copies: 1, document });
    expect(played.failures).toEqual([]);
    expect(played.rounds.map(({ finished, accepted }) => [finished, accepted])).toEqual([[66, 4]]);
    const join = played.sent.byKind[7818]!;
    // four members with a seat, each of which receives a join live, and again in rechecks
    expect(played.receivedByKind[7818]!).toBeLessThanOrEqual(4 * 3 * join);
    const { ok, lines } = await replayRun({ events: played.events(), beacons: [] });
    expect([ok, lines.map(({ checked }) => checked)]).toEqual([true, ['full']]);
  });

  it('is reproducible from its seed, and differs for another seed', async () => {
    const few = { ...options, workers: 4, relays: 2, churn: 0.3, rounds: 3 };
    const figuresOf = async (seed: number) => {
      const { roots, bytesDown, rounds, kills } = await simulate({ ...few, seed });
      return { roots: [...roots], bytesDown, kills, seconds: rounds.map(({ seconds }) => seconds) };
    };
    const first = await figuresOf(3);
    expect(first.kills).toBeGreaterThan(0);
    expect(await figuresOf(3)).toEqual(first);
    expect(await figuresOf(4)).not.toEqual(first);
  });

  it('reports how the workers spent their time', async () => {
    const few = { ...options, workers: 4, relays: 2, churn: 0.3, rounds: 3, seed: 3 };
    const { time, killed, ideal, kills } = await simulate(few);
    expect(Object.values(time).reduce((sum, share) => sum + share, 0)).toBeCloseTo(1);
    expect(time.away).toBeGreaterThan(0);
    expect(time.counted).toBeGreaterThan(0.3);
    expect(killed.length).toBeGreaterThan(0);
    expect(killed.length).toBeLessThanOrEqual(kills);
    expect(ideal!.best.goodput).toBeGreaterThanOrEqual(ideal!.slowest.goodput);
  });
});

describe('ideal workers', () => {
  const of = { workers: 2, rounds: 3, trainSeconds: () => 25, killOf: () => undefined };
  // offline for 20 seconds of the second round
  const killed = (worker: number, round: number) =>
    worker === 0 && round === 0 ? { at: 5, back: 25 } : undefined;
  const counted = (more: Partial<IdealOptions>) =>
    (idealGoodput({ ...of, defers: false, ...more }, 30) * 30 * (more.rounds ?? of.rounds)) / 3600;

  it('contribute to every round if none is killed', () => {
    expect(counted({})).toBe(6);
  });

  it('lose contributions that no round can count, and under defer that not even the next one can', () => {
    expect(counted({ killOf: killed })).toBe(5);
    expect(counted({ killOf: killed, defers: true })).toBe(5);
    expect(counted({ killOf: killed, defers: true, rounds: 4 })).toBe(7);
  });
});
