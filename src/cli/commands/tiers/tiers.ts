/** `nostrain tiers`: a model in several widths, for machines that cannot hold all of it. */
import { Command } from 'commander';
import { exportCommand } from './export.ts';
import { inspectCommand } from './inspect.ts';

export const tiers = (): Command =>
  new Command('tiers')
    .description('cut a published model into tiers of width, and see what a machine of one loads')
    .addCommand(exportCommand())
    .addCommand(inspectCommand());
