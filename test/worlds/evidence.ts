/** All that workers of a world sent, as evidence for a replay and for fault proofs. */
import {
  type Gathered,
  gather,
  genesisOf,
  type ReplayedRound,
  replay,
  startOf,
} from 'nostrain/certified/parts';
import type { EventCrypto } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { runIdOf } from 'nostrain/run';
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
  const events = sent.map(({ event }) => event);
  const gathered = gather(events, { run: runIdOf(spec), spec }, { crypto, read: parsed });
  const evidence = { sent, gathered };
  made.set(chronicle, evidence);
  return evidence;
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
