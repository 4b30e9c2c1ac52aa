/**
 * A protocol: the wire, the first state and the round loop of one kind of run. Plain averaging is defined here;
 * certified runs and the Python reference's profile define their own.
 */
import type { MemberParts } from '../certified/join.ts';
import type { RunEvent } from '../certified/rounds/events.ts';
import type { EventSize, SingleEventSizes } from '../network/wire/cost.ts';
import { createWire } from '../network/wire/create-wire.ts';
import type { Wire, WireOptions } from '../network/wire/wire.ts';
import type { Settings } from '../run/settings.ts';
import type { Layout } from '../tensor/params.ts';
import { runWorker } from '../worker/loop.ts';
import type { Ports, Session } from '../worker/ports.ts';
import type { WorkerState } from '../worker/state.ts';
import { type AddedMembers, noMembers } from '../worker/state-file.ts';
import type { FirstParameters } from './pretrained/base-model.ts';

/** Parts of the machine that a protocol may use in addition to the ports of the loop. */
export interface Surroundings extends MemberParts {
  /** The published or imported model that is trained. */
  readonly base?: FirstParameters | undefined;
}

/** The session of the loop; its `report` takes the events of any protocol. */
export interface ProtocolSession extends Session {
  readonly ports: Ports & { report(event: RunEvent): void };
}

/** A protocol with an open wire. */
export interface OpenProtocol<M extends object> {
  readonly wire: Wire;
  /** Plays the remaining rounds and returns the final state. */
  play(
    start: WorkerState & M,
    session: ProtocolSession,
    surroundings: Surroundings,
  ): Promise<WorkerState>;
}

/** Event sizes of a protocol that sends each payload in one event. */
export interface ProtocolSizes extends SingleEventSizes {
  /** Encodes a random delta to measure the event of a round. */
  largestEvent(run: string, layout: Layout): EventSize;
  /** Returns the bytes of the checkpoint event after a round; undefined if the state does not fit one event. */
  checkpointBytes(layout: Layout, settings: Settings): number | undefined;
}

/** One kind of run. `M` is the type of the members that it adds to a worker's state. */
export interface Protocol<M extends object = object> {
  /** Reads and writes the added members. */
  readonly members: AddedMembers<M>;
  /** Maximum bytes of a payload; larger ones are refused unread. By default as large as the model may need. */
  readonly maxPayloadBytes?: number | undefined;
  /** Maximum bytes of an event; longer ones are ignored unread. By default any that fits a frame. */
  readonly longestEventBytes?: number | undefined;
  /** Absent if payloads are sent as a manifest and chunks. */
  readonly sizes?: ProtocolSizes | undefined;
  /** Returns the state of a new worker. */
  first(
    genesis: WorkerState,
    parts: Pick<Surroundings, 'relays'> & {
      readonly signal: AbortSignal;
      onNotice(message: string): void;
    },
  ): Promise<WorkerState & M>;
  open(options: WireOptions): Promise<OpenProtocol<M>>;
}

/** Maximum bytes of a native event: payloads over 128 KiB are sent in chunks, and a proof holds two events. */
export const LONGEST_EVENT_BYTES = 512 << 10;

/** Plain averaging: each worker averages the contributions it has when a round closes. */
export const averagingProtocol: Protocol = {
  members: noMembers,
  longestEventBytes: LONGEST_EVENT_BYTES,
  first: async (genesis) => genesis,
  open: async (options) => ({
    wire: createWire(options),
    play: (start, session) => runWorker(start, session),
  }),
};
