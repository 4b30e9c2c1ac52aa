/** Problems of a certified round, in words. */
import type { RunEvent } from '../certified/rounds/events.ts';
import { roundName, roundNumber } from '../run/round-name.ts';

type Trouble = 'stalled' | 'voids' | 'fault' | 'conflict' | 'fork' | 'switched' | 'screened';

/** Describes a problem in a certified round. */
export function troubleOf(event: Extract<RunEvent, { type: Trouble }>): string {
  const at = roundName(event.round);
  switch (event.type) {
    case 'stalled': {
      const attempt = event.attempt === 0 ? '' : ` in recovery epoch ${event.attempt}`;
      const silent = event.missing.map(short).join(', ');
      const why = silent === '' ? '' : `: no vote from ${silent}`;
      return `Round ${roundNumber(event.round)} is not decided yet${attempt}${why}. Trying again.`;
    }
    case 'voids':
      return `${at}: ALERT, ${event.count} rounds in a row were void: nobody's work counts; find out who is missing, or make a new run that waits longer (run create with a larger --timing-grace-min-ms)`;
    case 'fault':
      return `${at}: FAULT, ${short(event.worker)} is proven to have broken the rules (${event.kind})`;
    case 'screened': {
      const { worker, gain, bound } = event;
      const loss = gain === null ? 'to no number any more' : `by ${(-gain).toPrecision(3)}`;
      return `${at}: SCREENED, what ${short(worker)} sent raises the loss ${loss} on data of this worker, ${(-bound).toPrecision(3)} is allowed`;
    }
    case 'conflict':
      return `${at}: CONFLICT, ${short(event.expected)} is certified and so is ${short(event.got)}`;
    case 'fork':
      return `${at}: FORK since ${roundName(event.fork)}, ${STAYS[event.obstacle](event)}`;
    case 'switched': {
      const { fork, depth, ours, theirs } = event;
      const branches = `from ${short(ours)} to ${short(theirs)}`;
      return `${at}: SWITCHED ${branches}: the run forked in ${roundName(fork)}, ${depth} of this worker's rounds are undone`;
    }
  }
}

type Fork = Extract<RunEvent, { type: 'fork' }>;

/** Why a worker does not follow another branch automatically, and what its user can do. */
const STAYS: Readonly<Record<Fork['obstacle'], (fork: Fork) => string>> = {
  'too-deep': ({ depth, ours, theirs }) =>
    `${depth} rounds would be undone, more than the run lets a worker decide: start again with --branch ${theirs} to follow, --branch ${ours} to stay`,
  'ours-unseen': ({ theirs }) =>
    `and no relay here has this worker's branch to compare with: ask more relays, or start again with --branch ${theirs} to follow the other one`,
  'not-whole': ({ theirs }) =>
    `${short(theirs)} is better, but not all of what it counts is on a relay; it is asked for again`,
};

const short = (id: string): string => id.slice(0, 8);
