/**
 * Queries relays for parts of a certified run: spec, events, stake snapshots, contributions and chunks. Stores what
 * members signed within limits per key, per round and in total.
 */
import type { Clock } from '../../base/async.ts';
import { FairStore } from '../../base/bounded.ts';
import { sha256 as pureSha256 } from '../../base/hash.ts';
import { type PayloadRoot, partsOf, toChunk } from '../../network/chunks/payload.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Filter } from '../../network/transport/frames.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import { MOST_CLAIMS } from '../../network/wire/addressed.ts';
import { readManifest } from '../../network/wire/manifests.ts';
import type { BeaconSource } from '../../run/committee.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import { anyFeatures } from '../../run/spec/features.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { Hashing } from '../decisions/evidence.ts';
import type { CheckpointChunks } from '../wire/checkpoints.ts';
import { chunksFilter, specFilter, toServedRun } from '../wire/runs.ts';
import { readSnapshot, snapshotFilter } from '../wire/snapshots.ts';
import type { GatherOptions } from './gather.ts';

/** How a run is read from relays: the relays, how to check their answers, and what is known already. */
export interface ReadOptions extends Hashing {
  readonly relays: RelaySet;
  readonly signal: AbortSignal;
  readonly clock?: Clock;
  /** Source of beacon values; required to join a run that has a beacon. A history read without it ends early. */
  readonly beacon?: BeaconSource | undefined;
  /** Stake tables from other sources than relays, by id. */
  readonly tables?: GatherOptions['tables'] | undefined;
  readonly parse?: GatherOptions['parse'];
  /** Stores and fetches checkpoint chunks; required in a run with `places`, and if this worker holds chunks. */
  readonly chunks?: CheckpointChunks | undefined;
  readonly limits?: HistoryLimits | undefined;
  /** Queries only events dated since this time, in Unix seconds. */
  readonly since?: number | undefined;
  readonly onProgress?: ((have: number) => void) | undefined;
  /** Called with a sentence about skipped data. */
  onNotice?(message: string): void;
  /** Called with relays that did not finish their answer, so they may have more. */
  onUnanswered?(relays: readonly string[]): void;
}

const PATIENCE_MS = 60_000;
/** Maximum values in one list of a filter. */
const MOST_ROOTS = 50;
/** Maximum filters in one query. */
const MOST_FILTERS = 8;
/** Maximum events per author: a base number, and more per round of the run. */
const PER_AUTHOR = { atLeast: 65_536, aRound: 256 };
/** Maximum events kept that carry the spec; one is enough. */
const MOST_SPECS = 8;

/**
 * Returns the spec of a run and the events with the lowest ids that carry it, independent of their order of arrival.
 */
export async function collectSpec(
  run: Digest,
  asking: ReadOptions,
): Promise<{ readonly spec: RunSpec | undefined; readonly events: readonly SignedEvent[] }> {
  let spec: RunSpec | undefined;
  let events: readonly SignedEvent[] = [];
  await collectEvents([specFilter(run)], asking, (event) => {
    const read = toServedRun(event);
    if (!read.ok || read.value.run !== run) return;
    spec = read.value.spec;
    events = [...events, event].sort((a, b) => (a.id < b.id ? -1 : 1)).slice(0, MOST_SPECS);
  });
  return { spec, events };
}

/** Returns the manifests with these ids, and the chunks of their payloads. */
export async function fetchManifests(
  ids: readonly EventId[],
  payloadBytes: number,
  asking: ReadOptions,
): Promise<readonly SignedEvent[]> {
  const events: SignedEvent[] = [];
  await collectIds(ids, asking, (event) => events.push(event));
  const apart = events.flatMap((event) => {
    const manifest = readManifest(event, undefined, anyFeatures);
    if (!manifest.ok || manifest.value.payload !== undefined || manifest.value.bytes > payloadBytes)
      return [];
    return partsOf(manifest.value).roots;
  });
  await collectChunks(apart, asking, (event) => events.push(event));
  return events;
}

export async function collectIds(
  ids: readonly EventId[],
  asking: ReadOptions,
  take: (event: SignedEvent) => void,
): Promise<void> {
  for (let i = 0; i < ids.length; i += MOST_ROOTS) {
    await collectEvents([{ ids: ids.slice(i, i + MOST_ROOTS) }], asking, take);
  }
}

/** Passes the events of these stake snapshots to `take`, and the chunks of those that are not inside their event. */
export async function collectSnapshots(
  ids: readonly Digest[],
  asking: ReadOptions,
  take: (event: SignedEvent, id: Digest) => void,
): Promise<void> {
  const claims = new Map<Digest, (PayloadRoot & { readonly id: Digest })[]>(
    ids.map((id) => [id, []]),
  );
  const whole = new Set<Digest>();
  await collectEvents(ids.map(snapshotFilter), asking, (event) => {
    const read = readSnapshot(event, asking.sha256);
    if (!read.ok) return;
    const { id } = read.value;
    const named = claims.get(id);
    if (!named) return;
    if ('snapshot' in read.value) {
      // one event per snapshot is enough
      if (!whole.has(id)) take(event, id);
      whole.add(id);
    } else if (named.length < MOST_CLAIMS) {
      named.push(read.value);
      take(event, id);
    }
  });
  await collectChunks([...claims.values()].flat(), asking, (event, { id }) => take(event, id));
}

/** Passes valid chunks under these roots to `take`, each once, by any publisher. */
export async function collectChunks<W extends PayloadRoot>(
  wanted: readonly W[],
  asking: ReadOptions,
  take: (event: SignedEvent, wanted: W) => void,
): Promise<void> {
  const { sha256 = pureSha256 } = asking;
  const byName = new Map(wanted.map((each) => [`${each.root}/${each.bytes}`, each]));
  const mostBytes = Math.max(0, ...wanted.map(({ bytes }) => bytes));
  const roots = [...new Set(wanted.map(({ root }) => root))];
  const seen = new Set<string>();
  for (let i = 0; i < roots.length; i += MOST_ROOTS) {
    const some = roots.slice(i, i + MOST_ROOTS);
    await collectEvents([chunksFilter(some)], asking, (event) => {
      const judged = toChunk(event, { maxPayloadBytes: mostBytes }, sha256);
      if (!judged.ok) return;
      const { root, bytes, index } = judged.value;
      const each = byName.get(`${root}/${bytes}`);
      const name = `${root}/${bytes}/${index}`;
      if (each === undefined || seen.has(name)) return;
      seen.add(name);
      take(event, each);
    });
  }
}

/** Passes stored events to `take` until the answering relays have sent all they have, at most a minute per query. */
export async function collectEvents(
  filters: readonly Filter[],
  { relays, signal, onUnanswered, rounds = 0 }: ReadOptions & { readonly rounds?: number },
  take: (event: SignedEvent) => void,
): Promise<void> {
  const onEvent = (event: SignedEvent) => {
    take(event);
    return false;
  };
  const maxPerAuthor = PER_AUTHOR.atLeast + PER_AUTHOR.aRound * rounds;
  for (let i = 0; i < filters.length; i += MOST_FILTERS) {
    const some = filters.slice(i, i + MOST_FILTERS);
    const limits = { waitMs: PATIENCE_MS, maxPerAuthor };
    const { unanswered } = await relays.query(some, { ...limits, signal, onEvent });
    if (unanswered.length > 0) onUnanswered?.(unanswered);
  }
}

/** Limits in approximate bytes of memory. */
export interface HistoryLimits {
  /** Per key and round; events without a round share one more such budget. */
  readonly perRound: number;
  readonly perKey: number;
  readonly inAll: number;
}

/** Budget per key and round: an outcome has up to 4 MiB, a third more as chunks, and a proposer may have made two. */
const PER_ROUND = 16 << 20;

export const decisionLimits: HistoryLimits = {
  perRound: PER_ROUND,
  perKey: 256 << 20,
  inAll: 1 << 30,
};

/**
 * Returns the limits of an archive: contributions included, of which a round may count two per key (its own and a late
 * one).
 */
export const archiveLimits = (payloadBytes: number): HistoryLimits => ({
  perRound: PER_ROUND + 4 * payloadBytes,
  perKey: 1 << 30,
  inAll: 4 * 2 ** 30,
});

/** Limits for runs whose membership is not yet known. */
export const strangerLimits: HistoryLimits = {
  perRound: 1 << 20,
  perKey: 16 << 20,
  inAll: 64 << 20,
};

/** Maximum bodies and payloads that one key may reference in one round. */
const NAMED_PER_ROUND = 16;
/** Memory of an event apart from its texts, in bytes. */
const EVENT_BYTES = 512;

/**
 * Key and round that stored bytes are charged to: the signer or archiver of an event; a stake table is charged to
 * itself.
 */
export interface Charge {
  readonly key: WorkerId | Digest;
  /** -1 for events of the whole run. */
  readonly round: number;
}

export class KeptHistory {
  readonly #run: Digest;
  readonly #rounds: number;
  readonly #limits: HistoryLimits;
  readonly #store: FairStore<SignedEvent>;
  readonly #bytes = new Map<string, number>();
  readonly #named = new Map<string, number>();
  #left = 0;

  /** `rounds` is the number of rounds of the run; events of later rounds are rejected. */
  constructor(run: Digest, rounds: number, limits: HistoryLimits) {
    this.#run = run;
    this.#rounds = rounds;
    this.#limits = limits;
    this.#store = new FairStore({ perOwner: limits.perKey, inAll: limits.inAll });
  }

  get left(): number {
    return this.#left;
  }

  get size(): number {
    return this.#store.size;
  }

  get bytes(): number {
    return this.#store.bytes;
  }

  has(id: string): boolean {
    return this.#store.has(id);
  }

  events(): readonly SignedEvent[] {
    return [...this.#store.entries()].map(([, { value }]) => value);
  }

  /** Stores an event, charged to its author or to `charge`; returns false if it is known or over a limit. */
  keep(event: SignedEvent, charge: Charge = this.chargeOf(event)): boolean {
    const { key, round } = charge;
    if (this.#store.has(event.id) || round >= this.#rounds) return false;
    const bytes = bytesOf(event);
    const isFull = !this.#spend(this.#bytes, charge, bytes, this.#limits.perRound);
    const isKept = !isFull && this.#store.set(event.id, { value: event, owner: key, bytes });
    if (!isKept) this.#left += 1;
    return isKept;
  }

  /** Reports whether a key may reference one more body in this round, and counts it. */
  mayName(charge: Charge): boolean {
    return this.#spend(this.#named, charge, 1, NAMED_PER_ROUND);
  }

  /** Returns the author and the round in the tags. */
  chargeOf(event: SignedEvent): Charge {
    return { key: event.pubkey, round: roundIn(event, this.#run) ?? -1 };
  }

  #spend(spent: Map<string, number>, { key, round }: Charge, more: number, most: number): boolean {
    const spentKey = `${key}/${round}`;
    const sum = (spent.get(spentKey) ?? 0) + more;
    if (sum > most) return false;
    spent.set(spentKey, sum);
    return true;
  }
}

/** Returns the round in an event's scope tag; undefined if it has none. */
function roundIn({ tags }: SignedEvent, run: Digest): number | undefined {
  const scope = tags.find(([name, value = '']) => name === 's' && value.startsWith(`${run}/`))?.[1];
  const round = scope === undefined ? Number.NaN : Number(scope.slice(run.length + 1));
  return Number.isSafeInteger(round) && round >= 0 ? round : undefined;
}

const bytesOf = ({ content, tags }: SignedEvent): number =>
  tags.flat().reduce((sum, text) => sum + text.length, EVENT_BYTES + content.length);
