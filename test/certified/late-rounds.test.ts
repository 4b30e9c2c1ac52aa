/**
 * Acceptance N-10 in certified runs: a contribution that is one round late counts once on every worker, or on none; no
 * learned delta is lost.
 */

import { systemClock } from 'nostrain/base';
import { explain, hasModel } from 'nostrain/certified/parts';
import { manifest } from 'nostrain/kinds';
import type { RelaySet } from 'nostrain/network';
import type { RunSpec } from 'nostrain/run';
import type { Trainer } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import {
  certifiedRounds,
  certifiedSpec,
  keyOf,
  kill,
  rootsOf,
} from '../support/certified-swarm.ts';
import { deltaOf, type Replayed, replayed } from '../support/replaying.ts';
import { arithmeticTrainer, smallLayout } from '../support/swarm.ts';
import { createTimedSwarm, type TimedOptions, type TimedSwarm } from '../support/timed-swarm.ts';

const SLOW = 3;
/** Payloads have 8-bit values: a lost or repeated delta would be a hundred times larger than the rounding error. */
const QUANTIZED = 0.01;
// in seconds
const TRAIN = 60;
const GRACE = 100;
const HOUR = 3600;

const specWith = (late: 'defer' | 'discard', rounds = 3): RunSpec =>
  certifiedSpec({
    ...{ founders: [0, 1, 2, SLOW], rounds, document: { late } },
    timing: { graceMinMs: 1000 * GRACE, graceMaxMs: 1000 * GRACE, skewMs: 60_000 },
  });

/** Trains the first round for this long. */
const slowTrainer = ({ clock }: TimedSwarm, seconds: number): Trainer => {
  const trainer = (trainMs: number) => arithmeticTrainer(SLOW, smallLayout, { clock, trainMs });
  const usual = trainer(1000 * TRAIN);
  const first = trainer(1000 * seconds);
  return {
    ...usual,
    train: (task, ...rest) => (task.round === 0 ? first : usual).train(task, ...rest),
  };
};

/** Trains two thirds of a round, saves the phase, then trains the rest; counts resumed phases. */
function halfwayTrainer({ clock }: TimedSwarm): { readonly trainer: Trainer; rests: number } {
  const usual = arithmeticTrainer(SLOW, smallLayout, { clock, trainMs: (1000 * TRAIN) / 3 });
  const half = { done: 1, vectors: [], losses: Float32Array.of(1), seconds: 0 };
  const counted = {
    rests: 0,
    trainer: {
      ...usual,
      async train(task, onProgress, signal) {
        const { keeping } = task;
        if (keeping?.from) counted.rests++;
        else await clock.sleep((2000 * TRAIN) / 3, signal).then(() => keeping?.keep(half));
        return usual.train(task, onProgress, signal);
      },
    } satisfies Trainer as Trainer,
  };
  return counted;
}

/** A connection that delays manifests by this long. */
function slowLine({ clock, connect }: TimedSwarm, seconds: number): RelaySet {
  const relays = connect();
  const untilMs = clock.now() + 1000 * seconds;
  return {
    ...relays,
    send: (event, options) =>
      relays.relays.map(async (_, i) => {
        if (event.kind === manifest.kind) await clock.sleep(Math.max(0, untilMs - clock.now()));
        return relays.send(event, options)[i]!;
      }),
  };
}

/** The counted contributions of a worker, outcome by outcome. */
const rowsOf = ({ rounds }: Replayed, key: string) =>
  rounds.flatMap(({ round, before, decided }) =>
    decided!.outcome.accepted
      .filter(({ index }) => before.ledger.members[index]!.key === key)
      .map(({ late, manifest }) => ({ round, late, manifest })),
  );

/** The delta of training alone from the model that a round starts with. */
async function freshDelta({ rounds }: Replayed, round: number): Promise<Float64Array> {
  const { before } = rounds[round]!;
  if (!hasModel(before)) throw new Error(`round ${round} has no model`);
  const shared = Float32Array.from(before.params.values);
  const trainer = arithmeticTrainer(SLOW, smallLayout, { clock: systemClock, trainMs: 0 });
  const task = { params: shared, moments: [], round, steps: 1, firstStep: 0 };
  const { signal } = new AbortController();
  const trained = await trainer.train({ ...task, batchKey: [0, 0] }, () => {}, signal);
  return Float64Array.from(shared, (value, i) => value - trained.params[i]!);
}

const largest = (values: Float64Array): number => Math.max(...values.map(Math.abs));

/** Checks that the slow worker's delta of round 0 is in this round's contribution once. */
async function expectReturned(found: Replayed, round: number): Promise<void> {
  const expected = await freshDelta(found, round);
  const lost = await freshDelta(found, 0);
  const sent = deltaOf(found, round, keyOf(SLOW));
  expect(largest(sent.map((value, i) => value - expected[i]! - lost[i]!))).toBeLessThan(QUANTIZED);
  expect(largest(lost)).toBeGreaterThan(0.1);
}

/** Workers 0, 1 and 2, and the slow worker. */
const startAll = (swarm: TimedSwarm, slowness: Partial<TimedOptions>) => ({
  members: [0, 1, 2].map((index) => swarm.start({ index })),
  slow: swarm.start({ index: SLOW, ...slowness }),
});

describe('N-10: a contribution that arrives one round late', () => {
  it('deferred: is included once on every worker, without a separate step', async () => {
    const spec = specWith('defer');
    const swarm = createTimedSwarm(spec, TRAIN);
    const { members, slow } = startAll(swarm, { trainer: slowTrainer(swarm, GRACE + 30) });
    await swarm.finish([...members, slow], HOUR);
    for (const member of members) expect(rootsOf(member)).toEqual(rootsOf(members[0]!));
    expect(rootsOf(slow)).toEqual(rootsOf(members[0]!));
    const found = replayed(spec, smallLayout, swarm.events);
    expect(found.rounds.map(({ checked }) => checked)).toEqual(['full', 'full', 'full']);
    const rows = rowsOf(found, keyOf(SLOW));
    expect(rows.filter(({ late }) => late)).toMatchObject([{ round: 1 }]);
    expect(rows.filter(({ round }) => round === 0)).toEqual([]);
    expect(new Set(rows.map(({ manifest }) => manifest)).size).toBe(rows.length);
    const { head, pending, residual } = slow.disk.state!;
    expect(head!.ledger.steps).toBe(3);
    expect(pending).toBeUndefined();
    expect(largest(residual)).toBeLessThan(QUANTIZED);
    const counted = certifiedRounds(members[0]!).map(({ certified }) => certified!.late);
    expect(counted).toEqual([[], [keyOf(SLOW)], []]);
  });

  it('deferred: a restart between the two rounds neither loses nor repeats it', async () => {
    const spec = specWith('defer');
    const swarm = createTimedSwarm(spec, TRAIN);
    const { members, slow } = startAll(swarm, { trainer: slowTrainer(swarm, GRACE + 30) });
    await swarm.secondsUntil(() => certifiedRounds(slow).length === 1, HOUR);
    await kill(slow);
    expect(slow.disk.state!.pending).toBeDefined();
    const returned = swarm.start({ index: SLOW, disk: slow.disk });
    await swarm.finish([...members, returned], HOUR);
    expect(rootsOf(returned).at(-1)).toBe(rootsOf(members[0]!).at(-1));
    const found = replayed(spec, smallLayout, swarm.events);
    expect(rowsOf(found, keyOf(SLOW)).filter(({ late }) => late)).toMatchObject([{ round: 1 }]);
    expect(found.rounds.map(({ checked }) => checked)).toEqual(['full', 'full', 'full']);
    expect(largest(returned.disk.state!.residual)).toBeLessThan(QUANTIZED);
  });

  it('deferred: if the next outcome does not list it either, it returns to the residual once', async () => {
    const spec = specWith('defer', 5);
    const swarm = createTimedSwarm(spec, TRAIN);
    const { members, slow } = startAll(swarm, { trainer: slowTrainer(swarm, 2 * GRACE + 30) });
    await swarm.finish([...members, slow], HOUR);
    const found = replayed(spec, smallLayout, swarm.events);
    const rows = rowsOf(found, keyOf(SLOW));
    expect(rows.filter(({ late }) => late)).toEqual([]);
    await expectReturned(found, rows[0]!.round);
  });

  it.each([
    ['while the next round may list it', 30, 1],
    ['not where that is over too', 2 * GRACE + 100, 0],
  ] as const)(
    'deferred: a worker killed during its steps takes the remaining ones, %s',
    async (_, away, late) => {
      const spec = specWith('defer', 6);
      const swarm = createTimedSwarm(spec, TRAIN);
      const half = halfwayTrainer(swarm);
      const { members, slow } = startAll(swarm, { trainer: half.trainer });
      await swarm.secondsUntil(() => slow.disk.state?.round === 1, HOUR);
      delete slow.disk.phase;
      await swarm.secondsUntil(() => slow.disk.phase !== undefined, HOUR);
      await kill(slow);
      await swarm.secondsUntil(() => certifiedRounds(members[0]!).length === 2, HOUR);
      const cameBack = swarm.clock.now() + 1000 * away;
      await swarm.secondsUntil(() => swarm.clock.now() >= cameBack, HOUR);
      const returned = swarm.start({ index: SLOW, disk: slow.disk, trainer: half.trainer });
      await swarm.finish([...members, returned], HOUR);
      expect(rootsOf(returned).at(-1)).toBe(rootsOf(members[0]!).at(-1));
      const found = replayed(spec, smallLayout, swarm.events);
      expect(new Set(found.rounds.map(({ checked }) => checked))).toEqual(new Set(['full']));
      const rows = rowsOf(found, keyOf(SLOW)).filter((row) => row.late);
      expect(rows.filter(({ round }) => round === 2)).toHaveLength(late);
      expect(half.rests).toBe(late);
    },
  );

  it('discard: is only recorded, and returns to the residual at once', async () => {
    const spec = specWith('discard');
    const swarm = createTimedSwarm(spec, TRAIN);
    // sent in time, but delayed beyond the deadline
    const { members, slow } = startAll(swarm, {
      trainer: slowTrainer(swarm, GRACE - 5),
      relays: slowLine(swarm, GRACE + 1),
    });
    await swarm.finish([...members, slow], HOUR);
    expect(rootsOf(slow)).toEqual(rootsOf(members[0]!));
    const found = replayed(spec, smallLayout, swarm.events);
    const rows = rowsOf(found, keyOf(SLOW));
    expect(rows.some(({ late, round }) => late || round === 0)).toBe(false);
    const [first, second] = found.rounds;
    const why = explain(keyOf(SLOW), first!, second, found.gathered);
    expect(why).toMatchObject({ counted: false });
    expect(why.why.join(' ')).toMatch(/is valid.*Not listed by/);
    await expectReturned(found, 1);
  });
});
