/** One worker's side of a run on its relays: heartbeats and gradients out, verified contributions and beats in. */

import type { Clock } from '../../base/clock.ts';
import type { Notifier } from '../../base/notifier.ts';
import type { BlockCodec } from '../../python/codec/container.ts';
import type { Zstd } from '../../python/codec/zstd.ts';
import type { JsonObject } from '../../python/json.ts';
import type { LateGradient, Reconciliation } from '../../python/wire/late-record.ts';
import type { RoundRecord } from '../../python/wire/round-record.ts';
import type { Beat } from '../../run/beat.ts';
import type { Contribution, Rejection } from '../../run/contribution.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { PackingName } from '../../run/settings.ts';
import type { Shares } from '../../run/shares.ts';
import type { Layout, Params } from '../../tensor/params.ts';
import type { PartialVector } from '../../tensor/partial-vector.ts';
import type { Stripe } from '../attachments/erasure.ts';
import type { SignedEvent, Signer } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { Mine } from '../proof-of-work.ts';
import type { Progress, Sending } from '../transport/delivery.ts';
import type { RelaySet } from '../transport/relay-set.ts';

export type OwnBeat = Omit<Beat, 'worker' | 'createdAt' | 'relays' | 'capabilities'>;

export interface OwnGradient {
  readonly round: number;
  readonly base: Digest;
  readonly steps: number;
  readonly examples: number;
  readonly shares: Shares;
  /** Digest of the outcome before, where rounds are certified. */
  readonly parent?: Digest | undefined;
  /** Id of this worker's last one; undefined in its first. */
  readonly prev: string | undefined;
  /** Δ = before - after plus what was not sent before, f64 by layout. */
  readonly delta: Float64Array;
}

/** What a restart needs to send the same bytes again. */
export interface Sealed {
  /** Signed. On disk it is JSON text, which reads back to the same bytes. */
  readonly event: SignedEvent;
  /** The payload, where it travels beside the event: its chunks are made from both, always the same ones. */
  readonly payload: Uint8Array | undefined;
  /** JSON of all events it takes. */
  readonly eventBytes: number;
}

/** A signed gradient, not sent yet. */
export interface SealedGradient extends Sealed {
  /** Exactly what receivers will decode. */
  readonly sent: PartialVector;
  readonly payloadBytes: number;
}

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
  /** In the reference's JSON. */
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

export interface RoundRequest {
  readonly round: number;
  readonly base: Digest;
  readonly shares: Shares;
  /** Under `async`: gradients of any base and any round newer than `folded` count. */
  readonly anyBase?: { readonly folded: Readonly<Record<WorkerId, number>> };
}

/** What has arrived for a round so far. */
export interface RoundInbox {
  /** One per worker and round, the newest it signed; under `async` a worker may have several rounds in. */
  readonly contributions: ReadonlyMap<string, Contribution>;
  /** Their events, where the profile keeps them. */
  readonly events: ReadonlyMap<string, SignedEvent>;
  /** In order of arrival, one per event; bounded. */
  readonly rejections: readonly Rejection[];
  /** Every reachable relay has sent what it stored. */
  readonly caughtUp: boolean;
  /** How far the payloads under way are, all together; undefined when there are none. */
  pulling(): Progress | undefined;
  /** Ends the wait for payloads under way: each becomes a rejection that says how far it came. */
  giveUp(): void;
  close(): void;
}

export interface Wire {
  readonly me: WorkerId;
  /** Notifies when a beat, a contribution or a rejection arrives. */
  readonly changed: Notifier;
  /** The latest beat of every worker of the run, the own one included once it came back. */
  readonly beats: ReadonlyMap<WorkerId, Beat>;
  /** One that still waits for its turn at a relay gives way to the next sign of life, which counts as taking it. */
  beat(beat: OwnBeat): Sending;
  /** Milliseconds since this worker last gave a sign of life: a beat, or a gradient where peers take it for one. */
  readonly silentMs: number;
  /** Some relay limits how much it is sent: what can be left out should be. */
  readonly isPaced: boolean;
  seal(gradient: OwnGradient): Promise<SealedGradient>;
  /** What receivers decode of it, also after a restart. */
  open(sealed: Sealed, place: Pick<RoundRequest, 'round' | 'shares'>): PartialVector;
  /** Counts it in the open round, and sends it. */
  send(sealed: Sealed): Sending;
  /** Undefined where the profile has no such event. */
  checkpoint(own: OwnCheckpoint): CheckpointSent | undefined;
  /** Gradients of earlier rounds that the relays hold, by round and worker; none where the profile has no late ones. */
  late(request: LateRequest): Promise<readonly LateGradient[]>;
  readonly relays: readonly string[];
  /** Those whose connection is open now. */
  reachable(): readonly string[];
  openRound(request: RoundRequest): RoundInbox;
  traffic(): { readonly bytesSent: number; readonly bytesReceived: number };
  close(): Promise<void>;
}

/** How a worker takes part in a run of the reference's profile. */
export interface ReferenceWire {
  /** Its name where that is not its key: peers that check keys refuse it. */
  readonly worker?: string | undefined;
  /**
   * Hears whom the reference hears: events without our scope tags, workers whose name is not their key, gradients made from
   * any state.
   */
  readonly isCompatible: boolean;
  /** What the worker trains, for its heartbeats. */
  readonly runtime: string;
  /** Relays named in its heartbeats; default those it uses. */
  readonly advertised?: readonly string[] | undefined;
}

/** Which events a run is made of: ours, or those of the Python reference. */
export type ProfileName = 'nostrain/1' | 'nostrain/0';

export interface WireOptions {
  /** Default `nostrain/1`. */
  readonly profile?: ProfileName | undefined;
  readonly reference?: ReferenceWire | undefined;
  readonly run: string;
  readonly layout: Layout;
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly clock: Clock;
  /** Default the pure one; on Node give `nativeSha256`. */
  readonly sha256?: Sha256 | undefined;
  /** Over how many relays payloads are striped; without it each relay gets the whole payload. */
  readonly stripe?: Stripe | undefined;
  /** Does the work that relays want of events (NIP-13); without it such relays get none. */
  readonly mine?: Mine | undefined;
  /** How deltas are packed; default `nstr`, the only way of profile `nostrain/0`. */
  readonly packing?: PackingName | undefined;
  /** `nostrain/0`: how payloads are compressed; default zlib. */
  readonly codec?: BlockCodec | undefined;
  /** `nostrain/0`: reads zstd payloads, and writes them where the codec says so; without it they are refused. */
  readonly zstd?: Zstd | undefined;
  /** `auto`: bytes of events per worker and round; default 65536, one event. */
  readonly eventBudget?: number | undefined;
  /** `nstr` and topk codecs: share of the delta values that is sent, in (0, 1]. */
  readonly ratio: number;
  /** Larger payloads are refused unread. */
  readonly maxContainerBytes: number;
}
