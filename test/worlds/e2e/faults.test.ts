/** Each fault happens: workers send other events than without it, and no invariant breaks. */
import { setMaxListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { drawsOf } from '../draws.ts';
import type { Fault } from '../faults/fault.ts';
import { faults } from '../faults/list.ts';
import type { Document } from '../features.ts';
import { playWorld } from '../play.ts';
import type { World } from '../world.ts';

// workers wait for many things with one signal each
setMaxListeners(0);

const worldOf = (document: Document): World => ({
  ...{ seed: 1, run: 'certified', workers: 4, founders: 4, relays: 2, dialects: ['ours'] },
  ...{ rounds: 2, trainSeconds: [9, 12], document, isReal: false, faults: [] },
});

/** The first that suits a fault is played. */
const worlds: readonly World[] = [
  worldOf({}),
  worldOf({ scores: true, screening: true }),
  worldOf({ jury: 2, rerun: { permille: 1000, relays: ['wss://relay0.example'] } }),
  worldOf({ training: { model: 'mlp', hidden: [12_000], packing: 'int8' } }),
];

/** Draws of a fault; at least one of them has to happen before the run is over. */
const DRAWS = 5;

const sentIn = async (world: World): Promise<string> => {
  const { violations, chronicle } = await playWorld(world);
  expect(violations).toEqual([]);
  return chronicle
    .sent()
    .map(({ event }) => event.id)
    .sort()
    .join();
};

const undisturbed = new Map<World, Promise<string>>();

function undisturbedOf(world: World): Promise<string> {
  const made = undisturbed.get(world) ?? sentIn(world);
  undisturbed.set(world, made);
  return made;
}

/** Returns the worlds with one occurrence of a fault. */
function* disturbed({ name, draw }: Fault): Generator<readonly [quiet: World, world: World]> {
  for (let i = 0; i < DRAWS; i++) {
    for (const quiet of worlds) {
      const parameters = draw(drawsOf(i, 'only', name), quiet);
      if (!parameters) continue;
      yield [quiet, { ...quiet, faults: [{ fault: name, ...parameters }] }];
      break;
    }
  }
}

describe('a world with one fault', () => {
  it.each(faults.map((fault) => [fault.name, fault] as const))('%s', async (_, fault) => {
    for (const [quiet, world] of disturbed(fault)) {
      if ((await sentIn(world)) !== (await undisturbedOf(quiet))) return;
    }
    expect.fail('no worker sent anything else');
  });
});
