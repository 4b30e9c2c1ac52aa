/** `nostrain placement`: who keeps which objects under a placement document, and why. */
import { Command } from 'commander';
import { placementCheck } from './check.ts';

export const placement = (): Command =>
  new Command('placement')
    .description('say who keeps checkpoints and results of a run, and why each rule holds')
    .addCommand(placementCheck());
