/**
 * What a worker of one kind of run is made of: its wire, its first state, and how it plays rounds. Plain averaging is
 * here; certified runs and the Python reference's profile bring their own.
 */
import type { RunEvent } from '../certified/rounds/events.ts';
import type { Journal } from '../certified/rounds/journal.ts';
import type { Signer } from '../network/event.ts';
import type { RelaySet } from '../network/transport/relay-set.ts';
import type { EventSize, SingleEventSizes } from '../network/wire/cost.ts';
import { createWire } from '../network/wire/create-wire.ts';
import type { Wire, WireOptions } from '../network/wire/wire.ts';
import type { Settings } from '../run/settings.ts';
import type { Layout } from '../tensor/params.ts';
import { runWorker } from '../worker/loop.ts';
import type { Ports, Session } from '../worker/ports.ts';
import type { WorkerState } from '../worker/state.ts';
import { type AddedMembers, noMembers } from '../worker/state-file.ts';
import type { BaseModel } from './pretrained/base-model.ts';

/** What of a machine a protocol may use beside the ports of the loop. */
export interface Surroundings {
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly secretKey: Uint8Array;
  /** The published model that is trained, or whose adapters are. */
  readonly base?: BaseModel | undefined;
  /** Where votes are kept. */
  readonly journal: Journal;
}

/** The session of the loop; whatever a protocol reports is heard. */
export interface ProtocolSession extends Session {
  readonly ports: Ports & { report(event: RunEvent): void };
}

/** A protocol whose wire is open. */
export interface OpenProtocol<M extends object> {
  readonly wire: Wire;
  /** Plays the rounds that are left and returns the final state. */
  play(
    start: WorkerState & M,
    session: ProtocolSession,
    surroundings: Surroundings,
  ): Promise<WorkerState>;
}

/** Sizes of the events of a protocol that sends each payload whole, in one event. */
export interface ProtocolSizes extends SingleEventSizes {
  /** Encodes a random delta to measure the event of a round. */
  largestEvent(run: string, layout: Layout, ratio: number): EventSize;
  /** Bytes of the checkpoint event after a round; undefined where the state does not fit one. */
  checkpointBytes(layout: Layout, settings: Settings): number | undefined;
}

/** `M` is what it adds to a worker's state. */
export interface Protocol<M extends object = object> {
  /** How that is written to disk. */
  readonly members: AddedMembers<M>;
  /** Larger payloads are refused unread; default as large as the model may need. */
  readonly maxPayloadBytes?: number | undefined;
  /** Longer events are passed over unread; default any that a frame holds. */
  readonly longestEventBytes?: number | undefined;
  /** Absent where payloads are sent as a manifest and chunks. */
  readonly sizes?: ProtocolSizes | undefined;
  /** The state of a worker that has none yet. */
  first(
    genesis: WorkerState,
    parts: Pick<Surroundings, 'relays'> & {
      readonly signal: AbortSignal;
      onNotice(message: string): void;
    },
  ): Promise<WorkerState & M>;
  open(options: WireOptions): Promise<OpenProtocol<M>>;
}

/** Longest event of our own wire: more than 128 KiB travels in chunks, and a proof holds the text of two events. */
export const LONGEST_EVENT_BYTES = 512 << 10;

/** Everybody averages what they have when a round closes. */
export const averagingProtocol: Protocol = {
  members: noMembers,
  longestEventBytes: LONGEST_EVENT_BYTES,
  first: async (genesis) => genesis,
  open: async (options) => ({
    wire: createWire(options),
    play: (start, session) => runWorker(start, session),
  }),
};
