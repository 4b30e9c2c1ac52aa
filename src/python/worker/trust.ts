/**
 * Which of the checkpoints on the relays to go on from. The highest round proves nothing, since anybody can claim it: a state
 * counts when its author is named or is this worker itself, or when more authors than may lie publish the same one.
 */

import type { WorkerId } from '../../run/ids.ts';
import { agreements, newestAgreed } from '../collect/agreement.ts';
import type { CheckpointEvent } from '../collect/checkpoints.ts';
import type { Kept } from '../collect/event-collector.ts';
import { textsOf } from '../wire/round-record.ts';

export type FoundCheckpoint = Kept<CheckpointEvent>;

export interface Trust {
  /** The own key. */
  readonly me: WorkerId;
  /** Authors that are believed; when there are any, nobody else is. */
  readonly authors: readonly WorkerId[];
  /** Of authors nobody named, how many may lie: one more must publish the same state. */
  readonly faults: number;
}

export interface Choice {
  readonly checkpoint: FoundCheckpoint;
  /** Whether its author is believed in everything, not only in the state that others publish too. */
  readonly isVouched: boolean;
}

export interface Judgement {
  readonly choice: Choice | undefined;
  /** Those that claim a later state than the one chosen. */
  readonly refused: readonly { readonly checkpoint: FoundCheckpoint; readonly why: string }[];
}

/** The newest checkpoint that can be trusted. */
export function chooseCheckpoint(found: readonly FoundCheckpoint[], trust: Trust): Judgement {
  const { me, authors, faults } = trust;
  const isNamed = ({ read, event }: FoundCheckpoint) =>
    authors.length > 0 ? authors.includes(read.said.worker) : event.pubkey === me;
  const vouched = newest(found.filter(isNamed));
  const voices = authors.length > 0 ? [] : found.filter(mayVote(vouched, me));
  const states = agreements(voices);
  const agreed = newestAgreed(states, faults);
  const shared = agreed && newest(agreed.checkpoints);
  const choice = choose(vouched, shared);
  const from = choice ? nextRound(choice.checkpoint) : -1;
  const refused = found
    .filter((one) => nextRound(one) > from)
    .map((checkpoint) => {
      if (authors.length > 0) return { checkpoint, why: 'its author is not the one asked for' };
      const said = states.find(({ checkpoints }) => checkpoints.includes(checkpoint));
      const count = said?.authors.length ?? 0;
      return { checkpoint, why: `${count} of ${faults + 1} authors needed publish this state` };
    });
  return { choice, refused };
}

/** Who has trained with this worker before may speak for a state; where it has no past, anybody may. */
function mayVote(own: FoundCheckpoint | undefined, me: WorkerId) {
  const known = new Set(own?.read.body.rounds.flatMap((round) => textsOf(round.collected_workers)));
  return ({ read: { said }, event: { pubkey } }: FoundCheckpoint) => {
    // one key can make up any number of names
    if (said.worker !== pubkey) return false;
    return own === undefined || pubkey === me || known.has(pubkey);
  };
}

function choose(
  vouched: FoundCheckpoint | undefined,
  shared: FoundCheckpoint | undefined,
): Choice | undefined {
  if (vouched && (!shared || nextRound(vouched) >= nextRound(shared))) {
    return { checkpoint: vouched, isVouched: true };
  }
  return shared && { checkpoint: shared, isVouched: false };
}

const nextRound = ({ read }: FoundCheckpoint): number => read.said.nextRound;

const newest = (found: readonly FoundCheckpoint[]): FoundCheckpoint | undefined =>
  [...found].sort(
    (a, b) =>
      nextRound(b) - nextRound(a) || b.createdAt - a.createdAt || (a.eventId < b.eventId ? -1 : 1),
  )[0];
