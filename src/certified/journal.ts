/** What a worker signed in the round in progress, and what it had seen by then: on disk before anything of it is sent. */
import type { RoundState } from '../consensus/round/round-state.ts';
import type { SignedEvent } from '../network/event.ts';
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
