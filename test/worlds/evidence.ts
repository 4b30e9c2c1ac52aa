/** All that workers of a world sent, as evidence for a replay and for fault proofs. */
import { type Gathered, gather, genesisOf, replay, startOf } from 'nostrain/certified/parts';
import type { SignedEvent } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { runIdOf } from 'nostrain/run';
import type { Chronicle } from './chronicle.ts';
import { keyedCrypto } from './keyed-crypto.ts';

export interface Evidence {
  readonly sent: readonly SignedEvent[];
  readonly gathered: Gathered;
}

const made = new WeakMap<Chronicle, Evidence>();

export function evidenceOf(chronicle: Chronicle): Evidence {
  const known = made.get(chronicle);
  if (known) return known;
  const { world, spec, parsed } = chronicle;
  const sent = chronicle.sent();
  const crypto = world.isReal ? nativeCrypto : keyedCrypto;
  const gathered = gather(sent, { run: runIdOf(spec), spec }, { crypto, read: parsed });
  const evidence = { sent, gathered };
  made.set(chronicle, evidence);
  return evidence;
}

/** Replays the run; returns the final model root, and what is wrong with rounds that cannot be checked in full. */
export function replayOf(chronicle: Chronicle): {
  readonly modelRoot: string;
  readonly problems: readonly string[];
} {
  const { spec } = chronicle;
  const playing = replay(genesisOf(spec, startOf(spec)), evidenceOf(chronicle).gathered);
  const problems: string[] = [];
  for (;;) {
    const { done, value } = playing.next();
    if (done) return { modelRoot: value.state.modelRoot, problems };
    const { round, checked, invalid, missing } = value;
    if (checked === 'full') continue;
    const why = invalid?.message ?? missing?.map(({ what, id }) => `${what} ${id}`).join(', ');
    problems.push(`round ${round} is checked '${checked}': ${why}`);
  }
}
