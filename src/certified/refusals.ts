/** What a round drops, and why: told as it comes, kept for the end of the round, in bounded number. */
import type { Refusal } from '../consensus/round/round-state.ts';
import type { Unreadable } from '../network/wire/certified-events.ts';
import type { Rejection } from '../run/contribution.ts';
import type { EventId } from '../run/ids.ts';
import type { Signed } from '../run/vote.ts';
import type { DriverPorts } from './driven-round.ts';

export interface Refusals {
  readonly list: readonly Rejection[];
  /** With an id it counts once: relays bring the same again and again. */
  note(rejection: Rejection, id: EventId | undefined): void;
  /** An event of a kind of ours that says nothing of any use. */
  noteUnreadable(event: Signed<Unreadable>): void;
  /** What the round machine did not take. */
  noteRefusal(refusal: Refusal): void;
}

/** A flood costs no more memory than this. */
const MOST = 1000;

const VOTES: Readonly<Record<Extract<Refusal, { readonly key: string }>['code'], string>> = {
  'not-a-member': 'a vote without a seat',
  'other-history': 'a vote after another outcome',
  'other-committee': 'a vote before another committee',
  'too-early': 'a vote from beyond what clocks allow',
  'too-many': 'more than two contents in one place',
};

/** None yet. */
export function createRefusals(
  round: number,
  { tell, branches }: Pick<DriverPorts, 'tell' | 'branches'>,
): Refusals {
  const list: Rejection[] = [];
  const noted = new Set<string>();
  function note(rejection: Rejection, of: string | undefined): void {
    const name = of && `${rejection.reason} ${of}`;
    if (list.length >= MOST || (name && noted.has(name))) return;
    if (name) noted.add(name);
    list.push(rejection);
    tell.refused(round, rejection);
  }
  return {
    list,
    note,
    noteUnreadable({ id, key, reason }) {
      note({ reason, worker: key, detail: 'it says nothing of any use' }, id);
    },
    noteRefusal(refusal) {
      if (refusal.code === 'conflicting-finalize') {
        tell.conflict(refusal.round, refusal.expected, refusal.got);
        branches.hint();
      } else if ('key' in refusal) {
        const { code, key } = refusal;
        if (code === 'other-history') branches.hint(key);
        note({ reason: code, worker: key, detail: VOTES[code] }, `vote of ${key}`);
      }
    },
  };
}
