/** Each fault and feature has an effect: workers send other events than without it, and no invariant breaks. */
import { setMaxListeners } from 'node:events';
import { manifest } from 'nostrain/kinds';
import { describe, expect, it } from 'vitest';
import type { Chronicle } from '../chronicle.ts';
import { drawsOf } from '../draws.ts';
import type { Fault } from '../faults/fault.ts';
import { faults } from '../faults/list.ts';
import { BEACON_LAG, type Document, features, overlay } from '../features.ts';
import { playWorld } from '../play.ts';
import { isAllowed } from '../spec.ts';
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
  { ...worldOf({ machines: 'simulated' }), workers: 5 },
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

describe('a world with one fault; C-12: wrong clocks are among them', () => {
  it.each(faults.map((fault) => [fault.name, fault] as const))('%s', async (_, fault) => {
    for (const [quiet, world] of disturbed(fault)) {
      if ((await sentIn(world)) !== (await undisturbedOf(quiet))) return;
    }
    expect.fail('no worker sent anything else');
  });
});

/** What a feature changes, without the tags and hashes that follow from the spec alone. */
const effects: Readonly<Record<string, (chronicle: Chronicle) => boolean>> = {
  pace: (chronicle) => {
    const manifests = chronicle.sent().filter(({ event }) => event.kind === manifest.kind);
    return new Set(manifests.map(({ event }) => JSON.parse(event.content).examples)).size > 1;
  },
  stakes: ({ outcomes }) =>
    new Set([...outcomes.values()].map((each) => each.features?.stake?.snapshot)).size > 1,
  beacon: ({ saved }) => saved.every(({ round, seconds }) => seconds > (round - 1) * BEACON_LAG),
  placement: ({ disks }) => [...disks.values()].some(({ files }) => files.held.size > 0),
};

describe('a world with a feature of its own', () => {
  it.each(Object.keys(effects))('%s', async (name) => {
    const quiet = { ...worldOf({}), workers: 3, founders: 3, rounds: 3 };
    const { draw } = features.find((each) => each.name === name)!;
    for (let i = 0; i < DRAWS; i++) {
      const document = overlay(quiet.document, draw(drawsOf(i, 'only', name), quiet)!);
      const world = { ...quiet, document };
      expect(isAllowed(world)).toBe(true);
      const { violations, chronicle } = await playWorld(world);
      expect(violations).toEqual([]);
      if (effects[name]!(chronicle)) return;
    }
    expect.fail('it has no effect');
  });
});
