/** `nostrain model`: published models, in the files that others trained them into, and out again. */
import { Command } from 'commander';
import { exportModel } from './export.ts';
import { inspect } from './inspect.ts';

export const model = (): Command =>
  new Command('model')
    .description('look at published models, and take what was made of them elsewhere')
    .addCommand(inspect())
    .addCommand(exportModel());
