/** `nostrain model`: published models, in the files that others trained them into. */
import { Command } from 'commander';
import { inspect } from './inspect.ts';

export const model = (): Command =>
  new Command('model').description('look at published models').addCommand(inspect());
