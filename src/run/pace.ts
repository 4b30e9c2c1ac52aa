/** Time-based local steps: workers train for so many seconds in a round, so that each takes as many steps as fit its speed. */
import { fields } from './options.ts';
import type { Settings } from './settings.ts';

/** The section `pace` of a spec, and the same settings of a run without one. */
export type Pace = Pick<Settings, 'innerSeconds' | 'leastSteps'>;

/** The pace of a run that does not set one: a fixed number of steps. */
export const usualPace: Pace = {
  innerSeconds: fields.innerSeconds.default,
  leastSteps: fields.leastSteps.default,
};

/** Whether a contribution of so many steps keeps to the run. */
export const isInPace = (
  steps: number,
  { innerSeconds, leastSteps }: Pace,
  innerSteps: number,
): boolean =>
  innerSeconds === 0 ? steps === innerSteps : steps >= leastSteps && steps <= innerSteps;
