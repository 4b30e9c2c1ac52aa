/** Who decided what in a run, from relays. Payloads are left out, and with them the model. */
import type { SignedEvent } from '../network/event.ts';
import { decisionsFilter } from '../network/wire/certified-events.ts';
import type { BeaconSource } from '../run/beacon-source.ts';
import type { Digest } from '../run/ids.ts';
import { type RunSpec, runIdOf } from '../run/run-spec.ts';
import { completeBeacons, valueAfter } from './beacons.ts';
import {
  type Asked,
  bodiesOf,
  collectChunks,
  collectEvents,
  collectSnapshots,
  snapshotsOf,
} from './from-relays.ts';
import { type Gathered, type GatherOptions, gather } from './gather.ts';
import { type Chain, genesisOf } from './history.ts';
import { pathOf } from './path.ts';
import { startOf } from './start.ts';

export interface DecisionOptions extends Asked {
  /** Where the run has a beacon; without it the history ends with the first round that needs a value. */
  readonly beacon?: BeaconSource | undefined;
  /** Tables of stake that no relay has. */
  readonly tables?: GatherOptions['tables'] | undefined;
}

/** What decided a run. */
export interface Decisions {
  readonly gathered: Gathered;
  /** The same, and what these events bring beside. */
  with(more: readonly SignedEvent[]): Gathered;
}

/** Votes, proposals, members, stakes and beacon values of a run. */
export async function decisionsOf(
  spec: RunSpec,
  start: Chain,
  options: DecisionOptions,
): Promise<Decisions> {
  const { beacon, tables, signal } = options;
  const run = runIdOf(spec);
  const events = new Map<string, SignedEvent>();
  const take = (event: SignedEvent) => void events.set(event.id, event);
  await collectEvents([decisionsFilter(run)], options, take);
  await collectChunks(bodiesOf([...events.values()]), options, take);
  const named = spec.stake.source === 'none' ? [] : [spec.stake.snapshot];
  const snapshots = [...new Set([...named, ...snapshotsOf([...events.values()])])];
  const missing = snapshots.filter((id) => !tables?.has(id));
  await collectSnapshots(missing, options, take);
  const beacons = new Map<number, Digest>();
  const known = { beacons, crypto: options.crypto, ...(tables && { tables }) };
  const gathered = gather(events.values(), { run, spec }, known);
  const decisions: Decisions = {
    gathered,
    with: (more) => gather([...events.values(), ...more], { run, spec }, known),
  };
  if (beacon === undefined) return decisions;
  // what is not there yet is of a round that nobody decided without it
  const find = (time: number) => valueAfter(spec, beacon, time, signal).catch(() => undefined);
  await completeBeacons(start, gathered, beacons, find);
  signal.throwIfAborted();
  return decisions;
}

/** Where the run stands: the round in progress, its roster and its entropy. */
export async function standOf(spec: RunSpec, options: DecisionOptions): Promise<Chain> {
  const start = genesisOf(spec, startOf(spec));
  return pathOf(start, (await decisionsOf(spec, start, options)).gathered).tip.chain;
}
