/** `nostrain run`: commands for runs with a spec, whose id fixes all rules of the run. */
import { Command } from 'commander';
import { createRun } from './create.ts';
import { inspectRun, listOfRuns } from './inspect.ts';
import { inviteToRun } from './invite.ts';
import { joinRun } from './join.ts';
import { leaveRun } from './leave.ts';

export const run = (): Command =>
  new Command('run')
    .description('create a run, inspect one, list those on relays, invite keys, join one, leave it')
    .addCommand(createRun())
    .addCommand(inspectRun())
    .addCommand(listOfRuns())
    .addCommand(inviteToRun())
    .addCommand(joinRun())
    .addCommand(leaveRun());
