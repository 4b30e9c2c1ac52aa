/** Small worlds: certified runs in which relays, machines, clocks and members fail, each drawn from a seed. */
import { describe, expect, it } from 'vitest';
import { playWorld } from './play.ts';
import { commandOf } from './report.ts';
import { shrink } from './shrink.ts';
import { openStories, stories } from './stories.ts';
import { drawWorld, type World } from './world.ts';

const seeds = Array.from({ length: 24 }, (_, i) => i + 1);

describe('small worlds', () => {
  it.each(seeds)('world %i breaks no invariant', async (seed) => {
    const world = drawWorld(seed);
    const { violations } = await playWorld(world);
    expect(violations, commandOf(world, 'small')).toEqual([]);
  });

  it('have one trace for one seed, whatever was played before', async () => {
    const traceOf = async (seed: number) => (await playWorld(drawWorld(seed))).traceHash;
    const first = await traceOf(9);
    const other = await traceOf(13);
    expect(other).not.toBe(first);
    expect([await traceOf(13), await traceOf(9)]).toEqual([other, first]);
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
