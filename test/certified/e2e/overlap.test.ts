/** Certified rounds whose workers begin the next inner steps before the outcome: one root, which a replay finds, in less time, with every step taken once. */
import { describe, expect, it } from 'vitest';
import type { RelaySet } from '../../../src/network/transport/relay-set.ts';
import type { Untyped } from '../../../src/run/spec/spec-readers.ts';
import type { Trainer } from '../../../src/worker/ports.ts';
import { drawnTrainer } from '../../bench/simulate/drawn-trainer.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  certifiedSpec,
  kill,
  rootsOf,
} from '../../support/certified-swarm.ts';
import { replayed } from '../../support/replaying.ts';
import { smallLayout } from '../../support/swarm.ts';
import { createTimedSwarm, type TimedSwarm } from '../../support/timed-swarm.ts';

const FOUNDERS = [0, 1, 2, 3];
const ROUNDS = 4;
const HOUR = 3600;
/** Seconds of the inner phase, worker by worker. */
const SECONDS = [30, 40, 50, 60];

interface Asked {
  readonly document?: Untyped;
  readonly training?: Untyped;
}

/** A line on which everything takes three seconds. */
function slowLine({ clock, connect }: TimedSwarm): RelaySet {
  const relays = connect();
  return {
    ...relays,
    send: (event, options) =>
      relays.relays.map(async (_, i) => {
        await clock.sleep(3000);
        return relays.send(event, options)[i]!;
      }),
  };
}

/** Workers of four speeds, and the phases that their engines were asked for: the round, and the steps that each began with. */
function startAll({ document = {}, training = {} }: Asked) {
  const spec = certifiedSpec({
    ...{ founders: FOUNDERS, rounds: ROUNDS, document, training },
    timing: { graceMinMs: 1500, graceMaxMs: 90_000, viewMs: 10_000 },
  });
  const swarm = createTimedSwarm(spec, 0);
  const phases = FOUNDERS.map((): { readonly round: number; readonly from: number }[] => []);
  const trainerOf = (index: number): Trainer => {
    const parts = SECONDS[index]!;
    const drawn = drawnTrainer(index, smallLayout, swarm.clock, () => 1000 * parts, parts);
    return {
      ...drawn,
      train: (task, ...rest) => {
        phases[index]!.push({ round: task.round, from: task.keeping?.from?.done ?? 0 });
        return drawn.train(task, ...rest);
      },
    };
  };
  const start = (index: number, more = {}) =>
    swarm.start({ index, relays: slowLine(swarm), trainer: trainerOf(index), ...more });
  return { spec, swarm, phases, start, members: FOUNDERS.map((index) => start(index)) };
}

type Started = Pick<ReturnType<typeof startAll>, 'spec' | 'swarm'>;

/** All have one root, and a replay of what the relay holds finds it. */
function expectOneRoot({ spec, swarm }: Started, members: readonly CertifiedMember[]): void {
  const { rounds } = replayed(spec, smallLayout, swarm.events);
  expect(rounds.map(({ checked }) => checked)).toEqual(Array(ROUNDS).fill('full'));
  const root = rounds.at(-1)!.decided!.outcome.modelRoot;
  for (const member of members) expect(rootsOf(member).at(-1)).toBe(root);
}

async function play(asked: Asked) {
  const started = startAll(asked);
  const { swarm, members, phases } = started;
  const seconds = await swarm.finish(members, HOUR);
  expectOneRoot(started, members);
  return { seconds, phases, accepted: certifiedRounds(members[0]!).map((each) => each.accepted) };
}

describe('a certified run whose rounds overlap', () => {
  it('counts everybody, in less time than without', async () => {
    const calm = await play({});
    expect(calm.phases.flat().every(({ from }) => from === 0)).toBe(true);
    const { seconds, phases, accepted } = await play({ document: { overlap: true } });
    expect(accepted.map(({ length }) => length)).toEqual([4, 4, 4, 4]);
    // deciding takes four messages, one after the other, which the slowest trains through in all rounds but the last
    expect(seconds).toBeLessThan(calm.seconds - (ROUNDS - 1) * 8);
    for (const own of phases) {
      expect(own.map(({ round }) => round)).toEqual([0, 1, 1, 2, 2, 3, 3]);
      own.forEach(({ from }, i) => {
        // a head start, and the phase that goes on from it
        if (i % 2 === 1 || i === 0) expect(from).toBe(0);
        else expect(from).toBeGreaterThan(5);
      });
      // nobody goes ahead while a contribution is waited for: half a minute of the fastest
      for (const { from } of own) expect(from).toBeLessThan(20);
    }
  });

  it('divides the parameters among owners', async () => {
    const { accepted } = await play({
      document: { overlap: true },
      training: { owners: 2, fragments: 2, residual: 'owned' },
    });
    expect(accepted.map(({ length }) => length)).toEqual([4, 4, 4, 4]);
  });

  it('drops the head starts of those who are not drawn', async () => {
    const { accepted, phases } = await play({ document: { overlap: true, contributors: 2 } });
    expect(accepted.map(({ length }) => length)).toEqual([2, 2, 2, 2]);
    expect(phases.flat().some(({ from }) => from > 0)).toBe(true);
  });

  it('lists late what comes late, and goes on', async () => {
    const { phases } = await play({ document: { overlap: true, late: 'defer' } });
    expect(phases.flat().some(({ from }) => from > 0)).toBe(true);
  });

  it('a worker that is killed comes back to the same roots', async () => {
    const started = startAll({ document: { overlap: true } });
    const { swarm, members, start } = started;
    const killed = members[1]!;
    await swarm.secondsUntil(() => certifiedRounds(killed).length === 1, HOUR);
    await swarm.clock.advance(10_000);
    const gone = kill(killed);
    await swarm.clock.advance(20_000);
    await gone;
    const returned = start(1, { disk: killed.disk });
    const all = members.with(1, returned);
    await swarm.finish(all, HOUR);
    expectOneRoot(started, all);
  });
});
