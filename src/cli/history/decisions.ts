/** Who decided what in a run, from relays. Payloads are left out, and with them the model. */
import type { SignedEvent } from '../../network/event.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import { decisionsFilter } from '../../network/wire/certified-events.ts';
import { snapshotFilter } from '../../network/wire/snapshots.ts';
import { nativeCrypto } from '../../node/native-crypto.ts';
import { type RunSpec, runIdOf } from '../../run/run-spec.ts';
import { type Gathered, gather } from '../../worker/certified/gather.ts';
import { type Chain, genesisOf } from '../../worker/certified/history.ts';
import { replay } from '../../worker/certified/replay.ts';
import { startOf } from '../../worker/certified/start.ts';
import { collectEvents, snapshotsOf } from './from-relays.ts';

interface Options {
  readonly relays: RelaySet;
  readonly signal: AbortSignal;
}

/** Votes, proposals, members and stakes of a run. */
export async function decisionsOf(spec: RunSpec, options: Options): Promise<Gathered> {
  const run = runIdOf(spec);
  const events = new Map<string, SignedEvent>();
  const take = (event: SignedEvent) => void events.set(event.id, event);
  await collectEvents([decisionsFilter(run)], options, take);
  const named = spec.stake.source === 'none' ? [] : [spec.stake.snapshot];
  const snapshots = [...new Set([...named, ...snapshotsOf([...events.values()])])];
  await collectEvents(snapshots.map(snapshotFilter), options, take);
  return gather(events.values(), { run, spec }, { crypto: nativeCrypto });
}

/** Where the run stands: the round in progress, its roster and its entropy. */
export async function standOf(spec: RunSpec, options: Options): Promise<Chain> {
  const playing = replay(genesisOf(spec, startOf(spec)), await decisionsOf(spec, options));
  for (;;) {
    const next = playing.next();
    if (next.done) return next.value.state;
  }
}
