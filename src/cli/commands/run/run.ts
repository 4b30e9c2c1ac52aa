/** `nostrain run`: commands for runs with a spec, whose id fixes all rules of the run. */
import { Command } from 'commander';
import { announceRun } from './announce.ts';
import { createRun } from './create.ts';
import { forkRun } from './fork.ts';
import { inspectRun, listOfRuns } from './inspect.ts';
import { inviteToRun } from './invite.ts';
import { joinRun } from './join.ts';
import { leaveRun } from './leave.ts';

export const run = (): Command =>
  new Command('run')
    .description('create, fork, inspect, announce, list, join and leave runs, and invite keys')
    .addCommand(createRun())
    .addCommand(announceRun())
    .addCommand(forkRun())
    .addCommand(inspectRun())
    .addCommand(listOfRuns())
    .addCommand(inviteToRun())
    .addCommand(joinRun())
    .addCommand(leaveRun());
