/** All that workers of a world sent, as evidence for a replay and for fault proofs. */
import {
  type Gathered,
  gather,
  genesisOf,
  type ReplayedRound,
  replay,
  startOf,
} from 'nostrain/certified/parts';
import { archivedVotes } from 'nostrain/kinds';
import type { EventCrypto, SignedEvent } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { runIdOf } from 'nostrain/run';
import { readArchivedVotes } from '../../src/certified/wire/archived-votes.ts';
import { chainRecords } from './chain.ts';
import type { Chronicle, Sent } from './chronicle.ts';
import { keyedCrypto } from './keyed-crypto.ts';
import type { World } from './world.ts';

export interface Evidence {
  readonly sent: readonly Sent[];
  readonly gathered: Gathered;
}

export const cryptoOf = ({ isReal }: World): EventCrypto => (isReal ? nativeCrypto : keyedCrypto);

const made = new WeakMap<Chronicle, Evidence>();

export function evidenceOf(chronicle: Chronicle): Evidence {
  const known = made.get(chronicle);
  if (known) return known;
  const { world, spec, parsed } = chronicle;
  const sent = chronicle.sent();
  const crypto = cryptoOf(world);
  const events = sent.flatMap(({ event }) => [event, ...archivedIn(event, chronicle)]);
  const options = { crypto, read: parsed, ...chainRecords(chronicle) };
  const gathered = gather(events, { run: runIdOf(spec), spec }, options);
  const evidence = { sent, gathered };
  made.set(chronicle, evidence);
  return evidence;
}

/**
 * Returns the votes in an archive. Some were sent to no relay by themselves: those that a hostile member withheld, and a
 * commit that waited for a rate limit until the run was over.
 */
function archivedIn(event: SignedEvent, { world, spec }: Chronicle): readonly SignedEvent[] {
  if (event.kind !== archivedVotes.kind) return [];
  const read = readArchivedVotes(event, runIdOf(spec), cryptoOf(world));
  return read.ok && !('root' in read.value) ? read.value : [];
}

interface Replayed {
  readonly rounds: readonly ReplayedRound[];
  readonly modelRoot: string;
}

const replayed = new WeakMap<Chronicle, Replayed>();

/** Replays the run from the events that workers sent. */
export function replayOf(chronicle: Chronicle): Replayed {
  const known = replayed.get(chronicle);
  if (known) return known;
  const { spec } = chronicle;
  const playing = replay(genesisOf(spec, startOf(spec)), evidenceOf(chronicle).gathered);
  const rounds: ReplayedRound[] = [];
  for (;;) {
    const { done, value } = playing.next();
    if (!done) rounds.push(value);
    else {
      const made = { rounds, modelRoot: value.state.modelRoot };
      replayed.set(chronicle, made);
      return made;
    }
  }
}
