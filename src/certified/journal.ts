/** The vote journal: what a worker signed in the round in progress and what it had seen by then, on disk before anything of it is sent. */
import type { RoundState } from '../consensus/round/round-state.ts';
import { parseEvent, type SignedEvent } from '../network/event.ts';
import type { Digest } from '../run/ids.ts';

export interface Entry {
  readonly round: number;
  /** The outcome it follows. */
  readonly parent: Digest;
  readonly machine: RoundState;
  /** Own events by the content they were signed for: a retry sends the same bytes. */
  readonly own: Readonly<Record<string, SignedEvent>>;
  /** How long manifests took to arrive in the last rounds, in milliseconds. */
  readonly delays: readonly number[];
}

export interface Journal {
  /** The last entry; undefined where there is none, or none that can be read. */
  load(): Promise<Entry | undefined>;
  /** Resolves when it is on disk. */
  save(entry: Entry): Promise<void>;
}

/** An entry, or the state of a round alone, as text for the disk. Stakes are larger than what JSON numbers hold. */
export const formatEntry = (entry: Entry | RoundState): string =>
  JSON.stringify(entry, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));

/** The state of a round again. The text is this worker's own; nobody else's is read. */
export const parseRoundState = (text: string): RoundState => JSON.parse(text, revive) as RoundState;

/** An entry again; undefined for what is none. Throws where the text is no JSON. */
export function parseEntry(text: string): Entry | undefined {
  const entry = JSON.parse(text, revive) as Entry;
  const isOne =
    Number.isSafeInteger(entry.round) &&
    typeof entry.parent === 'string' &&
    Object.values(entry.own).every((event) => parseEvent(event).ok);
  return isOne && entry.machine.round === entry.round ? entry : undefined;
}

/** Only the weights of committees are numbers beyond JSON. */
const revive = (key: string, value: unknown): unknown =>
  key === 'weights' && Array.isArray(value) ? value.map((each) => BigInt(each)) : value;
