/** What a worker of profile `nostrain/0` sends beyond any worker's events, and how it takes part. */

import type { JsonObject } from '../../formats/python-json.ts';
import type { Sending } from '../../network/transport/delivery.ts';
import type { ProfileOptions, WireOptions } from '../../network/wire/wire.ts';
import type { Params } from '../../tensor/params.ts';
import type { BlockCodec, Zstd } from '../codec/container.ts';
import type { LateGradient, Reconciliation } from './late-record.ts';
import type { RoundRecord } from './round-record.ts';

/** A worker's state after a round. */
export interface OwnCheckpoint {
  /** The last completed round. */
  readonly round: number;
  readonly slot: number;
  readonly state: Params;
  /** Outer momentum, in the sign of Δ. */
  readonly momentum: Params;
  readonly runtime: string;
  /** Oldest first. */
  readonly rounds: readonly RoundRecord[];
  readonly late: readonly LateGradient[];
  readonly reconciliations: readonly Reconciliation[];
  /** Unix seconds up to which late gradients were looked for; undefined means now. */
  readonly lateSince: number | undefined;
}

/** A checkpoint, and the event that carries it. */
export interface CheckpointSent {
  /** In the Python reference's JSON. */
  readonly content: JsonObject;
  /** Undefined where the state is too large for an event. */
  readonly sending: Sending | undefined;
}

/** Which late gradients are looked for. */
export interface LateRequest {
  /** Only those of rounds before this one are late. */
  readonly round: number;
  /** Unix seconds; older ones are not looked for. */
  readonly since: number | undefined;
  /** How long the relays may take to answer. */
  readonly waitMs: number;
}

/** How a worker takes part in a run of the Python reference's regressions. */
export interface ReferenceWire {
  /** Its name where that is not its key: peers that check keys refuse it. */
  readonly worker?: string | undefined;
  /**
   * Hears whom the Python reference hears: events without our scope tags, workers whose name is not their key, gradients made
   * from any state.
   */
  readonly isCompatible: boolean;
  /** What the worker trains, for its heartbeats. */
  readonly runtime: string;
  /** Relays named in its heartbeats; default those it uses. */
  readonly advertised?: readonly string[] | undefined;
}

export interface PythonWireOptions extends Omit<WireOptions, 'packing' | 'stripe' | 'eventBudget'> {
  /** Absent where the worker trains anything else, or keeps no summaries of the Python reference. */
  readonly reference?: ReferenceWire | undefined;
  /** How payloads are compressed; default zlib. */
  readonly codec?: BlockCodec | undefined;
  /** Reads zstd payloads, and writes them where the codec says so; without it they are refused. */
  readonly zstd?: Zstd | undefined;
}

/** What only this profile sends and looks for. */
export interface PythonEvents {
  /** Publishes the whole state, where it fits one event. */
  checkpoint(own: OwnCheckpoint): CheckpointSent;
  /** Gradients of earlier rounds that the relays hold, by round and worker. */
  late(request: LateRequest): Promise<readonly LateGradient[]>;
}

/** What the profile itself works with. */
export type ReferenceProfileOptions = ProfileOptions &
  Pick<PythonWireOptions, 'reference' | 'codec' | 'zstd'>;
