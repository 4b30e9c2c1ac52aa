/**
 * How long workers train in a round where seconds count instead of steps: each takes as many steps as fit its speed, and its contribution
 * weighs as many examples as it saw.
 */
import { real, whole } from './field.ts';
import type { Group } from './spec/spec-fields.ts';

const DAY_SECONDS = 86_400;

/** Fields of a spec under `pace`, and settings of a run without a spec. */
export const paceFields = {
  innerSeconds: real(
    '--inner-seconds <s>',
    'seconds that each worker trains in a round, at its own speed, at most --inner-steps steps; 0: everybody takes that many steps',
    { from: 0, to: DAY_SECONDS },
  ),
  leastSteps: whole(
    '--least-steps <n>',
    'with --inner-seconds: steps that each worker takes in a round however long they last',
    1,
  ),
} as const satisfies Group;

/** What a run says of it. */
export interface Pace {
  readonly innerSeconds: number;
  readonly leastSteps: number;
}

/** What a run without it means. */
export const usualPace: Pace = { innerSeconds: 0, leastSteps: 1 };

/** The names of the settings. */
export const paceSettings = [
  'innerSeconds',
  'leastSteps',
] as const satisfies readonly (keyof Pace)[];

/** Whether a contribution of so many steps keeps to the run. */
export const isInPace = (
  steps: number,
  { innerSeconds, leastSteps }: Pace,
  innerSteps: number,
): boolean =>
  innerSeconds === 0 ? steps === innerSteps : steps >= leastSteps && steps <= innerSteps;

interface Paced {
  readonly pace: Pace;
  readonly training: { readonly innerSteps: number; readonly weights: string };
}

/** What must hold between them and the rest of a spec. */
export const paceRules = [
  {
    at: 'pace.leastSteps',
    says: 'it is at most training.innerSteps, and 1 where pace.innerSeconds is 0',
    nearest: 'raise --inner-steps, which is the most that anybody takes, or lower --least-steps',
    holds: ({ pace, training }: Paced) =>
      pace.leastSteps <= (pace.innerSeconds === 0 ? 1 : training.innerSteps),
  },
  {
    at: 'pace.innerSeconds',
    says: 'it is 0 unless training.weights is examples: who takes more steps brings more',
    nearest: 'take --weights examples',
    holds: ({ pace, training }: Paced) =>
      pace.innerSeconds === 0 || training.weights === 'examples',
  },
];
