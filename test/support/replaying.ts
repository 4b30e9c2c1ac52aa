/** Replays a certified run of the test swarm from the events that a relay stores. */
import { systemClock } from 'nostrain/base';
import {
  type Certified,
  fetchHistory,
  type Gathered,
  gather,
  genesisOf,
  hasModel,
  openAccepted,
  type ReplayedRound,
  replay,
} from 'nostrain/certified/parts';
import { createRelaySet, type RelaySetOptions, type SignedEvent } from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { type Digest, type RunSpec, runIdOf, type WorkerId } from 'nostrain/run';
import { CHUNK_LENGTH, type Layout } from 'nostrain/tensor';
import type { ReplayEnd } from '../../src/certified/decisions/replay.ts';
import { smallLayout } from './swarm.ts';

/** Options for connecting to a relay. */
export type Line = Pick<RelaySetOptions, 'openSocket' | 'clock'>;

/** Round 0 of the tests' swarm: parameters that are zero where no others are given. */
export const zeroStart = (
  spec: RunSpec,
  layout: Layout,
  values: Float32Array = new Float32Array(layout.size),
): Certified => genesisOf(spec, { layout, values });

/** Everything a relay holds of a run. */
export async function historyOf(
  url: string,
  spec: RunSpec,
  layout = smallLayout,
  first?: Float32Array,
  line: Line = { openSocket, clock: systemClock },
): Promise<readonly SignedEvent[]> {
  const { openSocket: open, clock } = line;
  const relays = createRelaySet([url], { openSocket: open, clock, crypto: nativeCrypto });
  try {
    await relays.ready();
    const { signal } = new AbortController();
    const start = () => zeroStart(spec, layout, first);
    return await fetchHistory(runIdOf(spec), { relays, signal, spec, start, crypto: nativeCrypto });
  } finally {
    await relays.close();
  }
}

export interface Replayed {
  readonly rounds: readonly ReplayedRound[];
  readonly end: ReplayEnd;
  readonly gathered: Gathered;
}

/** All rounds, from parameters that are zero. */
export function replayed(
  spec: RunSpec,
  layout: Layout,
  events: readonly SignedEvent[],
  through?: Digest,
  first?: Float32Array,
): Replayed {
  const start = zeroStart(spec, layout, first);
  const gathered = gather(events, { run: runIdOf(spec), spec }, { crypto: nativeCrypto });
  const rounds: ReplayedRound[] = [];
  const playing = replay(start, gathered, through);
  for (;;) {
    const next = playing.next();
    if (next.done) return { rounds, end: next.value, gathered };
    rounds.push(next.value);
  }
}

/** The delta that a worker's row of a round, on time, brought into the model. */
export function deltaOf(
  { rounds, gathered }: Replayed,
  round: number,
  key: WorkerId,
): Float64Array {
  const { before, decided } = rounds[round]!;
  if (!hasModel(before) || decided === undefined) throw new Error(`round ${round} has no model`);
  const rows = openAccepted(before, decided.outcome, gathered);
  if (!rows.ok) throw new Error('rows are missing');
  const row = rows.value.find(({ late, contribution }) => !late && contribution.worker === key)!;
  const { delta } = row.contribution;
  const values = new Float64Array(before.params.layout.size);
  delta.chunks.forEach((chunk, i) => {
    delta.addChunk(i, 1, values, chunk * CHUNK_LENGTH);
  });
  return values;
}
