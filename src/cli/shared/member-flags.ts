/** Flags of somebody who takes part in a run with a spec: stakes, branch, endpoints of chains, private relays. */

import { type Command, Option } from 'commander';
import { isHex32 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import type { Digest } from '../../run/ids.ts';
import { addEndpointFlags, type EndpointFlags } from './endpoints.ts';
import { addHoldFlags, type HoldFlags, holdFlagNames } from './holder-flags.ts';

/** What following a run from its relays takes: its stakes, and endpoints of chains. */
export interface FollowFlags extends EndpointFlags {
  readonly stake?: string;
}

export interface MemberFlags extends FollowFlags, HoldFlags {
  readonly branch?: Digest;
  readonly trust?: Digest;
}

export const addMemberFlags = (command: Command): Command =>
  addHoldFlags(addFollowFlags(command.addOption(branchOption()).addOption(trustOption())));

export const addFollowFlags = (command: Command): Command =>
  addEndpointFlags(
    command.option('--stake <file>', 'stake snapshot of the run (default: from its relays)'),
  );

/** Those that follow a run, and the leave to dial private relays. */
export const followFlagNames: readonly string[] = [
  'stake',
  'rpc',
  'agree',
  'rpcTimeout',
  'drand',
  'allowPrivateRelays',
];

export const memberFlagNames: readonly string[] = [
  ...followFlagNames,
  ...holdFlagNames,
  'branch',
  'trust',
];

export const branchOption = (): Option =>
  new Option(
    '--branch <digest>',
    'where the run has forked: an outcome of the branch to be on',
  ).argParser(outcomeOf('branch'));

/** An outcome that any history must contain. */
export const trustOption = (): Option =>
  new Option(
    '--trust <digest>',
    'an outcome that somebody you trust vouches for; a history without it is refused',
  ).argParser(outcomeOf('trust'));

const outcomeOf =
  (name: 'branch' | 'trust') =>
  (text: string): Digest => {
    if (isHex32(text)) return text;
    throw new ConfigError(`flag/${name}`, `--${name} ${text} is no outcome`, {
      hint: 'give the 64 hex digits that a worker or `nostrain replay` named at the fork',
    });
  };

export const hintOption = (): Option =>
  new Option(
    '--allow-private-relays',
    'dial relays on this machine or in a private network too where naddr1… names them',
  );
