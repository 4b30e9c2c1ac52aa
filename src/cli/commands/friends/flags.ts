/** Flags of `host` and `join`. */
import { namesIn } from '../../../run/settings.ts';
import {
  choice,
  type FlagValues,
  settingFlags,
  text,
  toggle,
  whole,
} from '../../../terminal/flag-table.ts';
import { tabFlag } from '../../shared/tab-link.ts';
import type { JoinFlags } from '../run/join.ts';

/** How many people can train together from the start. */
export const LEAST_PEOPLE = 2;
export const MOST_PEOPLE = 64;

export const friendFlags = {
  headless: toggle('ask nothing, and print plain progress to stderr'),
  json: toggle('as --headless, and print one JSON document about the rounds at the end'),
};

export type FriendFlags = FlagValues<typeof friendFlags>;

/** Reports whether no person watches: no questions, no keys, progress on stderr. */
export const isHeadless = ({ headless, json }: FriendFlags): boolean =>
  headless === true || json === true;

export const hostFlags = {
  people: whole('<n>', 'people to start with, you included', LEAST_PEOPLE, MOST_PEOPLE),
  ...settingFlags(['relay', 'base', ...namesIn('training', 'adapter', 'input')]),
  lan: toggle('run a relay that machines in your network reach'),
  tab: tabFlag,
  mirror: text('<url>', 'Blossom server for a text or base too large for the relays'),
  quorum: choice('<rule>', 'share that must agree: more than half (cft), or two thirds (bft)', [
    'cft',
    'bft',
  ]),
  open: toggle('let in everybody who sees the lobby on its relays, without a secret'),
  ...friendFlags,
};

/** Flags of `host`, and those of `run join` with their defaults. */
export type HostFlags = JoinFlags & FlagValues<typeof hostFlags>;
