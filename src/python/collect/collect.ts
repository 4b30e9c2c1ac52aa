/**
 * Collects the events of one kind and run from several relays: keeps the newest event of each address, counts refused
 * and duplicate events, and sorts the result independently of arrival.
 */
import { checkpoint } from '../../../kinds/checkpoint.ts';
import { gradient } from '../../../kinds/gradient.ts';
import { heartbeat } from '../../../kinds/heartbeat.ts';
import type { SignedEvent } from '../../network/event.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import { codecReason, judgeClaim, newer } from '../../network/wire/judged.ts';
import type { RejectReason } from '../../run/contribution.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import {
  type EventOf,
  isOfType,
  openReferenceEvent,
  type ReferenceEvent,
} from '../wire/reference-event.ts';
import type { RelayAttempts, RelayFailure, RelayOperation } from '../wire/retries.ts';
import { type ReadingPorts, readRelay } from './read-relay.ts';

/** How long to listen to relays. */
export interface Patience {
  /** Maximum time without a message from the relay; default 2 s. */
  readonly idleMs?: number | undefined;
  /** Maximum total time, from the first connection on; default a minute, or 30 times `idleMs` if that is longer. */
  readonly maxMs?: number | undefined;
}

/** Defaults of `Patience`: idle time, and maximum time absolute and in idle times. */
const IDLE_MS = 2000;
const MAX_MS = 60_000;
const MAX_IDLES = 30;

/** An event that was accepted. */
export interface CollectedEvent<E extends ReferenceEvent = ReferenceEvent> {
  readonly read: E;
  readonly event: SignedEvent;
  readonly eventId: string;
  /** Unix seconds. */
  readonly createdAt: number;
}

type EventType = ReferenceEvent['type'];

interface EventQuery<T extends EventType> {
  readonly type: T;
  readonly run: string;
  /** Whether the name of a worker may differ from its key. */
  readonly anyKey?: boolean | undefined;
  /** Reports whether an event is requested, by its tags. */
  matches(tags: EventTags): boolean;
}

/** Which events to collect. */
export interface CollectRequest<T extends EventType> extends Patience, EventQuery<T> {
  readonly operation: RelayOperation;
  /** Date of the oldest event to query, in Unix seconds. */
  readonly since?: number | undefined;
  /** Reports whether a matching event is out of date. */
  isStale?(kept: CollectedEvent<EventOf<T>>): boolean;
  /** Returns why no more events are needed, if so; default `caught-up` after the relay has sent its stored events. */
  enough?(count: number, isCaughtUp: boolean): string | undefined;
}

/** The tags that are checked before the costly content is decoded; of several tags with a name the last one counts. */
interface EventTags {
  readonly run: string | undefined;
  readonly round: number;
  readonly worker: string | undefined;
}

interface CollectedEvents<E extends ReferenceEvent> {
  readonly events: readonly CollectedEvent<E>[];
  readonly duplicates: number;
  readonly invalid: ReadonlyMap<RejectReason, number>;
  readonly stale: readonly CollectedEvent<E>[];
  readonly notices: readonly string[];
}

/** The events from one relay. */
export interface CollectedAt<E extends ReferenceEvent> extends RelayAttempts, CollectedEvents<E> {
  /** Why the collection ended. */
  readonly reason: string;
}

/** The events from all relays. */
export interface Collection<E extends ReferenceEvent> extends CollectedEvents<E> {
  readonly relays: readonly string[];
  readonly at: readonly CollectedAt<E>[];
  readonly failed: readonly RelayFailure[];
}

/** Limits of an untrusted payload; the largest models sent this way have a million values. */
const LIMITS = { maxContainerBytes: 32 << 20, maxValues: 1 << 24 };
/** Maximum memory of the events of one collection; a round of a hundred workers with the demo's GPT takes 80 MB. */
const MAX_KEPT_BYTES = 256 << 20;
/** Maximum number of stale events kept; further ones are not counted either. */
const MAX_STALE = 10_000;

const kinds = { gradient, heartbeat, checkpoint };

/** Reads all relays concurrently. A relay that fails is reported in `failed`; the others count. */
export async function collect<T extends EventType>(
  relays: readonly string[],
  request: CollectRequest<T>,
  ports: ReadingPorts,
): Promise<Collection<EventOf<T>>> {
  const answers = await Promise.all(relays.map((relay) => collectAt(relay, request, ports)));
  const at = answers.flatMap((answer) => ('reason' in answer ? [answer] : []));
  const slots = new EventSlots<EventOf<T>>();
  for (const kept of at.flatMap(({ events }) => events)) slots.keep(kept);
  const invalid = new Map<RejectReason, number>();
  for (const [reason, count] of at.flatMap((each) => [...each.invalid])) {
    invalid.set(reason, (invalid.get(reason) ?? 0) + count);
  }
  return {
    relays: relays.map(withoutSecrets),
    at,
    failed: answers.flatMap((answer) => ('reason' in answer ? [] : [answer])),
    events: slots.inOrder(),
    duplicates: at.reduce((sum, each) => sum + each.duplicates, slots.duplicates),
    invalid,
    stale: at.flatMap(({ stale }) => stale),
    notices: at.flatMap(({ notices }) => notices),
  };
}

async function collectAt<T extends EventType>(
  relay: string,
  request: CollectRequest<T>,
  ports: ReadingPorts,
): Promise<CollectedAt<EventOf<T>> | RelayFailure> {
  const { operation, type, since, idleMs = IDLE_MS, maxMs } = request;
  const { enough = (_, isCaughtUp) => (isCaughtUp ? 'caught-up' : undefined) } = request;
  const slots = new EventSlots<EventOf<T>>();
  const stale: CollectedEvent<EventOf<T>>[] = [];
  const invalid = new Map<RejectReason, number>();
  const refuse = (reason: RejectReason) => invalid.set(reason, (invalid.get(reason) ?? 0) + 1);
  const end = await readRelay(
    relay,
    {
      operation,
      filter: kinds[type].filter({}, since === undefined ? {} : { since }),
      idleMs,
      maxMs: maxMs ?? Math.max(MAX_MS, MAX_IDLES * idleMs),
      onEvent(event) {
        const kept = readRequested(event, request, ports);
        if (typeof kept === 'string') refuse(kept);
        if (kept === undefined || typeof kept === 'string') return false;
        if (request.isStale?.(kept)) {
          if (stale.length < MAX_STALE) stale.push(kept);
          return false;
        }
        slots.keep(kept);
        return true;
      },
      onRepeated: () => {
        slots.duplicates++;
      },
      onRefused: refuse,
      enough: (isCaughtUp) => (slots.isFull ? 'too-much' : enough(slots.size, isCaughtUp)),
    },
    ports,
  );
  if ('operation' in end) return end;
  const { duplicates } = slots;
  return { ...end, events: slots.inOrder(), duplicates, invalid, stale };
}

/** Returns the event if it is requested, undefined if it is another one, or why it is refused. */
export function readRequested<T extends EventType>(
  event: SignedEvent,
  { run, type, anyKey, matches }: EventQuery<T>,
  { clock, zstd }: Pick<ReadingPorts, 'clock' | 'zstd'>,
): CollectedEvent<EventOf<T>> | RejectReason | undefined {
  const tags = tagsOf(event);
  // other runs share the relay: their events are skipped before their payload is decoded
  if (isReadable(tags) && (tags.run !== run || !matches(tags))) return undefined;
  const opened = openReferenceEvent(event, { ...LIMITS, zstd });
  if (!opened.ok) return codecReason(opened.issue.code);
  const read = opened.value;
  const nowSeconds = Math.floor(clock.now() / 1000);
  const untrue = judgeClaim(event, read.tags, { run, nowSeconds, anyKey });
  if (untrue !== undefined) return untrue.rejection.reason;
  const isOfAnother = read.type === 'checkpoint' && read.body.writer !== read.tags.worker;
  if (isOfAnother || !isOfType(read, type)) return 'malformed';
  return { read, event, eventId: event.id, createdAt: event.created_at };
}

/** Keeps the newest event of each address. */
export class EventSlots<E extends ReferenceEvent> {
  readonly #slots = new Map<string, CollectedEvent<E>>();
  duplicates = 0;
  /** Approximate memory of the events: their texts and their decoded payloads. */
  #bytes = 0;

  get size(): number {
    return this.#slots.size;
  }

  /** Whether the memory limit is reached. */
  get isFull(): boolean {
    return this.#bytes >= MAX_KEPT_BYTES;
  }

  /** Keeps the event, unless the event already stored under its address is newer. */
  keep(kept: CollectedEvent<E>): void {
    // the address contains the worker's name, so different workers have different addresses
    const slot = kept.event.tags.find(([name]) => name === 'd')?.[1] ?? '';
    const before = this.#slots.get(slot);
    if (before) this.duplicates++;
    if (before && !newer(kept, before)) return;
    this.#slots.set(slot, kept);
    this.#bytes += bytesOf(kept) - (before ? bytesOf(before) : 0);
  }

  /** Returns the events by worker (in code points), time and id; checkpoints by round first. */
  inOrder(): readonly CollectedEvent<E>[] {
    const round = ({ read }: CollectedEvent<E>) =>
      read.type === 'checkpoint' ? read.tags.round : 0;
    return [...this.#slots.values()].sort(
      (a, b) =>
        round(a) - round(b) ||
        compareCodePoints(a.read.tags.worker, b.read.tags.worker) ||
        a.createdAt - b.createdAt ||
        compareCodePoints(a.eventId, b.eventId),
    );
  }
}

function bytesOf({ event, read }: CollectedEvent): number {
  const unpacked = read.type === 'gradient' ? 12 * read.payload.stats.selected : 0;
  return 2 * event.content.length + unpacked + 2048;
}

function tagsOf({ tags }: SignedEvent): EventTags {
  const last = (name: string) => tags.findLast((tag) => tag[0] === name)?.[1];
  return { run: last('run'), round: Number(last('round')), worker: last('worker') };
}

/** Reports whether the required tags are present; if not, the event is decoded and refused. */
const isReadable = ({ run, round, worker }: EventTags): boolean =>
  run !== undefined && worker !== undefined && Number.isSafeInteger(round);
