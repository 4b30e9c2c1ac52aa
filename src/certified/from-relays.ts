/** A run's events from relays: the spec, what decided its rounds, snapshots of stake, manifests, and chunks of payloads. Payloads are asked for only where the model is needed. */
import { isHex32 } from '../base/bytes.ts';
import type { Clock } from '../base/clock.ts';
import { heapChunks } from '../network/attachments/assemble.ts';
import { apartIn, MOST_BODY_BYTES } from '../network/attachments/bodies.ts';
import { partsOf } from '../network/attachments/parts.ts';
import type { SignedEvent } from '../network/event.ts';
import type { Filter } from '../network/transport/filter.ts';
import type { RelaySet } from '../network/transport/relay-set.ts';
import {
  decisionsFilter,
  historyFilter,
  manifestsOfFilter,
} from '../network/wire/certified-events.ts';
import { type CopiesClaim, copiesFilters, openCopies, readCopies } from '../network/wire/copies.ts';
import { readManifest } from '../network/wire/manifests.ts';
import { toProposal } from '../network/wire/proposals.ts';
import { MOST_CLAIMS, readSnapshot, snapshotFilter } from '../network/wire/snapshots.ts';
import { chunksFilter, specFilter } from '../network/wire/stored-run.ts';
import type { BeaconSource } from '../run/beacon-source.ts';
import { anyFeatures, featureSet } from '../run/features.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { type RunSpec, runIdOf } from '../run/run-spec.ts';
import type { Chain } from './chain.ts';
import type { Gathered, Hashing } from './evidence.ts';
import { completeBeacons, type GatherOptions, gather, specsOf, valueAfter } from './gather.ts';

/** Which relays are asked, and with what their answers are checked. */
export interface Asked extends Hashing {
  readonly relays: RelaySet;
  readonly signal: AbortSignal;
  /** Default the system's. */
  readonly clock?: Clock;
  /** Told of relays that never said that they have sent all they have: they may have more. */
  onUnanswered?(relays: readonly string[]): void;
}

export interface Asking extends Asked {
  /** Unix seconds: what was signed before is known already. */
  readonly since?: number | undefined;
  /** The run's spec, where no relay may have it. */
  readonly spec?: RunSpec | undefined;
  /** How many events have come by now. */
  onProgress?(have: number): void;
}

const PATIENCE_MS = 60_000;
/** Roots in one filter, and rounds. */
const MOST_ROOTS = 50;
const MOST_ROUNDS = 50;
/** A round's worth of one worker's events, times a long run. */
const MOST_PER_AUTHOR = 1_000_000;

/** Everything relays have of a run; what they send that is not genuine is dropped on the way. */
export async function fetchHistory(run: Digest, asking: Asking): Promise<readonly SignedEvent[]> {
  const found = new Map<string, SignedEvent>();
  const take = (event: SignedEvent) => {
    found.set(event.id, event);
    asking.onProgress?.(found.size);
  };
  const { since } = asking;
  const history: Filter = { ...historyFilter(run), ...(since === undefined ? {} : { since }) };
  await collectEvents([specFilter(run), history], asking, take);
  await collectChunks([...payloadsOf(found.values()), ...bodiesOf(found.values())], asking, take);
  const spec = asking.spec ?? specsOf(found.values()).get(run);
  if (spec) await collectCopies(spec, asking, found, take);
  await collectSnapshots(snapshotsOf([...found.values()]), asking, take);
  return [...found.values()];
}

/** What workers sent for some rounds, `to` not included, with the payloads that travel apart. */
export async function fetchManifests(
  run: Digest,
  { from, to }: { readonly from: number; readonly to: number },
  relays: Asked,
): Promise<readonly SignedEvent[]> {
  const found = new Map<string, SignedEvent>();
  const take = (event: SignedEvent) => void found.set(event.id, event);
  for (let round = from; round < to; round += MOST_ROUNDS) {
    const some = Math.min(MOST_ROUNDS, to - round);
    const rounds = Array.from({ length: some }, (_, i) => round + i);
    await collectEvents([manifestsOfFilter(run, rounds)], relays, take);
  }
  await collectChunks(payloadsOf([...found.values()]), relays, take);
  return [...found.values()];
}

/** Snapshots of stake with these ids: their events, and the chunks of those that are not inside. */
async function collectSnapshots(
  ids: readonly Digest[],
  asking: Asked,
  take: (event: SignedEvent) => void,
): Promise<void> {
  const roots = new Map<Digest, Set<Digest>>(ids.map((id) => [id, new Set()]));
  await collectEvents(ids.map(snapshotFilter), asking, (event) => {
    take(event);
    const read = readSnapshot(event, asking.sha256);
    if (!read.ok || !('root' in read.value)) return;
    const named = roots.get(read.value.id);
    if (named !== undefined && named.size < MOST_CLAIMS) named.add(read.value.root);
  });
  await collectChunks(
    [...roots.values()].flatMap((named) => [...named]),
    asking,
    take,
  );
}

/** Chunks of these roots, whoever signed them. */
export async function collectChunks(
  roots: readonly Digest[],
  asking: Asked,
  take: (event: SignedEvent) => void,
): Promise<void> {
  const all = [...new Set(roots)];
  for (let i = 0; i < all.length; i += MOST_ROOTS) {
    const some = all.slice(i, i + MOST_ROOTS);
    await collectEvents([chunksFilter(some)], asking, take);
  }
}

/** Payloads that are not inside their manifests. */
const payloadsOf = (events: Iterable<SignedEvent>): readonly Digest[] =>
  [...events].flatMap((event) => {
    const said = readManifest(event, undefined, anyFeatures);
    if (!said.ok || said.value.payload !== undefined) return [];
    return partsOf(said.value).roots.map(({ root }) => root);
  });

/** Outcomes and proofs that are not inside their events. */
const bodiesOf = (events: Iterable<SignedEvent>): readonly Digest[] =>
  [...events].flatMap((event) => apartIn(event)?.root ?? []);

/**
 * What members copied of events that decided rounds: all that is left where authors deleted theirs. Copies name more members by the joins
 * in their outcomes, so it goes on until there are no new ones; nobody else's copies are asked for.
 */
async function collectCopies(
  spec: RunSpec,
  asking: Asked & Pick<Asking, 'since'>,
  found: ReadonlyMap<string, SignedEvent>,
  take: (event: SignedEvent) => void,
): Promise<void> {
  const run = runIdOf(spec);
  const { since, crypto } = asking;
  const asked = new Set<WorkerId>();
  for (;;) {
    const keys = membersIn(spec, found).filter((key) => !asked.has(key));
    if (keys.length === 0) return;
    for (const key of keys) asked.add(key);
    const bundles: (readonly SignedEvent[])[] = [];
    const claims: CopiesClaim[] = [];
    const filters = copiesFilters(run, keys).map((filter) => ({
      ...filter,
      ...(since === undefined ? {} : { since }),
    }));
    await collectEvents(filters, asking, (event) => {
      const read = readCopies(event, run, crypto);
      if (!read.ok) return;
      if ('root' in read.value) claims.push(read.value);
      else bundles.push(read.value);
    });
    const chunks: SignedEvent[] = [];
    const roots = claims.map(({ root }) => root);
    await collectChunks(roots, asking, (event) => chunks.push(event));
    const open = heapChunks(chunks, MOST_BODY_BYTES);
    for (const claim of claims) {
      const bytes = open(claim);
      if (bytes) bundles.push(openCopies(bytes, run, crypto));
    }
    const fresh = bundles.flat().filter(({ id }) => !found.has(id));
    for (const event of fresh) take(event);
    await collectChunks(bodiesOf(fresh), asking, take);
  }
}

/** Founders, and who joined by outcomes that such keys proposed: no stranger can name itself. */
function membersIn(spec: RunSpec, events: ReadonlyMap<string, SignedEvent>): readonly WorkerId[] {
  const chunks = heapChunks(events.values(), MOST_BODY_BYTES);
  const joins = new Map<WorkerId, WorkerId[]>();
  for (const event of events.values()) {
    const proposal = toProposal(event, chunks, featureSet(spec.features));
    if (!proposal?.ok) continue;
    const { key, outcome } = proposal.value;
    joins.set(key, [...(joins.get(key) ?? []), ...outcome.joins.map((join) => join.key)]);
  }
  const members = new Set(spec.founders);
  // a set hands out what is added while it is gone through
  for (const member of members) for (const key of joins.get(member) ?? []) members.add(key);
  return [...members];
}

/** Tables of stake that outcomes name. */
function snapshotsOf(events: readonly SignedEvent[]): readonly Digest[] {
  const chunks = heapChunks(events, MOST_BODY_BYTES);
  const named = events.flatMap((event) => {
    const proposal = toProposal(event, chunks, anyFeatures);
    const id: unknown = proposal?.ok && proposal.value.outcome.features.stake?.snapshot;
    return typeof id === 'string' && isHex32(id) ? [id] : [];
  });
  return [...new Set(named)];
}

/** Hands over stored events until the relays that answer have sent what they have, or a minute passed. */
export async function collectEvents(
  filters: readonly Filter[],
  { relays, signal, onUnanswered }: Asked,
  take: (event: SignedEvent) => void,
): Promise<void> {
  if (filters.length === 0) return;
  const onEvent = (event: SignedEvent) => {
    take(event);
    return false;
  };
  const limits = { waitMs: PATIENCE_MS, maxPerAuthor: MOST_PER_AUTHOR };
  const { unanswered } = await relays.query(filters, { ...limits, signal, onEvent });
  if (unanswered.length > 0) onUnanswered?.(unanswered);
}

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
  await collectChunks(bodiesOf(events.values()), options, take);
  await collectCopies(spec, options, events, take);
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
