/** The page's side of `npm run bench:tab`: trains in Web Workers as a tab does. */
import { createTabTrainer } from '../../../src/browser/trainer.ts';
import { timeSteps } from './steps.ts';

Reflect.set(globalThis, 'timeTab', (options: { steps: number; threads: number }) =>
  timeSteps(createTabTrainer, options),
);
