/** What a certified round needs of the network: verified events as nouns, payloads, and a way to sign, send and send again. */
import type { Manifest } from '../../network/wire/manifests.ts';
import type { Sending } from '../../network/wire/wire.ts';
import type { Digest, EventId } from '../../run/ids.ts';
import type { Join, Leave, Message } from '../../run/vote.ts';
import type { Noun } from './evidence.ts';

/** An event of this worker, signed and not sent yet. */
export interface OwnEvent {
  readonly noun: Noun;
  /** As JSON text: what has to be on disk before it is sent. */
  readonly event: string;
}

export interface Listening {
  /** Every reachable relay has sent what it stored. */
  readonly caughtUp: boolean;
  /** Asks for everything once more. */
  again(): void;
  close(): void;
}

export interface Hearing {
  /** Nouns are handed over as they come, also several times; they are verified, and nothing else. */
  take(noun: Noun): void;
  onCaughtUp?(): void;
}

export interface Control {
  /** Manifests, votes, proposals and ballots of a round. */
  listen(round: number, hearing: Hearing): Listening;
  /** Joins, leaves and faults of the run. */
  listenToMembers(hearing: Hearing): Listening;
  /** Asks all relays for these events; resolves when those that answer have answered. */
  fetch(ids: readonly EventId[], hearing: Hearing): Promise<void>;
  /** The payload of a manifest; undefined when it does not come before the signal aborts, or is not what was signed. */
  pull(manifest: Manifest, signal: AbortSignal): Promise<Uint8Array | undefined>;
  sign(message: Message | Join | Leave): OwnEvent;
  /** Two events that are here, as a proof against their author; undefined when they prove nothing. */
  accuse(run: Digest, events: readonly [EventId, EventId]): OwnEvent | undefined;
  /** Takes an own event of an earlier session in again. */
  restore(event: string): Noun | undefined;
  send(event: string): Sending;
  /** Sends events that are here once more, as they are. */
  resend(ids: readonly EventId[]): void;
  /** Lets go of events of rounds before this one. */
  forgetBefore(round: number): void;
}
