/** Flags by which a worker of a run with a spec says where the run's numbers from outside come from. */
import type { Command } from 'commander';

export interface MemberFlags {
  readonly stake?: string;
}

/** Adds `--stake`. */
export const addMemberFlags = (command: Command): Command =>
  command.option('--stake <file>', 'stake snapshot of the run (default: from its relays)');
