/** What a member listens to in the events of a run, and for which rounds. */
import type { Manifest } from '../../network/wire/manifests.ts';
import type { Rejection } from '../../run/contribution.ts';
import type { EventId } from '../../run/ids.ts';
import type { ProtocolMessage } from './certified-events.ts';

export interface Hearing {
  /**
   * Called for each arriving message, several times for the same one; `wasRequested` is true for answers to a request.
   */
  take(message: ProtocolMessage, wasRequested?: boolean): void;
  /** Called for an event with a wrong id or signature; the relay is at fault, not the key it names. */
  refuse?(rejection: Rejection, id: EventId | undefined): void;
  onCaughtUp?(): void;
}

export interface Listening {
  /** True once every reachable relay has sent its stored events. */
  readonly caughtUp: boolean;
  /** Requests everything again, also on connections that stayed open; only new messages are taken. */
  renew(): void;
  /** Ends the subscription and its downloads. */
  close(): void;
}

export interface RoundListening extends Listening {
  /** Downloads the payload of a manifest; undefined if its hash is wrong or the round closes first. */
  pull(manifest: Manifest): Promise<Uint8Array | undefined>;
}

export const answering = (hearing: Hearing): Hearing => ({
  take: (message) => hearing.take(message, true),
  refuse: (rejection, id) => hearing.refuse?.(rejection, id),
});
