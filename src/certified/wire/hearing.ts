/** What a member listens to in the events of a run, and for which rounds. */
import type { Subscription } from '../../network/transport/relay-set.ts';
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

export interface RoundListening extends Subscription {
  /** Downloads the payload of a manifest; undefined if its hash is wrong or the round closes first. */
  pull(manifest: Manifest): Promise<Uint8Array | undefined>;
}

export const answering = (hearing: Hearing): Hearing => ({
  take: (message) => hearing.take(message, true),
  refuse: (rejection, id) => hearing.refuse?.(rejection, id),
});
