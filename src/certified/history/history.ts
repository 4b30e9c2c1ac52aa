/**
 * Reads a run's history from relays by author: first the founders, then members that certified outcomes list, until
 * there are no new ones. Strangers are not queried. If originals are missing, archived votes of members replace them.
 */
import { isHex32 } from '../../base/bytes.ts';
import { apartIn, MOST_BODY_BYTES } from '../../network/attachments/bodies.ts';
import { heapChunks, type PayloadRoot, partsOf } from '../../network/chunks/payload.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Filter } from '../../network/transport/frames.ts';
import { readManifest } from '../../network/wire/manifests.ts';
import type { BeaconSource } from '../../run/committee.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import { anyFeatures, featureSet } from '../../run/spec/features.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import { certifiedAfter } from '../decisions/certificate.ts';
import { type Chain, openingOf } from '../decisions/chain.ts';
import type { Gathered, Ruling } from '../decisions/evidence.ts';
import { keysBehind, seatFounders, seatsFounders } from '../decisions/founders.ts';
import { applyToChain } from '../decisions/outcomes.ts';
import { withoutModel } from '../decisions/replay.ts';
import {
  archivedVotesFilters,
  openArchivedVotes,
  readArchivedVotes,
} from '../wire/archived-votes.ts';
import {
  decisionsBy,
  historyBy,
  historyFilter,
  membersFilter,
  type ProtocolMessage,
  toProtocolMessage,
} from '../wire/certified-events.ts';
import { toProposal } from '../wire/messages.ts';
import {
  archiveLimits,
  type Charge,
  collectChunks,
  collectEvents,
  collectIds,
  collectSnapshots,
  collectSpec,
  decisionLimits,
  type HistoryLimits,
  KeptHistory,
  type ReadOptions,
  strangerLimits,
} from './from-relays.ts';
import { completeBeacons, gather, valueAfter } from './gather.ts';

/** Options of `fetchHistory`: spec and beacon may become known only after relays have answered. */
export interface HistoryQuery extends Omit<ReadOptions, 'beacon'> {
  readonly known?: readonly SignedEvent[] | undefined;
  /** Skips payloads in separate chunks; enough to follow a run without its model. */
  readonly leavesPayloads?: boolean | undefined;
  /** The run's spec, if no relay has it. */
  readonly spec?: RunSpec | undefined;
  /** Returns the state that round 0 starts from; default from the spec. */
  start?(spec: RunSpec): Chain;
  readonly beacon?: ((spec: RunSpec) => BeaconSource | undefined) | undefined;
}

export interface Decisions {
  readonly gathered: Gathered;
  /** Returns the evidence including these additional events. */
  with(more: readonly SignedEvent[]): Gathered;
}

/** Returns the decisions of a run: votes, proposals, member events, stake tables and beacon values. */
export async function decisionsOf(
  spec: RunSpec,
  start: Chain,
  options: ReadOptions,
): Promise<Decisions> {
  const reader = new HistoryReader(spec, start, options, decisionLimits);
  await reader.read();
  options.signal.throwIfAborted();
  return { gathered: reader.gather(), with: (more) => reader.gather(more) };
}

/** Returns all events of a run that its members signed, as far as relays have them; drops invalid events. */
export async function fetchHistory(
  run: Digest,
  asking: HistoryQuery,
): Promise<readonly SignedEvent[]> {
  const { known = [], start, beacon, leavesPayloads, ...options } = asking;
  const served = await collectSpec(run, options);
  const spec = options.spec ?? served.spec;
  if (spec === undefined) return fromAnybody(run, options);
  const from = start?.(spec) ?? openingOf(spec, options);
  const limits = archiveLimits(spec.limits.payloadBytes);
  const reader = new HistoryReader(spec, from, { ...options, beacon: beacon?.(spec) }, limits);
  await reader.read(known);
  if (!leavesPayloads) await reader.readPayloads();
  const { left } = reader.kept;
  if (left > 0)
    options.onNotice?.(`members signed more than the limits allow: skipped ${left} events`);
  return [...served.events, ...reader.kept.events()];
}

/** Returns events by any author, for a run whose spec is unknown. */
async function fromAnybody(run: Digest, asking: ReadOptions): Promise<readonly SignedEvent[]> {
  const kept = new KeptHistory(run, Number.POSITIVE_INFINITY, strangerLimits);
  await collectEvents([historyFilter(run)], asking, (event) => {
    if (kept.keep(event)) asking.onProgress?.(kept.size);
  });
  return kept.events();
}

/** Joins that each relay is asked for to find the sessions of founders, and the time to answer. */
const MOST_JOINS = 500;
const SESSIONS_MS = 10_000;

class HistoryReader {
  readonly #spec: RunSpec;
  readonly #run: Digest;
  readonly #start: Chain;
  readonly #options: ReadOptions;
  readonly kept: KeptHistory;
  readonly #isWhole: boolean;
  readonly #beacons = new Map<number, Digest>();
  readonly #queriedKeys = new Set<WorkerId>();
  readonly #queriedArchives = new Set<WorkerId>();
  readonly #queriedIds = new Set<string>();
  /** Parsed events, so that each gathering parses only new ones. */
  readonly #read = new Map<EventId, ProtocolMessage>();
  #known: readonly SignedEvent[] = [];

  /** With archive limits, contributions are read too. */
  constructor(spec: RunSpec, start: Chain, options: ReadOptions, limits: HistoryLimits) {
    this.#spec = spec;
    this.#run = runIdOf(spec);
    this.#start = withoutModel(start);
    this.#options = options;
    this.#isWhole = limits !== decisionLimits;
    this.kept = new KeptHistory(this.#run, spec.training.rounds, options.limits ?? limits);
  }

  gather(more: readonly SignedEvent[] = []): Gathered {
    const { crypto, tables, parse } = this.#options;
    const known = {
      beacons: this.#beacons,
      crypto,
      parse,
      read: this.#read,
      ...(tables && { tables }),
    };
    return gather([...this.#events(), ...more], { run: this.#run, spec: this.#spec }, known);
  }

  /** Reads until every known member has been queried; `known` events need not be fetched. */
  async read(known: readonly SignedEvent[] = []): Promise<void> {
    this.#known = known;
    await this.#findSessions();
    let keys: ReadonlySet<WorkerId> = new Set([
      ...this.#spec.founders,
      ...keysBehind(this.#start, this.gather()),
    ]);
    for (;;) {
      const fresh = [...keys].filter((key) => !this.#queriedKeys.has(key));
      for (const key of fresh) this.#queriedKeys.add(key);
      await this.#askBy(fresh);
      const followed = await this.#follow();
      const isClosed = [...followed.keys].every((key) => this.#queriedKeys.has(key));
      if (isClosed && (await this.#fetchArchivedVotes(followed.frontier)) === 0) return;
      ({ keys } = isClosed ? await this.#follow() : followed);
    }
  }

  async readPayloads(): Promise<void> {
    const named = this.kept.events().flatMap((event) => {
      const manifest = readManifest(event, undefined, anyFeatures);
      if (!manifest.ok || manifest.value.payload !== undefined) return [];
      const charge = this.kept.chargeOf(event);
      if (manifest.value.bytes > this.#spec.limits.payloadBytes || !this.kept.mayName(charge))
        return [];
      return partsOf(manifest.value).roots.map((part) => ({ ...part, charge }));
    });
    await this.#takeChunks(named);
  }

  /**
   * Reads the joins by which sessions act for founders from the first round on. One answer of each relay is enough:
   * strangers may send any number of joins, and archived votes of other founders list these too.
   */
  async #findSessions(): Promise<void> {
    if (!seatsFounders(this.#start)) return;
    const { relays, signal, crypto } = this.#options;
    const set = featureSet(this.#spec.features);
    const { isSigned } = this.gather();
    const filter = { ...membersFilter(this.#run), limit: MOST_JOINS };
    const { events } = await relays.query([filter], { waitMs: SESSIONS_MS, signal });
    for (const event of events) {
      const join = toProtocolMessage(event, this.#run, crypto, undefined, set);
      if (join?.type !== 'join') continue;
      const seated = seatFounders(this.#start, [join], { isSigned });
      if (seated.ledger.members.some(({ key }) => key === join.key)) this.#keep(event);
    }
  }

  /** Reads the events of these keys, the bodies in chunks, and what they reference. */
  async #askBy(keys: readonly WorkerId[]): Promise<void> {
    const filters = this.#later((this.#isWhole ? historyBy : decisionsBy)(this.#run, keys));
    const fresh: SignedEvent[] = [];
    await collectEvents(filters, this.#asking(), (event) => {
      if (this.#keep(event)) fresh.push(event);
    });
    await this.#askForNamed(fresh, (event) => this.kept.chargeOf(event));
  }

  async #askForNamed(
    fresh: readonly SignedEvent[],
    chargeOf: (event: SignedEvent) => Charge,
  ): Promise<void> {
    await this.#takeChunks(
      fresh.flatMap((event) => {
        const apart = apartIn(event);
        const charge = chargeOf(event);
        if (!apart || apart.bytes > MOST_BODY_BYTES) return [];
        if (!this.#isNew(`${apart.root}/${apart.bytes}`) || !this.kept.mayName(charge)) return [];
        return [{ ...apart, charge }];
      }),
    );
    const { faults, snapshots } = this.#namedBy(fresh);
    await this.#askForProofs(faults, chargeOf);
    const missing = snapshots.filter((id) => !this.#options.tables?.has(id) && this.#isNew(id));
    await collectSnapshots(missing, this.#asking(), (event, id) =>
      this.#keep(event, { key: id, round: -1 }),
    );
  }

  async #askForProofs(
    faults: ReadonlyMap<EventId, Charge>,
    chargeOf: (event: SignedEvent) => Charge,
  ): Promise<void> {
    const missing = [...faults.keys()].filter((id) => !this.kept.has(id) && this.#isNew(id));
    const proofs: SignedEvent[] = [];
    await collectIds(missing, this.#asking(), (event) => {
      if (this.#keep(event, faults.get(event.id))) proofs.push(event);
    });
    if (proofs.length > 0) await this.#askForNamed(proofs, chargeOf);
  }

  /** Reads members' archived votes for rounds that the originals do not decide; returns the number of new events. */
  async #fetchArchivedVotes(frontier: number): Promise<number> {
    const keys = [...this.#queriedKeys].filter((key) => !this.#queriedArchives.has(key));
    for (const key of keys) this.#queriedArchives.add(key);
    const { crypto } = this.#options;
    const filters = this.#later(archivedVotesFilters(this.#run, keys));
    const fresh = new Map<SignedEvent, Charge>();
    const claims: (PayloadRoot & { readonly charge: Charge })[] = [];
    const open = (events: readonly SignedEvent[], charge: Charge) => {
      for (const event of events) if (this.#keep(event, charge)) fresh.set(event, charge);
    };
    await collectEvents(filters, this.#asking(), (event) => {
      const charge = this.kept.chargeOf(event);
      if (charge.round < frontier || !this.kept.mayName(charge)) return;
      const read = readArchivedVotes(event, this.#run, crypto);
      if (!read.ok) return;
      if (!('root' in read.value)) open(read.value, charge);
      else if (read.value.bytes <= MOST_BODY_BYTES) claims.push({ ...read.value, charge });
    });
    // one at a time: chunks are dropped once their events are read
    for (const claim of claims) {
      const chunks: SignedEvent[] = [];
      await collectChunks([claim], this.#asking(), (event) => chunks.push(event));
      const bytes = heapChunks(chunks, MOST_BODY_BYTES)(claim);
      if (bytes) open(openArchivedVotes(bytes, this.#run, crypto), claim.charge);
    }
    await this.#askForNamed([...fresh.keys()], (event) => fresh.get(event)!);
    return fresh.size;
  }

  #takeChunks(wanted: readonly (PayloadRoot & { readonly charge: Charge })[]): Promise<void> {
    return collectChunks(wanted, this.#asking(), (event, { charge }) => this.#keep(event, charge));
  }

  /** Returns the fault proofs and stake tables that outcomes reference. */
  #namedBy(events: readonly SignedEvent[]) {
    const { message } = this.gather();
    const faults = new Map<EventId, Charge>();
    const { stake } = this.#spec;
    const snapshots = new Set<Digest>(stake.source === 'none' ? [] : [stake.snapshot]);
    for (const event of events) {
      const proposal = message(event.id);
      if (proposal?.type !== 'proposal') continue;
      const { outcome } = proposal;
      for (const id of outcome.faults) faults.set(id, this.kept.chargeOf(event));
      const id: unknown = outcome.features.stake?.snapshot;
      if (typeof id !== 'string' || !isHex32(id) || snapshots.has(id)) continue;
      if (this.kept.mayName(this.kept.chargeOf(event))) snapshots.add(id);
    }
    return { faults, snapshots: [...snapshots] };
  }

  /**
   * Follows the run as far as beacon values are known. Members that are only proposed count if outcomes cannot be
   * followed.
   */
  async #follow(): Promise<Pick<Followed, 'keys' | 'frontier'>> {
    const { beacon, signal } = this.#options;
    const gathered = this.gather();
    if (beacon !== undefined) {
      // a value that does not exist yet belongs to an undecided round
      const find = (time: number) =>
        valueAfter(this.#spec, beacon, time, signal).catch(() => undefined);
      await completeBeacons(this.#start, gathered, this.#beacons, find);
    }
    const { keys, frontier, isBlind } = followAll(this.#start, gathered);
    if (!isBlind) return { keys, frontier };
    return { keys: new Set([...keys, ...namedBy(this.#spec, this.#events())]), frontier };
  }

  /** Restricts filters to events since the query's time. */
  #later(filters: readonly Filter[]): readonly Filter[] {
    const { since } = this.#options;
    return since === undefined ? filters : filters.map((filter) => ({ ...filter, since }));
  }

  #events(): readonly SignedEvent[] {
    return [...this.#known, ...this.kept.events()];
  }

  #keep(event: SignedEvent, charge?: Charge): boolean {
    const isKept = this.kept.keep(event, charge);
    if (isKept) this.#options.onProgress?.(this.kept.size);
    return isKept;
  }

  #isNew(id: string): boolean {
    const isNew = !this.#queriedIds.has(id);
    this.#queriedIds.add(id);
    return isNew;
  }

  #asking(): ReadOptions & { readonly rounds: number } {
    return { ...this.#options, rounds: this.#spec.training.rounds };
  }
}

export interface Followed {
  /** All members so far, including the next round's. */
  readonly keys: ReadonlySet<WorkerId>;
  /** First round at which a branch ends. */
  readonly frontier: number;
  /** A branch ends because a beacon value or stake table is missing; it may continue. */
  readonly isBlind: boolean;
}

/** Follows every certified branch to its end, applying each outcome once. */
function followAll(start: Chain, events: Gathered): Followed {
  const keys = new Set<WorkerId>();
  const chains = new Map<Digest, Chain>([[start.parent, start]]);
  let frontier = Number.POSITIVE_INFINITY;
  let isBlind = false;
  const note = (verdict: Ruling<unknown>) => {
    isBlind ||= 'missing' in verdict && verdict.missing.some(({ what }) => UNSEEN.includes(what));
  };
  // iteration includes entries added during the loop
  for (const chain of chains.values()) {
    for (const key of keysBehind(chain, events)) keys.add(key);
    const after = certifiedAfter(chain, events);
    note(after);
    let goesOn = false;
    for (const { outcome, certificate } of after.ok ? after.value : []) {
      const next = applyToChain(chain, outcome, events);
      note(next);
      if (next.ok) chains.set(certificate.digest, next.value);
      goesOn ||= next.ok;
    }
    if (!goesOn) frontier = Math.min(frontier, chain.round);
  }
  return { keys, frontier, isBlind };
}

/** Evidence without which committees are unknown. */
const UNSEEN: readonly string[] = ['beacon', 'snapshot'];

/** Maximum keys to query for while no chain can be followed: inventing a key costs a member nothing. */
const MOST_BLIND = 4096;

/** Returns members named in outcomes that founders and their invitees proposed, for chains that cannot be followed. */
function namedBy(spec: RunSpec, events: readonly SignedEvent[]): readonly WorkerId[] {
  const chunks = heapChunks(events, MOST_BODY_BYTES);
  const joins = new Map<WorkerId, WorkerId[]>();
  for (const event of events) {
    const proposal = toProposal(event, chunks, featureSet(spec.features));
    if (!proposal?.ok) continue;
    const { key, outcome } = proposal.value;
    joins.set(key, [...(joins.get(key) ?? []), ...outcome.joins.map((join) => join.key)]);
  }
  const members = new Set(spec.founders);
  for (const member of members) {
    for (const key of joins.get(member) ?? []) if (members.size < MOST_BLIND) members.add(key);
  }
  return [...members];
}
