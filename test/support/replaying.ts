/** A certified run of the tests' swarm, replayed from what a relay holds. */
import { systemClock } from '../../src/base/async.ts';
import { type Certified, genesisOf } from '../../src/certified/decisions/chain.ts';
import { openAccepted } from '../../src/certified/decisions/contributions.ts';
import type { Gathered } from '../../src/certified/decisions/evidence.ts';
import {
  hasModel,
  type ReplayEnd,
  type ReplayedRound,
  replay,
} from '../../src/certified/decisions/replay.ts';
import { gather } from '../../src/certified/history/gather.ts';
import { fetchHistory } from '../../src/certified/history/history.ts';
import type { SignedEvent } from '../../src/network/event.ts';
import { createRelaySet, type RelaySetOptions } from '../../src/network/transport/relay-set.ts';
import { nativeCrypto } from '../../src/node/native/event-crypto.ts';
import { openSocket } from '../../src/node/net/relays.ts';
import type { Digest, WorkerId } from '../../src/run/ids.ts';
import { type RunSpec, runIdOf } from '../../src/run/spec/run-spec.ts';
import type { Layout } from '../../src/tensor/params.ts';
import { CHUNK_LENGTH } from '../../src/tensor/partial-vector.ts';
import { smallLayout } from './swarm.ts';

/** How a relay is reached. */
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
