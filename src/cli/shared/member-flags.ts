/** Flags of somebody who takes part in a run with a spec: stakes, branch, endpoints of chains, private relays. */

import { type Command, Option } from 'commander';
import { isHex32 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import type { Digest } from '../../run/ids.ts';
import {
  addFlags,
  type Flag,
  type FlagValues,
  parsed,
  text,
  toggle,
} from '../../terminal/flag-table.ts';
import { endpointFlags } from './endpoints.ts';
import { holdFlags } from './holder-flags.ts';

/** What following a run from its relays takes: its stakes, and endpoints of chains. */
export const followFlags = {
  stake: text('<file>', 'stake snapshot of the run (default: from its relays)'),
  ...endpointFlags,
};

/** The leave to dial relays that an address names. */
export const privateRelaysFlag = toggle(
  'dial relays on this machine or in a private network too where naddr1… names them',
);

const outcome = (help: string): Flag<Digest | undefined> =>
  parsed('<digest>', help, (text, flag) => {
    if (isHex32(text)) return text;
    throw new ConfigError(`flag/${flag.slice(2)}`, `${flag} ${text} is no outcome`, {
      hint: 'give the 64 hex digits that a worker or `nostrain replay` named at the fork',
    });
  });

/** Which history a member or a replay takes; `trust` is an outcome that any history must contain. */
export const historyFlags = {
  branch: outcome('where the run has forked: an outcome of the branch to be on'),
  trust: outcome('an outcome that somebody you trust vouches for; a history without it is refused'),
};

const memberFlags = { ...historyFlags, ...followFlags, ...holdFlags };

export type MemberFlags = FlagValues<typeof memberFlags>;

export const addMemberFlags = (command: Command): Command => addFlags(command, memberFlags);

/** Those that follow a run, and the leave to dial private relays. */
export const followFlagNames: readonly string[] = [
  ...Object.keys(followFlags),
  'allowPrivateRelays',
];

export const memberFlagNames: readonly string[] = [
  ...Object.keys(memberFlags),
  'allowPrivateRelays',
];

export const hintOption = (): Option =>
  new Option('--allow-private-relays', privateRelaysFlag.help);
