/** `nostrain run`: runs that have a spec, so that everybody knows by one id what all do alike. */
import { Command } from 'commander';
import { createRun } from './create.ts';
import { inspectRun, listOfRuns } from './inspect.ts';
import { joinRun } from './join.ts';
import { leaveRun } from './leave.ts';

export const run = (): Command =>
  new Command('run')
    .description('make a run, show one, list those on relays, join one, leave it')
    .addCommand(createRun())
    .addCommand(inspectRun())
    .addCommand(listOfRuns())
    .addCommand(joinRun())
    .addCommand(leaveRun());
