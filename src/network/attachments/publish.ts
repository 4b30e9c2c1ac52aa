/**
 * Sends the chunk events of a payload to relays: the whole payload or one erasure-coded part to each relay
 * (`sendChunks`), or each chunk to a few relays (`distributeChunks`). If several keepers publish one payload,
 * `errandsOf` returns the share of one of them.
 */
import { anySignal, deferred } from '../../base/async.ts';
import { Recent } from '../../base/bounded.ts';
import { utf8 } from '../../base/bytes.ts';
import { CheckpointError } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import type { WorkerId } from '../../run/ids.ts';
import { isSent, type Lifetime, planChunks, splitChunks } from '../chunks/payload.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import { answerOf, type Failure, isTaken, type Progress } from '../transport/delivery.ts';
import type { RelaySet } from '../transport/relay-set.ts';

/** What one relay accepted of some chunks. */
export interface ChunkDelivery extends Required<Failure> {
  readonly taken: number;
  readonly of: number;
  /** Message of the first refusal; empty if there was none. */
  readonly message: string;
}

/** Chunks being sent to several relays. */
export interface ChunkSending {
  /** Returns how many chunks some relay stores, of those that are enough. */
  progress(): Progress;
  /** True as soon as the relays together hold enough to restore the payload, false if they will not. */
  readonly enough: Promise<boolean>;
  /** One per relay, in order. */
  readonly deliveries: readonly Promise<ChunkDelivery>[];
}

/** Relays that chunks are published to. */
export type ChunkRelays = Pick<RelaySet, 'relays' | 'publish' | 'status'>;

/** How an event and its chunks are signed and sent. */
export interface PublishOptions {
  readonly sign: (draft: EventDraft) => SignedEvent;
  readonly lifetime: Lifetime;
  readonly signal: AbortSignal;
  /** Low priority: events that a round needs go first. */
  readonly isPatient?: boolean | undefined;
}

interface ChunkOptions extends PublishOptions {
  readonly relays: ChunkRelays;
  readonly sha256: Sha256;
}

/** Maximum chunk events under way at one relay; fewer if they are low priority, so that a slow line stays free. */
const WINDOW = 16;
const PATIENT_WINDOW = 2;
/** Signed chunk events kept for the slower relays. */
const REMEMBERED = 64;

/** Starts sending `parts`, of which any `need` are enough; relay i of `homes` gets part i modulo their number. */
export function sendChunks(
  parts: readonly Uint8Array[],
  need: number,
  options: ChunkOptions,
  homes: readonly string[] = options.relays.relays,
): ChunkSending {
  const { sha256, lifetime, sign } = options;
  const plans = parts.map((part) => {
    const { count, draft } = planChunks(part, lifetime, sha256);
    const eventOf = remembering(REMEMBERED, (index) => sign(draft(index)));
    return { count, eventOf, stored: new Set<number>() };
  });
  const { promise: enough, settle } = deferred<boolean>();
  const deliveries = homes.map((relay, i) => {
    const { count, eventOf, stored } = plans[i % plans.length]!;
    const onTaken = (index: number) => {
      stored.add(index);
      if (plans.filter((plan) => plan.stored.size === plan.count).length >= need) settle(true);
    };
    return upload(relay, [...Array(count).keys()], options, { eventOf, onTaken });
  });
  void Promise.all(deliveries).then(() => settle(false));
  const progress = () => {
    const counts = plans.map(({ stored }) => stored.size).sort((a, b) => b - a);
    const have = counts.slice(0, need).reduce((sum, count) => sum + count, 0);
    return { have, of: need * (plans[0]?.count ?? 0) };
  };
  return { enough, deliveries, progress };
}

/** Returns a function that makes each value once, as long as it is among the last `count`. */
export function remembering<T>(count: number, make: (index: number) => T): (index: number) => T {
  const recent = new Recent<T>(count);
  return (index) => {
    const value = recent.get(String(index)) ?? make(index);
    recent.set(String(index), value);
    return value;
  };
}

/** Provides the events of chunks, and is told when a relay accepted one. */
interface ChunkEvents {
  eventOf(index: number): SignedEvent | Promise<SignedEvent>;
  onTaken(index: number): void;
  /** Called when the relay accepts nothing more. */
  onUseless?(): void;
}

/** Sends chunks to one relay, several at a time; stops once sending more is known to be useless. */
async function upload(
  relay: string,
  indices: readonly number[],
  { relays, signal, isPatient }: Pick<ChunkOptions, 'relays' | 'signal' | 'isPatient'>,
  { eventOf, onTaken, onUseless }: ChunkEvents,
): Promise<ChunkDelivery> {
  let next = 0;
  let taken = 0;
  let message = '';
  let isTemporary = false;
  let isUseless = false;
  const sendSome = async (): Promise<void> => {
    // a signal of its own, so that the given one has few listeners
    const { signal: linked, release } = anySignal(signal);
    try {
      while (next < indices.length && !isUseless && !linked.aborted) {
        const index = indices[next++]!;
        const how = { only: [relay], signal: linked, isPatient };
        const [outcome] = await relays.publish(await eventOf(index), how);
        if (outcome && isTaken(outcome)) {
          taken++;
          onTaken(index);
          continue;
        }
        if (message === '') ({ message, isTemporary } = answerOf(outcome, relay, relays));
        isUseless ||= outcome === undefined || outcome.attempts === 0;
      }
    } finally {
      release();
    }
  };
  const lanes = Math.min(isPatient ? PATIENT_WINDOW : WINDOW, indices.length);
  await Promise.all(Array.from({ length: lanes }, sendSome)).catch((error) => {
    if (error instanceof CheckpointError) throw error;
    if (message === '') [message, isTemporary] = ['aborted', true];
  });
  if (isUseless) onUseless?.();
  return { relay, taken, of: indices.length, message, isTemporary };
}

/** A chunk to send, and its relays: those that should have it, then those that get it if one of them refuses. */
export interface Errand {
  readonly index: number;
  readonly relays: readonly string[];
}

/** Result of distributing chunks over relays. */
export interface Distribution {
  /** Chunks that no relay took. */
  readonly nowhere: number;
  /** One per relay. */
  readonly deliveries: readonly ChunkDelivery[];
}

/** Sends each chunk to the first `redundancy` relays of its list that accept it. Throws what `eventOf` throws. */
export async function distributeChunks(
  errands: readonly Errand[],
  redundancy: number,
  options: Pick<ChunkOptions, 'relays' | 'signal' | 'isPatient'>,
  events: ChunkEvents,
): Promise<Distribution> {
  const stored = new Map(errands.map(({ index }) => [index, 0]));
  const tried = new Map(errands.map(({ index }) => [index, new Set<string>()]));
  const useless = new Set<string>();
  const deliveries = new Map<string, ChunkDelivery>();
  const onTaken = (index: number) => {
    stored.set(index, stored.get(index)! + 1);
    events.onTaken(index);
  };
  while (!options.signal.aborted) {
    const shares = new Map<string, number[]>();
    for (const { index, relays } of errands) {
      const able = relays.filter((relay) => !useless.has(relay) && !tried.get(index)!.has(relay));
      for (const relay of able.slice(0, Math.max(0, redundancy - stored.get(index)!))) {
        tried.get(index)!.add(relay);
        shares.set(relay, [...(shares.get(relay) ?? []), index]);
      }
    }
    if (shares.size === 0) break;
    const sent = [...shares].map(([relay, indices]) =>
      upload(relay, indices, options, {
        eventOf: events.eventOf,
        onTaken,
        onUseless: () => useless.add(relay),
      }),
    );
    for (const delivery of await Promise.all(sent)) {
      const { taken = 0, of = 0, message = '' } = deliveries.get(delivery.relay) ?? {};
      deliveries.set(delivery.relay, {
        ...delivery,
        taken: taken + delivery.taken,
        of: of + delivery.of,
        message: message || delivery.message,
      });
    }
  }
  const nowhere = [...stored.values()].filter((count) => count === 0).length;
  return { nowhere, deliveries: [...deliveries.values()] };
}

/** The workers that publish one payload together, and which of them is this one. */
export interface Keepers {
  readonly me: WorkerId;
  /** All of them, in any order. */
  readonly all: readonly WorkerId[];
}

/** Copies of each chunk, by different keepers at different relays, if there are enough of both. */
const REDUNDANCY = 2;

/**
 * Returns what a keeper sends of a payload, per copy. Rendezvous hashing over keepers and relays assigns each chunk, so
 * a keeper that leaves moves only its own share. Chunks of zeros are not sent.
 */
export function errandsOf(
  payload: Uint8Array,
  root: string,
  { me, all }: Keepers,
  relays: readonly string[],
): readonly (readonly Errand[])[] {
  const chunks = [...splitChunks(payload).entries()].filter(([index, chunk]) =>
    isSent(chunk, index),
  );
  return Array.from(
    { length: Math.min(REDUNDANCY, Math.max(all.length, relays.length)) },
    (_, copy) =>
      chunks.flatMap(([index]): readonly Errand[] => {
        const chunkKey = `${root}/${index}`;
        const keepers = ranked(all, chunkKey);
        if (keepers[copy % keepers.length] !== me) return [];
        const order = ranked(relays, chunkKey);
        const first = copy % order.length;
        return [{ index, relays: [...order.slice(first), ...order.slice(0, first)] }];
      }),
  );
}

/** Sorts names by their score for a chunk, the best first. */
function ranked(names: readonly string[], chunkKey: string): readonly string[] {
  return names
    .map((name) => ({ name, score: sha256Hex(utf8(`nostrain:keeper:${chunkKey}:${name}`)) }))
    .sort((a, b) => (a.score < b.score ? -1 : 1))
    .map(({ name }) => name);
}
