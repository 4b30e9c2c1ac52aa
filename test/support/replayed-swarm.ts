/** What a swarm of certified workers left on a relay, replayed from there. */
import { systemClock } from '../../src/base/clock.ts';
import { fetchHistory } from '../../src/cli/history/from-relays.ts';
import type { SignedEvent } from '../../src/network/event.ts';
import { createRelaySet } from '../../src/network/transport/relay-set.ts';
import { nativeCrypto } from '../../src/node/native-crypto.ts';
import { openSocket } from '../../src/node/sockets.ts';
import { type RunSpec, runIdOf } from '../../src/run/run-spec.ts';
import { type Gathered, gather } from '../../src/worker/certified/gather.ts';
import { genesisOf } from '../../src/worker/certified/history.ts';
import { type ReplayedRound, replay } from '../../src/worker/certified/replay.ts';
import { smallLayout } from './swarm.ts';

export interface ReplayedSwarm {
  readonly rounds: readonly ReplayedRound[];
  readonly gathered: Gathered;
}

/** Everything on the relay, replayed from zeros. */
export async function replaySwarm(url: string, spec: RunSpec): Promise<ReplayedSwarm> {
  const run = runIdOf(spec);
  const relays = createRelaySet([url], { openSocket, clock: systemClock, crypto: nativeCrypto });
  await relays.ready();
  const { signal } = new AbortController();
  const events: readonly SignedEvent[] = await fetchHistory(run, { relays, signal, tell() {} });
  await relays.close();
  const gathered = gather(events, { run, spec }, { crypto: nativeCrypto });
  const zeros = { layout: smallLayout, values: new Float32Array(smallLayout.size) };
  const playing = replay(genesisOf(spec, zeros), gathered);
  const rounds: ReplayedRound[] = [];
  for (let next = playing.next(); !next.done; next = playing.next()) rounds.push(next.value);
  return { rounds, gathered };
}
