/** `nostrain run`: commands for runs with a spec, whose id fixes all rules of the run. */

import { defineGroup } from '../../../terminal/command.ts';
import { announceRun } from './announce.ts';
import { createRun } from './create.ts';
import { forkRun } from './fork.ts';
import { inspectRun, listOfRuns } from './inspect.ts';
import { inviteToRun } from './invite.ts';
import { joinRun } from './join.ts';
import { leaveRun } from './leave.ts';

export const run = defineGroup(
  'run',
  'create, fork, inspect, announce, list, join and leave runs, and invite keys',
  [createRun, announceRun, forkRun, inspectRun, listOfRuns, inviteToRun, joinRun, leaveRun],
);
