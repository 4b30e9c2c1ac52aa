/**
 * A network in two parts, which heals: some workers reach only some relays, the others only the rest. Or only one way is
 * lost: workers hear and cannot speak, or speak and do not hear.
 */
import { drawMoment, drawSeconds, type Fault, listOf, numberOf } from './fault.ts';

const upTo = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => i);

const some = (count: number, isIn: () => boolean): readonly number[] => upTo(count).filter(isIn);

export const partition: Fault = {
  name: 'partition',
  draw: (draws, world) => ({
    at: drawMoment(draws, world),
    seconds: drawSeconds(draws, 5, 120),
    workers: some(world.workers, () => draws.chance(0.4)),
    relays: some(world.relays, () => draws.chance(0.5)),
  }),
  begin(parameters, stage) {
    const from = numberOf(parameters, 'at');
    const workers = new Set(listOf(parameters, 'workers'));
    const relays = new Set(listOf(parameters, 'relays'));
    const to = from + numberOf(parameters, 'seconds');
    stage.sever(from, to, (worker, relay) => workers.has(worker) !== relays.has(relay));
  },
  endSeconds: (parameters) => numberOf(parameters, 'at') + numberOf(parameters, 'seconds'),
};

/** Some workers lose what they send to some relays, or what these send; no connection ends. */
export const oneWay: Fault = {
  ...partition,
  name: 'one-way',
  draw: (draws, world) => ({
    ...partition.draw(draws, world),
    workers: some(world.workers, () => draws.chance(0.6)),
    relays: some(world.relays, () => draws.chance(0.8)),
    way: draws.pick(['up', 'down']),
  }),
  begin(parameters, stage) {
    const from = numberOf(parameters, 'at');
    const workers = new Set(listOf(parameters, 'workers'));
    const relays = new Set(listOf(parameters, 'relays'));
    const to = from + numberOf(parameters, 'seconds');
    const isOnWay = (worker: number, relay: number) => workers.has(worker) && relays.has(relay);
    stage.lose(from, to, (worker, relay, way) => way === parameters.way && isOnWay(worker, relay));
  },
};

/**
 * Half of the workers reach only half of the relays, the others only the other half, for longer than a round: two small
 * quorums would decide two outcomes.
 */
export const halves: Fault = {
  ...partition,
  name: 'halves',
  isCertified: true,
  draw(draws, world) {
    if (world.relays < 2) return undefined;
    const from = draws.whole(0, world.workers - 1);
    const count = world.workers >> 1;
    return {
      at: drawMoment(draws, world),
      seconds: drawSeconds(draws, 60, 240),
      workers: upTo(count).map((i) => (from + i) % world.workers),
      relays: upTo(draws.whole(1, world.relays - 1)),
    };
  },
};
