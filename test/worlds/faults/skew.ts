/** A clock that is wrong, and drifts, within what the spec allows. */
import { SKEW_MS } from '../spec.ts';
import { type Fault, numberOf } from './fault.ts';

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
