/** A clock that is wrong, and drifts, within what the spec allows. */
import { SKEW_MS } from '../spec.ts';
import { type Fault, listOf, numberOf } from './fault.ts';

export const skew: Fault = {
  name: 'skew',
  draw: (draws, world) => ({
    worker: draws.whole(0, world.workers - 1),
    aheadMs: draws.whole(-SKEW_MS / 2, SKEW_MS / 2),
    gainPpm: draws.whole(-200, 200),
  }),
  begin: (parameters, stage) =>
    stage.setClock(
      numberOf(parameters, 'worker'),
      numberOf(parameters, 'aheadMs'),
      numberOf(parameters, 'gainPpm'),
    ),
  endSeconds: () => 0,
};

/** All clocks are wrong, some as far ahead as others are behind: the first views of a round seem to come too early. */
export const clocksApart: Fault = {
  name: 'clocks-apart',
  draw: (draws, world) => ({
    aheadMs: Array.from(
      { length: world.workers },
      () => (draws.pick([-1, 1]) * draws.whole(SKEW_MS >> 1, SKEW_MS)) >> 1,
    ),
  }),
  begin(parameters, stage) {
    for (const [worker, aheadMs] of listOf(parameters, 'aheadMs').entries()) {
      if (worker < stage.world.workers) stage.setClock(worker, aheadMs, 0);
    }
  },
  endSeconds: () => 0,
};
