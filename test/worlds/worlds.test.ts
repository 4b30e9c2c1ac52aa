/** How worlds are drawn, played and shrunk, and those that broke an invariant once. */
import { startOf } from 'nostrain/certified/parts';
import type { Outcome } from 'nostrain/run';
import type { Vector } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { Restless, VirtualClock } from '../bench/simulate/virtual-clock.ts';
import { Chronicle } from './chronicle.ts';
import { openEngines } from './engine.ts';
import { lossApart } from './loss.ts';
import { playWorld } from './play.ts';
import { shrink } from './shrink.ts';
import { specOf } from './spec.ts';
import { openStories, stories } from './stories.ts';
import { drawWorld, type World } from './world.ts';

describe('a clock with a limit', () => {
  const waits: Record<string, (clock: VirtualClock) => Promise<unknown>> = {
    'timers that are due at once': (clock) => clock.sleep(0),
    'turns of the event loop': () => new Promise(setImmediate),
    'reading the clock': async (clock) => clock.now(),
  };

  it.each(Object.keys(waits))('ends a loop of %s', async (loop) => {
    const clock = new VirtualClock(1000);
    let isOver = false;
    const endless = async (): Promise<void> => {
      await clock.sleep(10);
      while (!isOver) await waits[loop]!(clock);
    };
    try {
      endless().catch(() => undefined);
      await expect(clock.runUntil(() => false, clock.now() + 60_000)).rejects.toThrow(Restless);
    } finally {
      isOver = true;
      clock.close();
    }
  });
});

describe('stories', () => {
  it.each(Object.keys(stories))('%s', async (story) => {
    expect((await playWorld(stories[story]!)).violations).toEqual([]);
  });

  it.fails.each(Object.keys(openStories))('open: %s', async (story) => {
    expect((await playWorld(openStories[story]!)).violations).toEqual([]);
  });
});

describe('a drawn world', () => {
  const worlds = Array.from({ length: 300 }, (_, i) => drawWorld(i + 1));

  it('is the same for the same seed', () => {
    expect(worlds.map(({ seed }) => drawWorld(seed))).toEqual(worlds);
  });

  it('survives its JSON, so that a story can be kept as data', () => {
    for (const world of worlds) expect(JSON.parse(JSON.stringify(world))).toEqual(world);
  });
});

describe('a world with real training', () => {
  it('reports a lower loss on onnxruntime at its end', async () => {
    const world: World = { ...drawWorld(50), document: {}, rounds: 2, faults: [] };
    const spec = specOf(world);
    const [engine] = await openEngines(world, spec);
    const { violations, chronicle } = await playWorld(world);
    expect(violations).toEqual([]);
    const { params } = chronicle.disks.get(0)!.files.state!;
    const lossOf = (values: Vector) => engine!.evaluate(values, 'shard');
    expect(await lossOf(params.values)).toBeLessThan(0.9 * (await lossOf(startOf(spec).values)));
    await engine!.close();
  });
});

describe('what a world learned', () => {
  const world: World = { ...drawWorld(1), workers: 3, founders: 3, rounds: 2, faults: [] };
  const chronicleOf = (losses: readonly number[], accepted = 1, of = world): Chronicle => {
    const chronicle = new Chronicle(of, specOf(of), () => 0);
    for (const [i, loss] of losses.entries()) {
      const [round, outcome] = [i + 1, `${i}`];
      chronicle.saves({ worker: 0, round, outcome, model: '', loss, ejected: [] });
      const outcomeOf = { accepted: Array.from({ length: accepted }, () => ({})) };
      chronicle.outcomes.set(outcome, outcomeOf as unknown as Outcome);
    }
    return chronicle;
  };

  it.each([
    ['may be a little less than undisturbed', [1, 0.4], 0],
    ['may not be far less', [1, 0.6], 1],
    ['is compared after as many rounds that count', [1.1], 0],
  ])('%s', (_, losses, count) => {
    expect(lossApart(chronicleOf(losses), chronicleOf([1, 0.2]))).toHaveLength(count);
  });

  it('is compared after as many whole rounds, where values have owners', () => {
    const owned: World = { ...world, document: { training: { owners: 2 } } };
    const quiet = chronicleOf([1, 0.2], 3, owned);
    expect(lossApart(chronicleOf([1, 0.6], 2, owned), quiet)).toEqual([]);
    expect(lossApart(chronicleOf([1, 0.6], 3, owned), quiet)).toHaveLength(1);
    expect(lossApart(chronicleOf([1, 0.6], 2), chronicleOf([1, 0.2], 3))).toHaveLength(1);
  });
});

describe('shrinking', () => {
  it('leaves only what a violation needs', async () => {
    const fault = (name: string, worker: number) => ({ fault: name, worker });
    const world: World = {
      ...drawWorld(1),
      ...{ workers: 6, founders: 6, relays: 3, rounds: 8, document: { late: 'defer' } },
      faults: [fault('a', 1), fault('b', 3), fault('c', 5), fault('d', 0), fault('e', 2)],
    };
    const needs = async ({ faults, rounds, relays }: World) =>
      faults.some((each) => each.fault === 'b') && rounds >= 3 && relays >= 2;
    const { workers, relays, rounds, document, faults } = await shrink(world, needs);
    expect({ workers, relays, rounds, document, faults }).toEqual({
      ...{ workers: 4, relays: 2, rounds: 3, document: {} },
      faults: [fault('b', 3)],
    });
  });
});
