/** Flags by which a worker of a run with a spec says where the run's numbers from outside come from. */
import type { Command } from 'commander';
import type { Digest } from '../../run/ids.ts';
import { branchOption } from '../branch-option.ts';
import { addEndpointFlags, type EndpointFlags } from '../stake/access.ts';

export interface MemberFlags extends EndpointFlags {
  readonly stake?: string;
  readonly branch?: Digest;
}

/** Adds `--stake`, `--branch` and the endpoints of chains. */
export const addMemberFlags = (command: Command): Command =>
  addEndpointFlags(
    command
      .option('--stake <file>', 'stake snapshot of the run (default: from its relays)')
      .addOption(branchOption()),
  );
