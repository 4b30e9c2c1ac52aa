/** A network in two parts, which heals: some workers reach only some relays, the others only the rest. */
import { drawMoment, drawSeconds, type Fault, listOf, numberOf } from './fault.ts';

const some = (count: number, isIn: () => boolean): readonly number[] =>
  Array.from({ length: count }, (_, i) => i).filter(isIn);

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
