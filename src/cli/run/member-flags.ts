/** Flags by which a worker of a run with a spec says where the run's numbers from outside come from. */
import type { Command } from 'commander';
import { isHex32 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import type { Digest } from '../../run/ids.ts';
import { addEndpointFlags, type EndpointFlags } from '../stake/access.ts';

export interface MemberFlags extends EndpointFlags {
  readonly stake?: string;
  readonly branch?: Digest;
}

/** An outcome by its digest. */
function outcomeFlag(text: string): Digest {
  if (isHex32(text)) return text;
  throw new ConfigError('flag/branch', `--branch ${text} is no outcome`, {
    hint: 'give the 64 hex digits that a worker or `nostrain replay` named at the fork',
  });
}

/** Adds `--stake`, `--branch` and the endpoints of chains. */
export const addMemberFlags = (command: Command): Command =>
  addEndpointFlags(
    command
      .option('--stake <file>', 'stake snapshot of the run (default: from its relays)')
      .option(
        '--branch <digest>',
        'where the run has forked: an outcome of the branch to be on',
        outcomeFlag,
      ),
  );
