/** Flags of a member of a run with a spec: stakes, branch, endpoints of chains, private relays. */

import { isHex32 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import type { Digest } from '../../run/ids.ts';
import { type Flag, type FlagValues, parsed, text, toggle } from '../../terminal/flag-table.ts';
import { endpointFlags } from './endpoints.ts';
import { holdFlags } from './holder-flags.ts';

/** Flags for following a run from its relays: its stakes, and endpoints of chains. */
export const followFlags = {
  stake: text('<file>', 'stake snapshot of the run (default: from its relays)'),
  ...endpointFlags,
};

/** Permission to dial private addresses of relays that an naddr names. */
export const privateRelaysFlag = toggle(
  'also dial relays on this machine or a private network that naddr1… names',
);

const outcome = (help: string): Flag<Digest | undefined> =>
  parsed('<digest>', help, (text, flag) => {
    if (isHex32(text)) return text;
    throw new ConfigError(`flag/${flag.slice(2)}`, `${flag} ${text} is not an outcome`, {
      hint: 'give the 64 hex digits that a worker or `nostrain replay` printed at the fork',
    });
  });

/** Flags that choose a history; `trust` is an outcome that the history must contain. */
export const historyFlags = {
  branch: outcome('if the run has forked: an outcome of the branch to follow'),
  trust: outcome('an outcome you trust; a history without it is refused'),
};

export const memberFlags = { ...historyFlags, ...followFlags, ...holdFlags };

export type MemberFlags = FlagValues<typeof memberFlags>;

/** Names of the flags that follow a run, and of the permission for private relays. */
export const followFlagNames: readonly string[] = [
  ...Object.keys(followFlags),
  'allowPrivateRelays',
];

export const memberFlagNames: readonly string[] = [
  ...Object.keys(memberFlags),
  'allowPrivateRelays',
];
