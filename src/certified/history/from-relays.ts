/**
 * Queries relays for a certified run: spec, events, stake snapshots, contributions and self-proving chunks; keeps what
 * members signed within limits per key, per round and in all.
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

/** How a run is read from relays: whom to ask, how to check the answers, and what else is known of the run. */
export interface ReadOptions extends Hashing {
  readonly relays: RelaySet;
  readonly signal: AbortSignal;
  readonly clock?: Clock;
  /** Source of beacon values; without it the history ends with the first round that needs one. */
  readonly beacon?: BeaconSource | undefined;
  /** Stake tables that no relay has. */
  readonly tables?: GatherOptions['tables'] | undefined;
  /** Where else chunks of checkpoints are, in runs that say so. */
  readonly chunks?: CheckpointChunks | undefined;
  readonly limits?: HistoryLimits | undefined;
  /** Unix seconds: events signed before are known already. */
  readonly since?: number | undefined;
  readonly onProgress?: ((have: number) => void) | undefined;
  /** Called with a sentence about what was left out or passed over. */
  onNotice?(message: string): void;
  /** Called with relays that did not finish their answer: they may have more. */
  onUnanswered?(relays: readonly string[]): void;
}

const PATIENCE_MS = 60_000;
/** Values of one list in a filter. */
const MOST_ROOTS = 50;
/** Filters in one question. */
const MOST_FILTERS = 8;
/** What one key may send: so much, and so much for each round of the run. */
const PER_AUTHOR = { atLeast: 65_536, aRound: 256 };
/** Events with the spec that are kept: any one is enough. */
const MOST_SPECS = 8;

/** The spec of a run and events that have it, those of the lowest ids: the same ones in whatever order they come. */
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

/** Manifests of these ids, with the payloads that travel apart. */
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

/** Snapshots of stake with these ids: their events, and the chunks of those that are not inside. */
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
      // any other is the same
      if (!whole.has(id)) take(event, id);
      whole.add(id);
    } else if (named.length < MOST_CLAIMS) {
      named.push(read.value);
      take(event, id);
    }
  });
  await collectChunks([...claims.values()].flat(), asking, (event, { id }) => take(event, id));
}

/** Chunks of these roots that lead to them, one of each, whoever signed them. */
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

/** Hands over stored events until the relays that answer have sent what they have, or a minute passed. */
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

/** Bytes of events, as they are in memory about. */
export interface HistoryLimits {
  /** Of one key in one round; what is of no round counts as one more. */
  readonly perRound: number;
  readonly perKey: number;
  readonly inAll: number;
}

/** An outcome has 4 MiB at most, and a third more in chunks; a proposer may have had to make two. */
const PER_ROUND = 16 << 20;

export const decisionLimits: HistoryLimits = {
  perRound: PER_ROUND,
  perKey: 256 << 20,
  inAll: 1 << 30,
};

/** The same with contributions, of which a round may count two of a key: its own and the one of the round before. */
export const archiveLimits = (payloadBytes: number): HistoryLimits => ({
  perRound: PER_ROUND + 4 * payloadBytes,
  perKey: 1 << 30,
  inAll: 4 * 2 ** 30,
});

/** Where nobody knows whose events count. */
export const strangerLimits: HistoryLimits = {
  perRound: 1 << 20,
  perKey: 16 << 20,
  inAll: 64 << 20,
};

/** Bodies and payloads that one key may name in one round, whatever their size. */
const NAMED_PER_ROUND = 16;
/** What an event takes beside its texts. */
const EVENT_BYTES = 512;

/** Who answers for bytes, and for which round: who signed an event or brought it; a table of stake for itself. */
export interface Charge {
  readonly key: WorkerId | Digest;
  /** -1 for what is of the whole run. */
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

  /** `rounds` is how many the run has: nothing of later ones is kept. */
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

  /** Keeps an event at the expense of its author, or of `charge`; false if it is here or over the limit. */
  keep(event: SignedEvent, charge: Charge = this.chargeOf(event)): boolean {
    const { key, round } = charge;
    if (this.#store.has(event.id) || round >= this.#rounds) return false;
    const bytes = bytesOf(event);
    const isFull = !this.#spend(this.#bytes, charge, bytes, this.#limits.perRound);
    const isKept = !isFull && this.#store.set(event.id, { value: event, owner: key, bytes });
    if (!isKept) this.#left += 1;
    return isKept;
  }

  /** Whether a key may name one more body in this round. */
  mayName(charge: Charge): boolean {
    return this.#spend(this.#named, charge, 1, NAMED_PER_ROUND);
  }

  /** Its author, and the round that its tags name. */
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

/** The round of a run that an event says it is of. */
function roundIn({ tags }: SignedEvent, run: Digest): number | undefined {
  const scope = tags.find(([name, value = '']) => name === 's' && value.startsWith(`${run}/`))?.[1];
  const round = scope === undefined ? Number.NaN : Number(scope.slice(run.length + 1));
  return Number.isSafeInteger(round) && round >= 0 ? round : undefined;
}

const bytesOf = ({ content, tags }: SignedEvent): number =>
  tags.flat().reduce((sum, text) => sum + text.length, EVENT_BYTES + content.length);
