/** Collects the events of one kind and run as they come in: reads and counts them, keeps the newest of each address, and gives them in an order that does not depend on arrival. */

import type { SignedEvent } from '../../network/event.ts';
import { codecReason, judgeClaim } from '../../network/wire/judged.ts';
import { newer } from '../../network/wire/newest.ts';
import type { RejectReason } from '../../run/contribution.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import type { Zstd } from '../codec/zstd.ts';
import { openReferenceEvent, type ReferenceEvent } from '../wire/reference-event.ts';

/** An event that counts. */
export interface Kept<E extends ReferenceEvent = ReferenceEvent> {
  readonly read: E;
  readonly event: SignedEvent;
  readonly eventId: string;
  /** Unix seconds. */
  readonly createdAt: number;
}

/** What is looked for. */
export interface Wanted<E extends ReferenceEvent> {
  readonly run: string;
  readonly isOf: (read: ReferenceEvent) => read is E;
  /** Whether it is looked for, by what its tags say. */
  matches(tags: Tags): boolean;
  readonly nowSeconds: number;
  /** Whether workers may go by a name that is not their key. */
  readonly anyKey?: boolean | undefined;
  /** Without it payloads compressed with zstd are refused. */
  readonly zstd?: Zstd | undefined;
}

/** The tags by which events are told apart before anything costly is read; the last of a name counts. */
export interface Tags {
  readonly run: string | undefined;
  readonly round: number;
  readonly worker: string | undefined;
}

/** Of a payload from a stranger; the largest models people send this way have a million values. */
const LIMITS = { maxContainerBytes: 32 << 20, maxValues: 1 << 24 };
/** Memory that one collection may keep; a round of a hundred workers with the demo's GPT takes 80 MB. */
const MAX_KEPT_BYTES = 256 << 20;

export class EventCollector<E extends ReferenceEvent> {
  readonly #wanted: Wanted<E>;
  readonly #slots = new Map<string, Kept<E>>();
  readonly #invalid = new Map<RejectReason, number>();
  #duplicates = 0;
  #bytes = 0;

  constructor(wanted: Wanted<E>) {
    this.#wanted = wanted;
  }

  get size(): number {
    return this.#slots.size;
  }

  get duplicates(): number {
    return this.#duplicates;
  }

  get invalid(): ReadonlyMap<RejectReason, number> {
    return this.#invalid;
  }

  /** It keeps as much as it may. */
  get isFull(): boolean {
    return this.#bytes >= MAX_KEPT_BYTES;
  }

  /** Everything kept, by worker, time and id, in code points; checkpoints by round first. */
  inOrder(): readonly Kept<E>[] {
    return sorted([...this.#slots.values()]);
  }

  repeat(): void {
    this.#duplicates++;
  }

  refuse(reason: RejectReason): void {
    this.#invalid.set(reason, (this.#invalid.get(reason) ?? 0) + 1);
  }

  /** The event when it is one of those looked for, read but not kept yet. */
  read(event: SignedEvent): Kept<E> | undefined {
    const tags = tagsOf(event);
    const { run, nowSeconds, zstd, anyKey } = this.#wanted;
    // other runs share the relay: theirs are passed over before their payload is opened
    if (isReadable(tags) && (tags.run !== run || !this.#wanted.matches(tags))) return undefined;
    const read = openReferenceEvent(event, { ...LIMITS, zstd });
    if (!read.ok) {
      this.refuse(codecReason(read.issue.code));
      return undefined;
    }
    const untrue = judgeClaim(event, read.value.said, { run, nowSeconds, anyKey });
    const isOfAnother =
      read.value.type === 'checkpoint' && read.value.body.writer !== read.value.said.worker;
    if (untrue !== undefined || isOfAnother || !this.#wanted.isOf(read.value)) {
      this.refuse(untrue?.rejection.reason ?? 'malformed');
      return undefined;
    }
    return { read: read.value, event, eventId: event.id, createdAt: event.created_at };
  }

  /** Keeps it, or the one that was there before. */
  keep(kept: Kept<E>): void {
    const slot = slotOf(kept.event);
    const before = this.#slots.get(slot);
    if (before) this.#duplicates++;
    if (before && !newer(kept, before)) return;
    this.#slots.set(slot, kept);
    this.#bytes += bytesOf(kept) - (before ? bytesOf(before) : 0);
  }
}

/** One collection out of those of several relays; what a relay brings that another brought is a duplicate. */
export function merged<E extends ReferenceEvent>(
  collections: readonly (readonly Kept<E>[])[],
): { readonly events: readonly Kept<E>[]; readonly duplicates: number } {
  const slots = new Map<string, Kept<E>>();
  let duplicates = 0;
  for (const kept of collections.flat()) {
    const slot = slotOf(kept.event);
    const before = slots.get(slot);
    if (before) duplicates++;
    if (!before || newer(kept, before)) slots.set(slot, kept);
  }
  return { events: sorted([...slots.values()]), duplicates };
}

function sorted<E extends ReferenceEvent>(events: Kept<E>[]): readonly Kept<E>[] {
  const round = ({ read }: Kept<E>) => (read.type === 'checkpoint' ? read.said.round : 0);
  return events.sort(
    (a, b) =>
      round(a) - round(b) ||
      compareCodePoints(a.read.said.worker, b.read.said.worker) ||
      a.createdAt - b.createdAt ||
      compareCodePoints(a.eventId, b.eventId),
  );
}

/** Its author wrote the worker's name into it, so an address is one author's. */
const slotOf = ({ tags }: SignedEvent): string => tags.find(([name]) => name === 'd')?.[1] ?? '';

function tagsOf({ tags }: SignedEvent): Tags {
  const last = (name: string) => tags.findLast((tag) => tag[0] === name)?.[1];
  return { run: last('run'), round: Number(last('round')), worker: last('worker') };
}

/** Whether the tags say what the event is about; where they do not, it is read and refused. */
const isReadable = ({ run, round, worker }: Tags): boolean =>
  run !== undefined && worker !== undefined && Number.isSafeInteger(round);

/** What keeping it costs, about: its text, and what was unpacked from it. */
function bytesOf({ event, read }: Kept): number {
  const unpacked = read.type === 'gradient' ? 12 * read.payload.stats.selected : 0;
  return 2 * event.content.length + unpacked + 2048;
}
