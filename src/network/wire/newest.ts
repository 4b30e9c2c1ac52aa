/** Which of two events of one worker and round counts: the later one, and of one second the one with the lower id (NIP-01). */

interface Dated {
  /** Unix seconds. */
  readonly createdAt: number;
  readonly eventId: string;
}

/** Whether `a` takes the place of `b`; never true both ways, so the outcome does not depend on arrival. */
export const newer = (a: Dated, b: Dated): boolean =>
  a.createdAt !== b.createdAt ? a.createdAt > b.createdAt : a.eventId < b.eventId;

/** The key under which one contribution replaces another. */
export const slotOf = ({ worker, round }: { worker: string; round: number }): string =>
  `${round}:${worker}`;
